// A download that no machine boots is refused by its first bytes, and not after its last.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { FoundArtifact } from "../../src/mirror/media/find_artifact.ts";
import { HEAD_BYTES, requireBootableAt } from "../../src/mirror/media/file_format.ts";
import { isoBytes } from "../support/medium.ts";
import { until, withFolder } from "../support/until.ts";
import { type TestMirror, withMirror } from "./test_mirror.ts";
import {
  artifact,
  digestsOf,
  hashed,
  ISO,
  namesIn,
  PATH,
  patterned,
  rejection,
  sizeOf,
} from "./vendor_file.ts";

/** Bytes after which the server of these tests sends nothing more. */
const SENT_BYTES = HEAD_BYTES + 1000;
const SIZE = 300_000;

function beginningWith(text: string): Uint8Array {
  const bytes = patterned(SIZE, 5);
  bytes.set(Array.from(text, (character) => character.charCodeAt(0)));
  return bytes;
}

function stall(server: TestMirror["server"], path: string, body: Uint8Array, after = SENT_BYTES) {
  server.files.set(path, { body, etag: '"one"' });
  server.faults.set(path, [{ kind: "stall", after }]);
}

const QCOW2 = beginningWith("QFI\xfb\x00\x00\x00\x03");

Deno.test("a download is refused by its first bytes with the same error as the whole file", async () => {
  const rows: [string, Uint8Array][] = [
    ["a.img", QCOW2],
    ["a.raw", beginningWith("KDMV\x01")],
    ["a.img", beginningWith("vhdxfile")],
    ["a.raw", beginningWith("\x1f\x8b\x08")],
    ["a.iso", QCOW2],
    ["a.iso", patterned(SIZE)],
  ];
  for (const [name, body] of rows) {
    await withMirror(async ({ mirror, server, cacheDir }) => {
      stall(server, name, body);
      const url = `${server.url}/${name}`;
      const [digest] = await digestsOf(body);
      const error = await rejection(mirror.downloadUrl(url, digest, { booted: true }));
      assertEquals(error.code, "invalid_argument");
      await withFolder(async (folder) => {
        const path = join(folder, name);
        await Deno.writeFile(path, body);
        const whole = await assertRejects(() => requireBootableAt(path, name, url), Error);
        assertEquals(error.message, whole.message);
      });
      assertEquals(server.requests.length, 1);
      assertEquals(await namesIn(join(cacheDir, "partial")), []);
    });
  }
});

Deno.test("a download is completed if its first bytes can boot", async () => {
  await withMirror(async ({ mirror, server }) => {
    const iso = isoBytes(SIZE);
    server.files.set("a.iso", { body: iso });
    server.files.set("a.img", { body: ISO });
    for (const [name, body] of [["a.iso", iso], ["a.img", ISO]] as const) {
      const [digest] = await digestsOf(body);
      const medium = await mirror.downloadUrl(`${server.url}/${name}`, digest, { booted: true });
      assertEquals(await Deno.readFile(medium.path), body);
    }
  });
});

Deno.test("a download that goes on is refused by the bytes of the earlier try", async () => {
  for (const kept of [1000, SENT_BYTES]) {
    await withMirror(async ({ mirror, again, server, cacheDir }) => {
      stall(server, "a.img", QCOW2, kept);
      const [digest] = await digestsOf(QCOW2);
      const url = `${server.url}/a.img`;
      const giveUp = new AbortController();
      const first = rejection(mirror.downloadUrl(url, digest, { signal: giveUp.signal }));
      const partial = join(cacheDir, "partial", `sha256-${await hashed("SHA-256", QCOW2)}`);
      await until("the first part", async () => await sizeOf(partial) === kept);
      giveUp.abort();
      await first;
      const error = await rejection(again().downloadUrl(url, digest, { booted: true }));
      assertStringIncludes(error.message, "it is a qcow2 file, expected a raw disk image");
      assertEquals(server.requests.at(-1)?.headers.get("range"), `bytes=${kept}-`);
      assertEquals(await namesIn(join(cacheDir, "partial")), []);
    });
  }
});

Deno.test("a refusal by format ends the download for one caller, and another still gets the file", async () => {
  await withMirror(async ({ mirror, server }) => {
    let more: ReadableStreamDefaultController<Uint8Array> | undefined;
    server.files.set("a.img", { body: QCOW2 });
    server.faults.set("a.img", [{
      kind: "answer",
      make: () => new Response(new ReadableStream({ start: (made) => void (more = made) })),
    }]);
    const [digest] = await digestsOf(QCOW2);
    const url = `${server.url}/a.img`;
    let begun = 0;
    const any = mirror.downloadUrl(url, digest, { onProgress: (done) => void (begun = done) });
    await until("the request", () => more);
    more?.enqueue(new Uint8Array(QCOW2.subarray(0, SENT_BYTES)));
    await until("the first bytes", () => begun === SENT_BYTES);
    const refused = rejection(mirror.downloadUrl(url, digest, { booted: true }));
    let isRefused = false;
    refused.then(() => isRefused = true);
    let at = SENT_BYTES;
    await until("the refusal", () => {
      // A caller that came late sees them with the next part.
      if (!isRefused && at < SIZE - 1) more?.enqueue(new Uint8Array(QCOW2.subarray(at, ++at)));
      return isRefused;
    });
    assertStringIncludes((await refused).message, "it is a qcow2 file");
    more?.enqueue(new Uint8Array(QCOW2.subarray(at)));
    more?.close();
    assertEquals((await any).sha256, digest.value);
    assertEquals(server.requests.length, 1);
  });
});

Deno.test("an unknown format is refused only at the last location, a known wrong one at each", async () => {
  await withMirror(async ({ mirror, server }) => {
    const iso = isoBytes(SIZE);
    const located = async (first: Uint8Array): Promise<FoundArtifact> => {
      server.files.set("first.iso", { body: first });
      server.files.set(PATH, { body: iso });
      const locations = ["first.iso", PATH].map((path, index) => ({
        url: `${server.url}/${path}`,
        kind: index === 0 ? "primary" as const : "mirror" as const,
        redirects_off_host: null,
      }));
      const found = await artifact("", { body: iso, locations });
      return { ...found, name: "a.iso" };
    };
    const refused = await rejection(mirror.download(await located(QCOW2), { booted: true }));
    assertStringIncludes(refused.message, "found a qcow2 file");
    const medium = await mirror.download(await located(patterned(SIZE, 3)), { booted: true });
    assertEquals(await Deno.readFile(medium.path), iso);
    assert(server.requests.length >= 3);
  });
});
