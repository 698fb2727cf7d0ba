import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { withMirror } from "./test_mirror.ts";
import { artifact, gzip, namesIn, PATH, patterned, rejection } from "./vendor_file.ts";

const MIB = 1024 * 1024;
/** The file system does not tell beforehand: the write itself finds out. */
const UNTOLD = { freeBytes: () => Promise.resolve(Number.POSITIVE_INFINITY) };

smallDiskTest(
  "download() that fills the disk fails with that cause and takes nothing",
  async () => {
    await withMirror(async ({ mirror, server, cacheDir, store }) => {
      await Deno.mkdir(cacheDir);
      await withSmallDisk(cacheDir, 1, async () => {
        const body = patterned(2 * MIB);
        server.files.set(PATH, { body, etag: '"one"' });
        const error = await rejection(
          mirror.download(await artifact(`${server.url}/${PATH}`, { body })),
        );
        assertEquals(error.code, "storage_full");
        assertEquals(await namesIn(join(cacheDir, "partial")), []);
        // What fits is downloaded as if nothing had been.
        const small = patterned(MIB / 2);
        server.files.set("small", { body: small });
        const found = await artifact(`${server.url}/small`, { body: small });
        assertEquals((await mirror.download(found)).size, MIB / 2);
      });
      assertEquals((await store.media.list()).length, 1);
    }, UNTOLD);
  },
);

smallDiskTest("a disk that is filled by unpacking loses nothing but that file", async () => {
  await withMirror(async ({ mirror, server, cacheDir }) => {
    await Deno.mkdir(cacheDir);
    await withSmallDisk(cacheDir, 1, async () => {
      const body = await gzip(new Uint8Array(4 * MIB));
      server.files.set(PATH, { body });
      const found = await artifact(`${server.url}/${PATH}`, { body, compression: "gzip" });
      const error = await rejection(mirror.download(found));
      assertEquals(error.code, "storage_full");
      assertStringIncludes(error.message, "Cannot decompress");
      assertEquals(await namesIn(join(cacheDir, "partial")), []);
    });
  }, UNTOLD);
});
