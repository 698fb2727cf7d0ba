// Signature documents that somebody wrote to do harm, by real keys: each is judged or refused in plain
// words and in time, by a decoder, whose end is an error of that download alone.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import {
  createCleartextMessage,
  createMessage,
  generateKey,
  type PrivateKey,
  readPrivateKey,
  sign,
} from "openpgp";
import { SIGNATURES_MAX } from "../../src/decoder/work/signature.ts";
import type { Signature } from "../../src/domain/index/artifact.ts";
import type { FoundArtifact } from "../../src/mirror/media/find_artifact.ts";
import { VENDOR_BYTES_MAX } from "../../src/mirror/media/confirm.ts";
import { withFolder } from "../support/until.ts";
import { breakingClearText, repeatedSignature, spacedChecksums } from "./hostile_files.ts";
import { type TestMirror, withMirror } from "./test_mirror.ts";
import { artifact, digestsOf, ISO, rejection } from "./vendor_file.ts";

const [SHA256] = await digestsOf(ISO);
const LIST = `${SHA256.value}  disk.raw\n`;
const WISH = { check: "signature" } as const;

/** A key with its public half as a file has it. */
async function newKey(): Promise<{ secret: PrivateKey; file: string }> {
  const { privateKey, publicKey } = await generateKey({
    type: "curve25519",
    userIDs: [{ name: "Aurora" }],
    date: new Date("2026-01-01T00:00:00Z"),
    format: "armored",
  });
  return { secret: await readPrivateKey({ armoredKey: privateKey }), file: publicKey };
}
const [OURS, THEIRS] = await Promise.all([newKey(), newKey()]);
const DATE = new Date("2026-06-01T00:00:00Z");

async function signatureOver(bytes: Uint8Array, keys: PrivateKey[]): Promise<Uint8Array> {
  const message = await createMessage({ binary: bytes });
  const how = { signingKeys: keys, detached: true, format: "binary", date: DATE } as const;
  return await sign({ message, ...how }) as Uint8Array;
}

async function clearSigned(text: string, key: PrivateKey): Promise<string> {
  const message = await createCleartextMessage({ text });
  return await sign({ message, signingKeys: key, date: DATE });
}

async function withVendor(run: (test: TestMirror) => Promise<void>): Promise<void> {
  await withFolder(async (keyDir) => {
    await Deno.writeTextFile(join(keyDir, "aurora.asc"), OURS.file);
    await withMirror(async (test) => {
      test.server.files.set("disk.raw", { body: ISO });
      serve(test, "SHA256SUMS", LIST);
      await run(test);
    }, { keyDir });
  });
}

function serve({ server }: TestMirror, name: string, body: string | Uint8Array): void {
  server.files.set(name, {
    body: typeof body === "string" ? new TextEncoder().encode(body) : body,
  });
}

async function described(
  { server }: TestMirror,
  kind: string,
  signs: string,
  url: string,
): Promise<FoundArtifact> {
  const found = await artifact(`${server.url}/disk.raw`, { digests: [SHA256] });
  const document = kind === "pgp_clearsigned" ? signs : "SHA256SUMS";
  const source = { format: "gnu", url: `${server.url}/${document}`, filename: "disk.raw" };
  const one: Signature = {
    kind,
    signs: `${server.url}/${signs}`,
    url: `${server.url}/${url}`,
    key_url: null,
  };
  const integrity = { http: null, digests: [{ ...SHA256, source }], signatures: [one] };
  return { ...found, artifact: { ...found.artifact, integrity } };
}

Deno.test("as many signatures as are allowed are judged, over lists and over files", async () => {
  await withVendor(async (test) => {
    const list = await signatureOver(new TextEncoder().encode(LIST), [OURS.secret]);
    serve(test, "list.sig", repeatedSignature(list, SIGNATURES_MAX));
    const file = await signatureOver(ISO, [THEIRS.secret, OURS.secret]);
    serve(test, "file.sig", repeatedSignature(file, SIGNATURES_MAX / 2));
    for (const [signs, url] of [["SHA256SUMS", "list.sig"], ["disk.raw", "file.sig"]] as const) {
      const fresh = test.again();
      for (const { sha256 } of await fresh.files.list()) await fresh.files.remove(sha256);
      const found = await described(test, "pgp_detached", signs, url);
      assertEquals([url, (await fresh.download(found, WISH)).level], [url, "signature"]);
    }
  });
});

Deno.test("a good signature repeated is refused by its number or its size", async () => {
  await withVendor(async (test) => {
    const good = await signatureOver(new TextEncoder().encode(LIST), [OURS.secret]);
    const few = repeatedSignature(good, Math.floor(VENDOR_BYTES_MAX.signature / good.length));
    const cases: [Uint8Array, RegExp][] = [
      [repeatedSignature(good, SIGNATURES_MAX + 1), /it holds 9, expected 1 to 8/],
      [few, /it holds \d+, expected 1 to 8/],
      [repeatedSignature(good, 80_000), /it has more than 65536 bytes/],
      [new Uint8Array(60_000), /Cannot read the signature: /],
    ];
    for (const [body, words] of cases) {
      serve(test, "list.sig", body);
      for (const signs of ["SHA256SUMS", "disk.raw"]) {
        const found = await described(test, "pgp_detached", signs, "list.sig");
        const error = await rejection(test.mirror.download(found, WISH));
        assert(["digest_mismatch", "too_large"].includes(error.code), error.code);
        assertMatch(error.message, words);
      }
    }
  });
});

Deno.test("a clear-signed text of millions of line breaks is refused by its size, or judged", async () => {
  await withVendor(async (test) => {
    const mebi = 1024 * 1024;
    const good = await clearSigned(LIST, OURS.secret);
    const found = await described(test, "pgp_clearsigned", "CHECKSUM", "CHECKSUM");
    serve(test, "CHECKSUM", good);
    assertEquals((await test.mirror.download(found, WISH)).level, "signature");
    for (const { sha256 } of await test.mirror.files.list()) {
      await test.mirror.files.remove(sha256);
    }
    serve(test, "CHECKSUM", breakingClearText(good, 8 * mebi));
    const large = await rejection(test.mirror.download(found, WISH));
    assertEquals(large.code, "too_large");
    // Within the limit, by any signer: a foreign key says nothing, and a broken text is refused.
    const strange = await clearSigned(LIST + "\n".repeat(mebi - 2000), THEIRS.secret);
    serve(test, "CHECKSUM", strange);
    const unknown = await rejection(test.mirror.download(found, WISH));
    assert(["forbidden", "too_large"].includes(unknown.code), unknown.message);
    serve(test, "CHECKSUM", breakingClearText(good, mebi - 2000));
    const changed = await rejection(test.mirror.download(found, WISH));
    assert(["digest_mismatch", "too_large"].includes(changed.code), changed.message);
  });
});

Deno.test("a file that was changed, and one signed as a text, are refused", async () => {
  await withVendor(async (test) => {
    serve(test, "file.sig", await signatureOver(ISO.subarray(1), [OURS.secret]));
    const found = await described(test, "pgp_detached", "disk.raw", "file.sig");
    const other = await rejection(test.mirror.download(found, WISH));
    assertEquals(other.code, "digest_mismatch");
    assertStringIncludes(other.message, "Cannot accept the signature of key");
    const message = await createMessage({ text: "a text" });
    const how = { signingKeys: OURS.secret, detached: true, format: "binary", date: DATE } as const;
    serve(test, "file.sig", await sign({ message, ...how }) as Uint8Array);
    const text = await rejection(test.mirror.download(found, WISH));
    assertStringIncludes(text.message, "it is not over the bytes of a file");
    assertEquals(await test.store.media.list(), []);
  });
});

Deno.test("a checksum document of 8 MiB of spaces is read in time", async () => {
  await withVendor(async (test) => {
    const found = await described(test, "none", "SHA256SUMS", "SHA256SUMS");
    serve(test, "SHA256SUMS", spacedChecksums(8 * 1024 * 1024 - 1000));
    const error = await rejection(test.mirror.download(found, { check: "vendor" }));
    assertStringIncludes(error.message, "does not list disk.raw");
    serve(test, "SHA256SUMS", spacedChecksums(7 * 1024 * 1024) + LIST);
    assertEquals((await test.mirror.download(found, { check: "vendor" })).level, "vendor");
  });
});
