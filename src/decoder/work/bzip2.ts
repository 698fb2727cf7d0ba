// Decompresses bzip2, of one stream or several. The library's own stream collects each block in a list of
// numbers, which exceeds the heap for a block of one long run. So its block decoder is called directly, and
// its output is kept as bytes.

import bzip2 from "unbzip2-stream/lib/bzip2.js";
import bitIterator from "unbzip2-stream/lib/bit_iterator.js";
import type { UnpackProgress } from "./byte_source.ts";

/** Bytes of a block before compression, times its level from 1 to 9. */
const BLOCK_BYTES = 100_000;
/** Packed bytes of a block beyond its unpacked size: its tables. */
const BLOCK_HEAD_BYTES = 25_000;
const HEADER_BYTES = 4;
const OUTPUT_PART_BYTES = 256 * 1024;

/** Takes bits from what is buffered; `bytesRead` counts the bytes begun. */
interface BitReader {
  (bits: number | null): number;
  readonly bytesRead: number;
}

/**
 * Decompresses a file. A part of the input must not change until it has been read.
 * @throws {Error} when the input is empty, cut off or damaged
 */
export async function* unpackBzip2(
  parts: AsyncIterable<Uint8Array>,
  progress: UnpackProgress,
): AsyncGenerator<Uint8Array> {
  const iterator = parts[Symbol.asyncIterator]();
  const queue: Uint8Array[] = [];
  let received = 0;
  let ended = false;
  const receive = async (wanted: number) => {
    while (!ended && received < wanted) {
      const next = await iterator.next();
      if (next.done === true) ended = true;
      else if (next.value.byteLength > 0) {
        queue.push(next.value);
        received += next.value.byteLength;
      }
    }
  };
  await receive(HEADER_BYTES);
  if (received === 0) throw new Error("it is empty");
  const bits: BitReader = bitIterator(() => {
    const part = queue.shift();
    if (part === undefined) throw new Error("it is cut off");
    return part;
  });
  let level = 0;
  let crc: number | null = null;
  // Ends with the input, of which each round takes a header or a block.
  for (;;) {
    await receive(bits.bytesRead + (level === 0 ? HEADER_BYTES : blockBytes(level)));
    if (received <= bits.bytesRead) break;
    if (level === 0) {
      progress.began();
      level = inPlainWords(() => bzip2.header(bits), "it does not begin as bzip2 does");
      crc = 0;
      continue;
    }
    const block = openBlock();
    const size = BLOCK_BYTES * level;
    const before: number | null = crc;
    crc = inPlainWords(
      (): number | null => bzip2.decompress(bits, block.add, new Int32Array(size), size, before),
      "it is damaged",
    );
    if (crc === null) level = 0;
    yield* block.parts();
  }
  if (level !== 0) throw new Error("it is cut off");
}

/** Replaces the library's errors, which mean little to its users. */
function inPlainWords<T>(run: () => T, words: string): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof Error && error.name !== "Bzip2Error") throw error;
    throw new Error(words, { cause: error });
  }
}

function blockBytes(level: number): number {
  return BLOCK_HEAD_BYTES + BLOCK_BYTES * level;
}

function openBlock(): { add(byte: number): void; parts(): Iterable<Uint8Array> } {
  const full: Uint8Array[] = [];
  let part = new Uint8Array(OUTPUT_PART_BYTES);
  let size = 0;
  return {
    add(byte) {
      if (size === OUTPUT_PART_BYTES) {
        full.push(part);
        part = new Uint8Array(OUTPUT_PART_BYTES);
        size = 0;
      }
      part[size++] = byte;
    },
    parts: () => size === 0 ? full : [...full, part.subarray(0, size)],
  };
}
