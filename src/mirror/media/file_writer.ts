// Writes a file from its start or its end, within its largest size and the room on the disk.

import { AgentError } from "../../domain/error.ts";
import { type FreeBytes, requireRoom, writeFailure } from "./free_space.ts";

/** Bytes after which the room on the disk is looked at again. */
const ROOM_CHECK_BYTES = 256 * 1024 * 1024;

/** Which file is written, and how large it may become. */
export interface FileWriterOptions {
  readonly path: string;
  /** Bytes of it that are there and stay; nothing unless given. */
  readonly from?: number;
  /** Bytes that the file may have in the end. */
  readonly bytesMax: number;
  readonly folder: string;
  readonly freeBytes: FreeBytes;
  /** What is being done, for errors: `download alma 9`. */
  readonly what: string;
}

/** An open file; its disposal closes it. */
export interface FileWriter extends Disposable {
  /** Bytes of the file so far. */
  readonly size: number;
  /** @throws {AgentError} `too_large` or `storage_full` */
  write(part: Uint8Array): Promise<void>;
  /** Returns when everything written is on the disk. */
  sync(): Promise<void>;
}

/** Opens a file that is made when missing. */
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
        throw new AgentError("too_large", `Cannot ${what}: it has over ${bytesMax} bytes`);
      }
      unchecked += part.byteLength;
      if (unchecked > ROOM_CHECK_BYTES) {
        await requireRoom(freeBytes, folder, part.byteLength, what);
        unchecked = 0;
      }
      // One write() may take only a part of what it is given.
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
    },
    [Symbol.dispose]: () => file.close(),
  };
}
