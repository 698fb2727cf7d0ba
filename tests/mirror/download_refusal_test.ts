import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { join } from "@std/path";
import type { Digest } from "../../src/domain/digest.ts";
import { AgentError } from "../../src/domain/error.ts";
import { FREE_BYTES_MIN } from "../../src/mirror/media/disk.ts";
import { withMirror } from "./test_mirror.ts";
import {
  artifact,
  digestsOf,
  gzip,
  hashed,
  ISO,
  namesIn,
  PATH,
  patterned,
  rejection,
} from "./vendor_file.ts";

Deno.test("download() never names a file with another digest, and forgets its bytes", async () => {
  await withMirror(async ({ mirror, server, cacheDir, store }) => {
    server.files.set(PATH, { body: patterned(300_000, 9), etag: '"one"' });
    const found = await artifact(`${server.url}/${PATH}`);
    const error = await assertRejects(() => mirror.download(found), AgentError);
    assertEquals(error.code, "digest_mismatch");
    assertEquals(await namesIn(cacheDir), ["partial"]);
    assertEquals(await namesIn(join(cacheDir, "partial")), []);
    assertEquals(await store.media.list(), []);
  });
});

Deno.test("download() checks every listed digest, and the caller's", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: ISO });
    const url = `${server.url}/${PATH}`;
    const good = await digestsOf(ISO);
    const bad: Digest = { algorithm: "sha512", value: "0".repeat(128) };
    const mixed = await artifact(url, { digests: [good[0], bad] });
    assertEquals((await rejection(mirror.download(mixed))).code, "digest_mismatch");
    const sha256 = await artifact(url, { digests: [good[0]] });
    const refused = await rejection(mirror.download(sha256, { digest: bad }));
    assertEquals(refused.code, "digest_mismatch");
    await mirror.download(sha256, { digest: good[1] });
    // What is in the cache is held against a digest that is given only now.
    assertEquals(
      (await rejection(mirror.download(sha256, { digest: bad }))).code,
      "digest_mismatch",
    );
    const contrary = { algorithm: "sha256", value: "1".repeat(64) } as const;
    const both = await rejection(mirror.download(sha256, { digest: contrary }));
    assertStringIncludes(both.message, "cannot have both");
  });
});

Deno.test("download() refuses an artifact without a digest unless the caller gives one", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: ISO });
    const bare = await artifact(`${server.url}/${PATH}`, { digests: [] });
    assertEquals((await rejection(mirror.download(bare))).code, "invalid_argument");
    assertEquals(server.requests, []);
    const [, digest] = await digestsOf(ISO);
    const medium = await mirror.download(bare, { digest });
    assertEquals(medium.sha256, await hashed("SHA-256", ISO));
  });
});

Deno.test("download() refuses a file of another size, before it is there where it can", async () => {
  await withMirror(async ({ mirror, server }) => {
    server.files.set(PATH, { body: ISO });
    const found = await artifact(`${server.url}/${PATH}`, { size: 299_999 });
    const error = await rejection(mirror.download(found));
    assertStringIncludes(error.message, "the server has 300000 bytes, expected 299999");
  });
});

Deno.test("download() refuses gzip that is cut or damaged, though its digest is as listed", async () => {
  await withMirror(async ({ mirror, server, cacheDir, store }) => {
    const whole = await gzip(ISO);
    const damaged = whole.slice();
    damaged[damaged.length - 6] = (damaged[damaged.length - 6] ?? 0) ^ 0xff;
    for (const body of [whole.slice(0, -20), damaged, patterned(1000, 5)]) {
      server.files.set(PATH, { body });
      const found = await artifact(`${server.url}/${PATH}`, { body, compression: "gzip" });
      const error = await rejection(mirror.download(found));
      assertEquals(error.code, "upstream");
      assertStringIncludes(error.message, "Cannot decompress");
    }
    const names = await namesIn(join(cacheDir, "partial"));
    assertEquals(names.filter((name) => name.endsWith(".out")), []);
    assertEquals(await store.media.list(), []);
  });
});

Deno.test("download() says which compressions it can undo", async () => {
  await withMirror(async ({ mirror, server }) => {
    const found = await artifact(`${server.url}/${PATH}`, { compression: "lz4" });
    const error = await rejection(mirror.download(found));
    assertEquals(error.code, "invalid_argument");
    assertStringIncludes(
      error.message,
      'its compression is "lz4", expected one of none, gzip, xz, zstd, bzip2',
    );
    assertEquals(server.requests, []);
  });
});

Deno.test("download() leaves room on the disk", async () => {
  await withMirror(async ({ mirror, server, store }) => {
    server.files.set(PATH, { body: ISO });
    const found = await artifact(`${server.url}/${PATH}`);
    assertEquals((await rejection(mirror.download(found))).code, "storage_full");
    assertEquals(await store.media.list(), []);
  }, { freeBytes: () => Promise.resolve(FREE_BYTES_MIN + ISO.byteLength - 1) });
});

Deno.test("download() asks no plain or local server unless the operator allowed it", async () => {
  const resolve = (name: string) =>
    Promise.resolve(name === "inside.example.com" ? ["192.0.2.1", "10.1.2.3"] : []);
  await withMirror(async ({ mirror, server }) => {
    const urls = [
      `${server.url}/${PATH}`,
      "file:///etc/passwd",
      "ftp://example.com/disk.raw",
      "https://user:secret@example.com/disk.raw",
      "https://127.0.0.1/disk.raw",
      "https://0x7f.1/disk.raw",
      "https://2130706433/disk.raw",
      "https://169.254.169.254/disk.raw",
      "https://10.0.0.1/disk.raw",
      "https://172.31.0.1/disk.raw",
      "https://192.168.1.1/disk.raw",
      "https://100.64.0.1/disk.raw",
      "https://[::1]/disk.raw",
      "https://[::ffff:7f00:1]/disk.raw",
      "https://[fe80::1]/disk.raw",
      "https://[fd00::1]/disk.raw",
      "https://[64:ff9b::a00:1]/disk.raw",
      "https://[2002:a00:1::1]/disk.raw",
      "https://inside.example.com/disk.raw",
      "https://nowhere.example.com/disk.raw",
    ];
    for (const url of urls) {
      const error = await rejection(mirror.download(await artifact(url)));
      assertEquals(error.code, "upstream", url);
      assertMatch(error.message, /^Cannot (ask|connect to) /, url);
      assert(!error.message.includes("secret@"), error.message);
    }
    assertEquals(server.requests, []);
  }, { allowHttp: false, upstream: null, resolve });
});
