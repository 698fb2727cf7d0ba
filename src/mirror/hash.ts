// Hashing of files: SHA-256, and SHA-512 in the same pass where it is wanted, in parts, so that the size
// of a file does not matter. WebCrypto would need all bytes at once.

import type { DigestAlgorithm } from "../domain/digest.ts";
import { closing } from "../closing.ts";

/** Bytes read from a file at a time. */
const PART_BYTES = 256 * 1024;

/** Hashes in lower-case hex. */
export interface Hashes {
  readonly sha256: string;
  /** Missing where it was not wanted: it costs as much again. */
  readonly sha512?: string;
}

/** Takes bytes in parts. */
export interface Hasher {
  readonly size: number;
  update(part: Uint8Array): void;
  /** May be called once. */
  finish(): Hashes;
}

/**
 * Opens a hasher that has seen nothing yet.
 * @param wanted what has to be hashed besides SHA-256, by which every file is known
 */
export async function openHasher(wanted: readonly DigestAlgorithm[] = []): Promise<Hasher> {
  // Loaded on first use: each node: module costs milliseconds of start.
  const { createHash } = await import("node:crypto");
  const sha256 = createHash("sha256");
  const sha512 = wanted.includes("sha512") ? createHash("sha512") : undefined;
  let size = 0;
  return {
    get size() {
      return size;
    },
    update(part) {
      sha256.update(part);
      sha512?.update(part);
      size += part.byteLength;
    },
    finish: () => ({
      sha256: sha256.digest("hex"),
      ...(sha512 === undefined ? {} : { sha512: sha512.digest("hex") }),
    }),
  };
}

/** How a file is read. */
export interface HashFileOptions {
  readonly signal?: AbortSignal;
  /** Bytes done and bytes in total. */
  readonly onProgress?: (done: number, total: number) => void;
}

/**
 * Feeds a whole file to a hasher, as when a download goes on from what is already here.
 * @throws the reason of the signal, or the error of the file system
 */
export async function hashInto(
  hasher: Hasher,
  path: string,
  { signal, onProgress }: HashFileOptions = {},
): Promise<void> {
  await closing(await Deno.open(path, { read: true }), async (file) => {
    const total = (await file.stat()).size;
    const buffer = new Uint8Array(PART_BYTES);
    let done = 0;
    // Ends with the file: read() answers null there.
    for (;;) {
      signal?.throwIfAborted();
      const count = await file.read(buffer);
      if (count === null) return;
      hasher.update(buffer.subarray(0, count));
      done += count;
      onProgress?.(done, total);
    }
  });
}
