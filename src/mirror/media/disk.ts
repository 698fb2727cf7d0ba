// The disk of the cache: its room, and writing files within that. A full disk also stops the store, so downloads
// leave some space free.

import { AgentError, isNoSpace, systemReason } from "../../domain/error.ts";
import { sizeText } from "../../domain/host.ts";
import { fileInfo } from "../../runtime/regular_file.ts";

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
  const message = `Cannot ${what}: ${sizeText(free)} are free at ${folder}, expected ` +
    `${sizeText(bytes)} plus ${sizeText(FREE_BYTES_MIN)} in reserve`;
  throw new AgentError("storage_full", message);
}

/** The error of a failed write, with the code `storage_full` for a full disk. */
export function writeFailure(error: unknown, what: string): unknown {
  if (error instanceof AgentError || !isNoSpace(error)) return error;
  return new AgentError("storage_full", `Cannot ${what}: ${systemReason(error)}`, { cause: error });
}

/** Bytes between two checks of the room on the disk. */
const ROOM_CHECK_BYTES = 256 * 1024 * 1024;

/** Which file is written, and how large it may get. */
interface FileWriterOptions {
  readonly path: string;
  /** Bytes of the existing file to keep; 0 unless given. */
  readonly from?: number;
  /** Largest size of the finished file, bytes. */
  readonly bytesMax: number;
  readonly folder: string;
  readonly freeBytes: FreeBytes;
  /** The action, for errors: `download alma 9`. */
  readonly what: string;
}

/** An open file; disposal closes it. */
export interface FileWriter extends Disposable {
  readonly size: number;
  /** @throws {AgentError} `too_large` or `storage_full` */
  write(part: Uint8Array): Promise<void>;
  /**
   * Returns once everything written is on the disk.
   * @throws {AgentError} `storage_full`; `conflict` when another process has given its name to another file, whose
   *   bytes would pass for these
   */
  sync(): Promise<void>;
}

/** Opens a file, creating it when missing, to be written from its start or its end. */
export async function openFileWriter(options: FileWriterOptions): Promise<FileWriter> {
  const { path, from = 0, bytesMax, folder, freeBytes, what } = options;
  const file = await Deno.open(path, { write: true, create: true });
  await file.truncate(from);
  await file.seek(from, Deno.SeekMode.Start);
  let size = from;
  let unchecked = 0;
  return {
    get size() {
      return size;
    },
    async write(part) {
      if (size + part.byteLength > bytesMax) {
        throw new AgentError("too_large", `Cannot ${what}: it has more than ${bytesMax} bytes`);
      }
      unchecked += part.byteLength;
      if (unchecked > ROOM_CHECK_BYTES) {
        await requireRoom(freeBytes, folder, part.byteLength, what);
        unchecked = 0;
      }
      // One write() may take only part of the bytes.
      for (let done = 0; done < part.byteLength;) {
        try {
          done += await file.write(part.subarray(done));
        } catch (error) {
          throw writeFailure(error, what);
        }
      }
      size += part.byteLength;
    },
    async sync() {
      try {
        await file.sync();
      } catch (error) {
        throw writeFailure(error, what);
      }
      const [written, named] = await Promise.all([file.stat(), fileInfo(path)]);
      if (written.dev === named?.dev && written.ino === named.ino) return;
      const message = `Cannot ${what}: another process has removed or replaced ${path}, expected ` +
        "no agent to share the folder";
      throw new AgentError("conflict", message);
    },
    [Symbol.dispose]: () => file.close(),
  };
}
