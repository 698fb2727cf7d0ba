// Decompression of gzip, in parts, with an end to what it may write. Several members and padding
// are accepted, as the vendors' files have them; a truncated or damaged file is refused.

import { dirname } from "@std/path";
import { AgentError, messageOf } from "../domain/error.ts";
import { openFileWriter } from "./file_writer.ts";
import type { FreeBytes } from "./free_space.ts";
import { type Hashes, openHasher } from "./hash.ts";
import { abortedError } from "./time_limits.ts";

/** Largest decompressed file, bytes. */
const DECOMPRESSED_BYTES_MAX = 64 * 1024 ** 3;

/** What is decompressed, and whereto. */
export interface GunzipRequest {
  readonly from: string;
  readonly to: string;
  readonly freeBytes: FreeBytes;
  /** For errors. */
  readonly label: string;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: null) => void;
  readonly bytesMax?: number;
}

/**
 * Decompresses one file into another, which is on the disk when this returns.
 * @throws {AgentError} `upstream` for a damaged file, `too_large`, `storage_full` or `aborted`
 */
export async function gunzip(request: GunzipRequest): Promise<{ hashes: Hashes; size: number }> {
  const { from, to, freeBytes, label, signal, onProgress } = request;
  // Loaded on first use: each node: module costs milliseconds of start. DecompressionStream refuses
  // files of several members.
  const { createGunzip } = await import("node:zlib");
  const { pipeline } = await import("node:stream/promises");
  const { Readable } = await import("node:stream");
  const hasher = await openHasher();
  const what = `decompress ${label}`;
  const bytesMax = request.bytesMax ?? DECOMPRESSED_BYTES_MAX;
  const source = await Deno.open(from, { read: true });
  const folder = dirname(to);
  const file = await openFileWriter({ path: to, hasher, bytesMax, folder, freeBytes, what });
  try {
    await pipeline(
      Readable.from(source.readable),
      createGunzip(),
      async (parts: AsyncIterable<Uint8Array>) => {
        for await (const part of parts) {
          await file.write(part);
          onProgress(hasher.size, null);
        }
      },
      { signal },
    );
    await file.sync();
  } catch (error) {
    if (error instanceof AgentError) throw error;
    if (signal.aborted) throw abortedError(what, signal);
    throw new AgentError("upstream", `Cannot ${what}: ${messageOf(error)}`, { cause: error });
  } finally {
    file[Symbol.dispose]();
  }
  return { size: hasher.size, hashes: hasher.finish() };
}
