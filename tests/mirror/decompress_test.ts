import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import type { PackedAs } from "../../src/domain/machine/media.ts";
import { openProgress } from "../../src/decoder/work/byte_source.ts";
import { openUnpacker } from "../../src/decoder/work/unpack.ts";
import { decompress } from "../../src/mirror/media/obtain_file.ts";
import { openTestDecoders } from "../support/decoders.ts";
import { withFolder } from "../support/until.ts";
import { gzip, hashed, joined } from "./vendor_file.ts";

const FOLDER = fromFileUrl(new URL("../fixtures/packed/", import.meta.url));
const read = (name: string) => Deno.readFileSync(join(FOLDER, name));
const PLAIN = read("plain.bin");
const PACKED: Readonly<Record<PackedAs, Uint8Array>> = {
  gzip: await gzip(PLAIN),
  xz: read("plain.xz"),
  zstd: read("plain.zst"),
  bzip2: read("plain.bz2"),
};
const KINDS = Object.keys(PACKED) as PackedAs[];

interface Changes {
  readonly bytesMax?: number;
  readonly signal?: AbortSignal;
}

/** Unpacks bytes in this process, and tells the SHA-256 of what came out. */
async function unpack(compression: PackedAs, body: Uint8Array): Promise<string> {
  const { createHash } = await import("node:crypto");
  const hash = createHash("sha256");
  const progress = openProgress();
  const parts = ReadableStream.from(pieces(body));
  for await (const part of (await openUnpacker(compression))(parts, progress)) {
    progress.gave(part.byteLength);
    hash.update(part);
  }
  return hash.digest("hex");
}

function* pieces(body: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < body.length; at += 65_536) yield body.slice(at, at + 65_536);
}

async function broken(compression: PackedAs, body: Uint8Array): Promise<Error> {
  return await assertRejects(() => unpack(compression, body), Error);
}

/** Decompresses a file by a decoder, and tells the SHA-256 of what came out. */
async function decompressed(
  compression: PackedAs,
  body: Uint8Array,
  { bytesMax, signal = new AbortController().signal }: Changes = {},
): Promise<string> {
  const decoders = openTestDecoders();
  try {
    return await withFolder(async (folder) => {
      const [from, to] = [join(folder, "in"), join(folder, "out")];
      await Deno.writeFile(from, body);
      const { size, sha256 } = await decompress(decoders, {
        compression,
        from,
        to,
        freeBytes: () => Promise.resolve(2 ** 50),
        label: "disk",
        signal,
        onProgress: () => {},
        ...(bytesMax === undefined ? {} : { bytesMax }),
      });
      const written = await Deno.readFile(to);
      assertEquals([written.byteLength, await hashed("SHA-256", written)], [size, sha256]);
      return sha256;
    });
  } finally {
    await decoders.close();
  }
}

async function refused(compression: PackedAs, body: Uint8Array, changes?: Changes) {
  return await assertRejects(() => decompressed(compression, body, changes), AgentError);
}

for (const kind of KINDS) {
  const packed = PACKED[kind];

  Deno.test(`decompress() undoes ${kind}, of one part and of several`, async () => {
    assertEquals(await decompressed(kind, packed), await hashed("SHA-256", PLAIN));
    const twice = await hashed("SHA-256", joined([PLAIN, PLAIN]));
    assertEquals(await unpack(kind, joined([packed, packed])), twice);
  });

  Deno.test(`decompress() refuses ${kind} that is cut anywhere`, async () => {
    const cuts = [0, 1, 3, 5, 12, 40, packed.length >> 1, packed.length - 5, packed.length - 1];
    for (const cut of cuts) await broken(kind, packed.subarray(0, cut));
    // A second part that is cut, too.
    await broken(kind, joined([packed, packed.subarray(0, packed.length - 3)]));
    const error = await refused(kind, packed.subarray(0, packed.length >> 1));
    assertEquals(error.code, "upstream");
    assertStringIncludes(error.message, "Cannot decompress disk: ");
  });

  Deno.test(`decompress() never takes ${kind} with a flipped bit for the file`, async () => {
    const whole = await hashed("SHA-256", PLAIN);
    const step = Math.max(1, Math.floor(packed.length / 120));
    let noticed = 0;
    for (let at = 0; at < packed.length; at += step) {
      const damaged = packed.slice();
      damaged[at] = (damaged[at] ?? 0) ^ (1 << (at % 8));
      const outcome = await unpack(kind, damaged).catch((error) => error);
      // Some bits mean nothing, such as those of a date: then the bytes are the right ones.
      if (outcome instanceof Error) noticed += 1;
      else assertEquals(outcome, whole, `${kind} byte ${at}`);
    }
    assert(noticed > 100, `${noticed} flips were noticed`);
  });

  Deno.test(`decompress() of ${kind} ends at its largest size, and when its caller gives up`, async () => {
    const large = await refused(kind, packed, { bytesMax: 10_000 });
    assertEquals(large.code, "too_large");
    assertStringIncludes(large.message, "it has more than 10000 bytes");
    const given = new AbortController();
    given.abort();
    assertEquals((await refused(kind, packed, { signal: given.signal })).code, "aborted");
  });
}

Deno.test("decompress() undoes what vendors' tools make of xz and zstd", async () => {
  const whole = await hashed("SHA-256", PLAIN);
  assertEquals(await unpack("xz", read("blocks.xz")), whole);
  assertEquals(await unpack("zstd", read("unchecked.zst")), whole);
  // A frame that is to be passed over, before and behind.
  const skipped = new Uint8Array([0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
  assertEquals(await unpack("zstd", joined([skipped, PACKED.zstd, skipped])), whole);
});

Deno.test("decompress() names the features of xz that it does not support", async () => {
  for (const name of ["branch.xz", "sha256.xz"]) {
    const error = await broken("xz", read(name));
    assertStringIncludes(error.message, "a filter or a check that is not known here");
  }
});

Deno.test("decompress() refuses a file of another kind", async () => {
  for (const kind of KINDS) {
    for (const other of KINDS.filter((one) => one !== kind)) {
      await broken(kind, PACKED[other]);
    }
  }
});

Deno.test("decompress() ends bombs by how much larger than the packed file they become", async () => {
  for (const [kind, name] of [["bzip2", "bomb.bz2"], ["zstd", "bomb.zst"]] as const) {
    const error = await refused(kind, read(name));
    assertEquals([kind, error.code], [kind, "too_large"]);
    assertStringIncludes(error.message, "it has more than 268435456 bytes");
  }
});
