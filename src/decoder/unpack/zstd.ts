// Decompresses zstd. The platform's decompressor takes one frame and does not report a truncated one. So
// frames are split here: their headers give the length of each block, and mark the last.
//
//   file   frame | skippable frame, any number
//   frame  magic, header, block ..., last block, checksum if the header says so
//
// See RFC 8878, section 3.1.

import { type ByteStream, openByteSource, type Unpacker } from "./byte_source.ts";
import { throughTransform, TRANSFORM_OPTIONS } from "./gzip.ts";

const MAGIC = 0xfd2fb528;
/** The first of sixteen magic numbers of skippable frames. */
const SKIPPABLE_MAGIC = 0x184d2a50;
/** Length of a header field by its two flag bits, bytes. */
const DICTIONARY_ID_BYTES = [0, 1, 2, 4] as const;
const CONTENT_SIZE_BYTES = [0, 2, 4, 8] as const;
const CHECKSUM_BYTES = 4;
const BLOCK_RLE = 1;
const BLOCK_RESERVED = 3;

/** Loads the decompressor, whose cost only a packed file pays. */
export async function openZstd(): Promise<Unpacker> {
  const { createZstdDecompress } = await import("node:zlib");
  return async function* (parts, progress) {
    const source = openByteSource(parts);
    if (await source.ended()) throw new Error("it is empty");
    while (!await source.ended()) {
      progress.began();
      const head = await source.take(4);
      const magic = littleEndian(head);
      if ((magic & 0xfffffff0) >>> 0 === SKIPPABLE_MAGIC) {
        const size = littleEndian(await source.take(4));
        for await (const _ of source.parts(size));
        continue;
      }
      if (magic !== MAGIC) throw new Error("it does not begin as zstd does");
      yield* throughTransform(frame(source, head), createZstdDecompress(TRANSFORM_OPTIONS));
    }
  };
}

/** The bytes of one frame, whose first four were taken. */
async function* frame(source: ByteStream, head: Uint8Array): AsyncGenerator<Uint8Array> {
  yield head;
  const descriptor = await source.take(1);
  yield descriptor;
  const flags = descriptor[0] ?? 0;
  const single = (flags & 0x20) !== 0;
  const contentFlag = flags >> 6;
  const contentBytes = single && contentFlag === 0 ? 1 : CONTENT_SIZE_BYTES[contentFlag] ?? 0;
  const windowBytes = single ? 0 : 1;
  yield await source.take(windowBytes + (DICTIONARY_ID_BYTES[flags & 3] ?? 0) + contentBytes);
  for (let last = false; !last;) {
    const header = await source.take(3);
    const value = littleEndian(header);
    last = (value & 1) === 1;
    const kind = (value >> 1) & 3;
    if (kind === BLOCK_RESERVED) throw new Error("it has a block of no known kind");
    yield header;
    yield* source.parts(kind === BLOCK_RLE ? 1 : value >> 3);
  }
  if ((flags & 0x04) !== 0) yield await source.take(CHECKSUM_BYTES);
}

function littleEndian(bytes: Uint8Array): number {
  return bytes.reduceRight((value, byte) => value * 256 + byte, 0);
}
