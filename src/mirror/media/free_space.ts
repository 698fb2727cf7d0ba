// Room on the file system of the cache. A full disk also stops the store, so downloads leave some space free.

import { AgentError, systemReason } from "../../domain/error.ts";

/** Bytes that a download or decompression leaves free. */
export const FREE_BYTES_MIN = 256 * 1024 * 1024;

/** Bytes that may still be written below a folder. */
export type FreeBytes = (folder: string) => Promise<number>;

/** Asks the file system; infinite if it does not say. */
export const systemFreeBytes: FreeBytes = async (folder) => {
  // Loaded on first use: each node: module costs milliseconds of start.
  const { statfs } = await import("node:fs/promises");
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch {
    // Some platforms do not say. A full disk then fails the write, which is reported as well.
    return Number.POSITIVE_INFINITY;
  }
};

/** @throws {AgentError} `storage_full` when the bytes do not fit */
export async function requireRoom(
  freeBytes: FreeBytes,
  folder: string,
  bytes: number,
  what: string,
): Promise<void> {
  const free = await freeBytes(folder);
  if (free - bytes >= FREE_BYTES_MIN) return;
  const message = `Cannot ${what}: ${free} bytes are free, expected ${bytes} plus ` +
    `${FREE_BYTES_MIN} in reserve`;
  throw new AgentError("storage_full", message);
}

/** The error of a failed write, with the code `storage_full` for a full disk. */
export function writeFailure(error: unknown, what: string): unknown {
  const full = error instanceof Error && "code" in error &&
    (error.code === "ENOSPC" || error.code === "EDQUOT");
  if (!full) return error;
  return new AgentError("storage_full", `Cannot ${what}: ${systemReason(error)}`, { cause: error });
}
