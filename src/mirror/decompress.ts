// Decompression of a verified file into another, in parts, with an end to what it may write: by size,
// and by how many times larger than the packed file it may be. A packed file of a few kilobytes could
// else fill the disk.

import { dirname } from "@std/path";
import { AgentError, messageOf } from "../domain/error.ts";
import { closing } from "../closing.ts";
import { openDecoder } from "./decoder.ts";
import type { PackedAs } from "./decoding.ts";
import { openFileWriter } from "./file_writer.ts";
import type { FreeBytes } from "./free_space.ts";
import { type Hashes, openHasher } from "./hash.ts";
import { abortedError } from "./time_limits.ts";

/** Largest decompressed file, bytes. */
export const DECOMPRESSED_BYTES_MAX = 64 * 1024 ** 3;
/** How many times larger than the packed file it may be: an empty disk is packed by gzip as 1 : 1000. */
export const RATIO_MAX = 1_000;
/** Bytes up to which the ratio does not matter. */
export const RATIO_FREE_BYTES = 256 * 1024 ** 2;
/** Bytes read at a time. */
const PART_BYTES = 256 * 1024;

/** What is decompressed, and whereto. */
export interface DecompressRequest {
  readonly compression: PackedAs;
  readonly from: string;
  readonly to: string;
  readonly freeBytes: FreeBytes;
  /** For errors. */
  readonly label: string;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: null) => void;
  /** Bytes of the result, if fewer than {@linkcode DECOMPRESSED_BYTES_MAX}. */
  readonly bytesMax?: number;
}

/**
 * Decompresses one file into another, which is on the disk when this returns.
 * @throws {AgentError} `upstream` for a damaged file, `too_large`, `storage_full` or `aborted`
 */
export async function decompress(
  request: DecompressRequest,
): Promise<{ hashes: Hashes; size: number }> {
  const { compression, from, to, freeBytes, label, signal, onProgress } = request;
  const hasher = await openHasher();
  const what = `decompress ${label}`;
  const { size: packed } = await Deno.stat(from);
  const byRatio = Math.max(packed * RATIO_MAX, RATIO_FREE_BYTES);
  const bytesMax = Math.min(request.bytesMax ?? DECOMPRESSED_BYTES_MAX, byRatio);
  const options = { path: to, hasher, bytesMax, folder: dirname(to), freeBytes, what };
  return await closing(await openFileWriter(options), async (file) => {
    try {
      const decode = await openDecoder(compression);
      for await (const part of decode(partsOf(from, signal))) {
        await file.write(part);
        onProgress(hasher.size, null);
      }
      await file.sync();
    } catch (error) {
      if (signal.aborted) throw abortedError(what, signal);
      if (error instanceof AgentError) throw error;
      throw new AgentError("upstream", `Cannot ${what}: ${messageOf(error)}`, { cause: error });
    }
    return { size: hasher.size, hashes: hasher.finish() };
  });
}

/** A file in parts, each in memory of its own. */
async function* partsOf(path: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const file = await Deno.open(path, { read: true });
  try {
    // Ends with the file: read() answers null there.
    for (;;) {
      signal.throwIfAborted();
      const buffer = new Uint8Array(PART_BYTES);
      const count = await file.read(buffer);
      if (count === null) return;
      yield buffer.subarray(0, count);
    }
  } finally {
    file.close();
  }
}
