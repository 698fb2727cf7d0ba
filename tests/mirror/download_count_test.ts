// The bytes that downloads bring, as /metrics counts them: all that came, whatever became of it.

import { assert, assertEquals } from "@std/assert";
import { withMirror } from "./test_mirror.ts";
import { artifact, ISO, PATH, patterned, rejection } from "./vendor_file.ts";

/** Bytes that were reported with the downloads of a test. */
function counted(): { bytes: number; received: (bytes: number) => void } {
  const count = { bytes: 0, received: (bytes: number) => void (count.bytes += bytes) };
  return count;
}

Deno.test("a download is counted once, and a file that is kept not at all", async () => {
  const count = counted();
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: ISO });
    const found = await artifact(`${server.url}/${PATH}`);
    await Promise.all([mirror.download(found), mirror.download(found)]);
    await mirror.download(found);
    assertEquals(count.bytes, ISO.byteLength);
  }, { received: count.received });
});

Deno.test("the bytes of a download that is finally refused are counted", async () => {
  const count = counted();
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: patterned(300_000, 6) });
    await rejection(mirror.download(await artifact(`${server.url}/${PATH}`)));
    assert(count.bytes >= 300_000, `${count.bytes}`);
    assertEquals(count.bytes % 300_000, 0);
  }, { received: count.received });
});

Deno.test("bytes before and after a cut connection are counted once each", async () => {
  const count = counted();
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: ISO, etag: '"one"' });
    server.faults.set(PATH, [{ kind: "cut", after: 150_000 }]);
    await mirror.download(await artifact(`${server.url}/${PATH}`));
    assertEquals(count.bytes, ISO.byteLength);
  }, { received: count.received });
});
