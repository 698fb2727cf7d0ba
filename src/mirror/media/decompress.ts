// Decompression of a verified file into another, in parts, with an end to what it may write: by size,
// and by how many times larger than the packed file it may be. A packed file of a few kilobytes could
// else fill the disk.

import { dirname } from "@std/path";
import { closing } from "../../program/closing.ts";
import type { Decoders } from "../../decoder/pool.ts";
import type { PackedAs } from "../../domain/machine/media_compression.ts";
import { openFileWriter } from "./file_writer.ts";
import type { FreeBytes } from "./free_space.ts";
import { sha256In } from "./hash.ts";
import { abortedError } from "../web/time_limits.ts";

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
 * Decompresses one file into another, which is on the disk when this returns. A decoder does it, which is
 * killed as soon as the caller gives up.
 * @throws {AgentError} `upstream` for a damaged file, or one that gets nowhere; `too_large`,
 *   `storage_full` or `aborted`
 */
export async function decompress(
  decoders: Decoders,
  request: DecompressRequest,
): Promise<{ sha256: string; size: number }> {
  const { compression, from, to, freeBytes, label, signal, onProgress } = request;
  const what = `decompress ${label}`;
  const { size: packed } = await Deno.stat(from);
  const byRatio = Math.max(packed * RATIO_MAX, RATIO_FREE_BYTES);
  const bytesMax = Math.min(request.bytesMax ?? DECOMPRESSED_BYTES_MAX, byRatio);
  const options = { path: to, bytesMax, folder: dirname(to), freeBytes, what };
  return await closing(await openFileWriter(options), async (file) => {
    try {
      const work = { compression, what };
      const unpacked = decoders.stream("unpack", work, partsOf(from, signal), {
        what,
        signal,
        ahead: true,
      });
      for await (const part of unpacked.output) {
        await file.write(part);
        onProgress(file.size, null);
      }
      await file.sync();
      return { size: file.size, sha256: sha256In(await unpacked.answer) };
    } catch (error) {
      if (signal.aborted) throw abortedError(what, signal);
      throw error;
    }
  });
}

/** A file in parts; each is good until the next. */
async function* partsOf(path: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const file = await Deno.open(path, { read: true });
  const buffer = new Uint8Array(PART_BYTES);
  try {
    // Ends with the file: read() answers null there.
    for (;;) {
      signal.throwIfAborted();
      const count = await file.read(buffer);
      if (count === null) return;
      yield buffer.subarray(0, count);
    }
  } finally {
    file.close();
  }
}
