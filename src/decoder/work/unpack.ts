// Decompresses one file: packed bytes go in, the file comes out, and its digest at the end. The agent
// limits the size by what comes out. A decompressor is loaded on first use, so that only a packed file pays for it.

import { AgentError, messageOf } from "../../domain/error.ts";
import type { JsonObject } from "../../domain/json.ts";
import { COMPRESSIONS, type PackedAs } from "../../domain/machine/media.ts";
import {
  type ByteStream,
  openByteSource,
  type Unpacker,
  type UnpackProgress,
} from "./byte_source.ts";
import { type DecoderWork, isOutOfMemory } from "../decoder_message.ts";

/** Bytes per part of output; as many as the pipe to the agent takes. */
const TRANSFORM_OPTIONS = { chunkSize: 64 * 1024 } as const;

/** @throws {AgentError} `upstream` for a file that is damaged, cut, or gets no further */
export const unpackWork: DecoderWork = async (request, input, output) => {
  const { createHash } = await import("node:crypto");
  const { openProgress } = await import("./byte_source.ts");
  const unpack = await openUnpacker(compressionOf(request));
  const progress = openProgress();
  const hash = createHash("sha256");
  try {
    for await (const part of unpack(counted(input, progress), progress)) {
      progress.gave(part.byteLength);
      hash.update(part);
      await output(part);
    }
    return { sha256: hash.digest("hex") };
  } catch (error) {
    // Out of memory says nothing about the file; it ends the process.
    if (isOutOfMemory(error)) throw error;
    const message = `Cannot ${request.what}: ${messageOf(error)}`;
    throw new AgentError("upstream", message, { cause: error });
  }
};

async function* counted(
  input: AsyncIterable<Uint8Array>,
  progress: UnpackProgress,
): AsyncGenerator<Uint8Array> {
  for await (const part of input) {
    progress.took(part.byteLength);
    yield part;
  }
}

function compressionOf({ compression }: JsonObject): PackedAs {
  const known = COMPRESSIONS.find((name) => name === compression);
  if (known !== undefined) return known;
  throw new AgentError("internal", `Cannot unpack, expected one of ${COMPRESSIONS.join(", ")}`);
}

/** Loads the decompressor of a format. It does not limit the size; the agent does. */
export async function openUnpacker(compression: PackedAs): Promise<Unpacker> {
  switch (compression) {
    case "gzip":
      return await openGzip();
    case "xz":
      return await openXz();
    case "zstd":
      return await openZstd();
    case "bzip2":
      return (await import("./bzip2.ts")).unpackBzip2;
  }
}

/**
 * Takes files of several members and with padding at the end, which vendors publish. The platform's DecompressionStream
 * refuses both.
 */
async function openGzip(): Promise<Unpacker> {
  const { createGunzip } = await import("node:zlib");
  return (parts) => throughTransform(parts, createGunzip(TRANSFORM_OPTIONS));
}

/** The library's result codes. @see xz-embedded, enum xz_ret */
const WORDS: Readonly<Record<string, string>> = {
  "2": "its check is neither CRC32 nor CRC64",
  "3": "its dictionary does not fit into memory",
  "4": "its dictionary is larger than is allowed",
  "5": "it does not begin as xz does",
  "6": "it uses a filter or a check that is not known here, expected LZMA2 with CRC32 or CRC64",
  "7": "it is damaged",
  "8": "it is damaged or cut off",
};

/**
 * xz-embedded compiled to WebAssembly takes files of several blocks and streams. It supports LZMA2 with CRC32 and CRC64
 * only; a file with a branch filter or a SHA-256 check is refused, naming the feature.
 */
async function openXz(): Promise<Unpacker> {
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

const MAGIC = 0xfd2fb528;
/** The first of sixteen magic numbers of skippable frames. */
const SKIPPABLE_MAGIC = 0x184d2a50;
/** Length of a header field by its two flag bits, bytes. */
const DICTIONARY_ID_BYTES = [0, 1, 2, 4] as const;
const CONTENT_SIZE_BYTES = [0, 2, 4, 8] as const;
const CHECKSUM_BYTES = 4;
const BLOCK_RLE = 1;
const BLOCK_RESERVED = 3;

/**
 * The platform's decompressor takes one frame and does not report a truncated one. So frames are split here: their headers
 * give the length of each block, and mark the last.
 *
 *   file   frame | skippable frame, any number
 *   frame  magic, header, block ..., last block, checksum if the header says so
 *
 * @see RFC 8878, section 3.1
 */
async function openZstd(): Promise<Unpacker> {
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

/** The members of a node:stream Duplex that are used here. */
type Transform = NodeJS.ReadWriteStream & AsyncIterable<Uint8Array>;

/** Sends parts through a transform; its errors, and those of the parts, are thrown here. */
async function* throughTransform(
  parts: AsyncIterable<Uint8Array>,
  transform: Transform,
): AsyncGenerator<Uint8Array> {
  // Loaded on first use: each node: module costs milliseconds of start.
  const { pipeline, Readable } = await import("node:stream");
  // A failure destroys the transform, and so ends the loop below with it.
  pipeline(Readable.from(parts), transform, () => {});
  for await (const part of transform) yield part;
}
