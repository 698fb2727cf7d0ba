// Decompresses xz, of several blocks and streams, by xz-embedded compiled to WebAssembly. It supports LZMA2
// with CRC32 and CRC64 only; a file with a branch filter or a SHA-256 check is refused, naming the feature.

import { messageOf } from "../../domain/error.ts";
import { openByteSource, type Unpacker } from "./byte_source.ts";

/** The library's result codes. @see xz-embedded, enum xz_ret */
const WORDS: Readonly<Record<string, string>> = {
  "2": "its check is neither CRC32 nor CRC64",
  "3": "its dictionary does not fit into memory",
  "4": "its dictionary is larger than is allowed",
  "5": "it does not begin as xz does",
  "6": "it uses a filter or a check that is not known here: expected LZMA2 with CRC32 or CRC64",
  "7": "it is damaged",
  "8": "it is damaged or cut off",
};

/** Loads the decompressor, whose cost only a packed file pays. */
export async function openXz(): Promise<Unpacker> {
  const { default: xz } = await import("xz-decompress");
  return async function* (parts) {
    const source = openByteSource(parts);
    // The library looks into the first part without asking whether there is one.
    if (await source.ended()) throw new Error("it is empty");
    const stream = new xz.XzReadableStream(ReadableStream.from(source.rest()));
    try {
      for await (const part of stream) yield part;
    } catch (error) {
      const number = /error code (\d+)/.exec(messageOf(error))?.[1] ?? "";
      throw new Error(WORDS[number] ?? messageOf(error), { cause: error });
    }
  };
}
