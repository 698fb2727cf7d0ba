import { assertEquals } from "@std/assert";
import { until } from "../support/until.ts";
import { withMirror } from "./test_mirror.ts";
import { artifact, digestsOf, ISO, PATH, rejection } from "./vendor_file.ts";

Deno.test("download() goes on by itself when the download that it shared fails", async () => {
  await withMirror(async ({ mirror, server }) => {
    let elsewhere: ReadableStreamDefaultController<Uint8Array> | undefined;
    server.faults.set("elsewhere.raw", [{
      kind: "answer",
      make: () => new Response(new ReadableStream({ start: (made) => void (elsewhere = made) })),
    }]);
    server.files.set(PATH, { body: ISO });
    const [digest] = await digestsOf(ISO);
    const first = rejection(mirror.downloadUrl(`${server.url}/elsewhere.raw`, digest));
    await until("the first request", () => elsewhere);
    let shared = false;
    const found = await artifact(`${server.url}/${PATH}`, { digests: [digest] });
    const second = mirror.download(found, { onProgress: () => shared = true });
    await until("the shared download", () => {
      elsewhere?.enqueue(new Uint8Array(1));
      return shared;
    });
    elsewhere?.close();
    assertEquals((await first).code, "digest_mismatch");
    assertEquals((await second).sha256, digest.value);
  });
});
