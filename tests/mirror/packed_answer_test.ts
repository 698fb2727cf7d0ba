// Answers that are packed on the way, and validators that no header should carry back.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { gzipSync } from "node:zlib";
import { VALIDATOR_CHARS_MAX } from "../../src/mirror/web/upstream.ts";
import { edit, withMirror } from "./test_mirror.ts";
import { artifact, ISO, rejection } from "./vendor_file.ts";

const LIST = "v1/index.json";
/** 64 MiB of zeros. */
const BOMB = gzipSync(new Uint8Array(64 * 1024 * 1024));

/** Counts what is taken of a body that would have no end. */
function endless(): { body: ReadableStream<Uint8Array<ArrayBuffer>>; taken: () => number } {
  let taken = 0;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      taken += BOMB.byteLength;
      controller.enqueue(new Uint8Array(BOMB));
    },
  }, { highWaterMark: 0 });
  return { body, taken: () => taken };
}

Deno.test("documents and files are requested without an encoding, and refused in one", async () => {
  await withMirror(async ({ mirror, server, store }) => {
    const encodings = ["gzip", "br", "deflate", "zstd", "GZIP", "gzip, gzip", "x-strange"];
    for (const encoding of encodings) {
      const { body, taken } = endless();
      server.faults.set(LIST, [{
        kind: "answer",
        make: () => new Response(body, { headers: { "content-encoding": encoding } }),
      }]);
      const sync = await mirror.sync();
      assertEquals(sync.outcome, "failed", encoding);
      const [problem] = sync.problems;
      assertEquals(problem?.document, LIST);
      assertStringIncludes(
        problem?.message ?? "",
        `its content encoding is ${
          JSON.stringify(
            encoding.toLowerCase(),
          )
        }, expected "identity"`,
      );
      assertEquals(server.requests.at(-1)?.headers.get("accept-encoding"), "identity");
      // What the sockets between hold is little, and nothing of it was unpacked.
      assert(taken() <= 64 * 1024 * 1024, `${taken()} bytes were taken`);
    }
    assertEquals(await store.index.list(), []);
    assertEquals((await mirror.sync()).outcome, "complete");
  });
});

Deno.test("a file or checksum document in an encoding other than identity is refused", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.files.set("disk.raw", { body: ISO, headers: { "content-encoding": "gzip" } });
    const found = await artifact(`${server.url}/disk.raw`);
    const error = await rejection(mirror.download(found));
    assertEquals(error.code, "upstream");
    assertStringIncludes(error.message, 'its content encoding is "gzip"');
    server.files.set("disk.raw", { body: ISO, headers: { "content-encoding": "identity" } });
    assertEquals((await mirror.download(found)).size, ISO.byteLength);
  });
});

Deno.test("validators are kept up to a length, and sent back unchanged", async () => {
  await withMirror(async ({ mirror, server, store }) => {
    const long = `"${"e".repeat(VALIDATOR_CHARS_MAX)}"`;
    const fitting = `"${"e".repeat(VALIDATOR_CHARS_MAX - 2)}"`;
    for (const [etag, kept] of [[long, null], [fitting, fitting]] as const) {
      edit(server, LIST, (list) => void (list.note = etag.length));
      const file = server.files.get(LIST);
      if (file !== undefined) server.files.set(LIST, { ...file, etag });
      assertEquals((await mirror.sync()).outcome, "complete");
      assertEquals((await store.index.get(LIST))?.etag, kept);
      assertEquals((await mirror.sync()).outcome, "complete");
      const asked = server.requests.findLast(({ path }) => path === LIST);
      assertEquals(asked?.headers.get("if-none-match") ?? null, kept);
    }
  });
});

Deno.test("a validator that an older version has kept too long does not break a sync", async () => {
  await withMirror(async ({ mirror, server, store }) => {
    assertEquals((await mirror.sync()).outcome, "complete");
    const held = await store.index.get(LIST);
    const sync = await store.index.lastSync();
    if (held === undefined || sync === undefined) throw new Error("Nothing was synced");
    const etag = `"${"e".repeat(60_000)}"`;
    await store.index.swap([{ ...held, etag, last_modified: "x".repeat(60_000) }], [], sync);
    assertEquals((await mirror.sync()).outcome, "complete");
    const asked = server.requests.findLast(({ path }) => path === LIST);
    assertEquals([asked?.status, asked?.headers.get("if-none-match")], [200, null]);
    // The next one is conditional again.
    assertEquals((await store.index.get(LIST))?.etag, server.files.get(LIST)?.etag);
  });
});
