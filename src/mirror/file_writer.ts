// Writes a file from its start or its end, hashing what it writes.

import { AgentError } from "../domain/error.ts";
import { type FreeBytes, requireRoom, writeFailure } from "./free_space.ts";
import type { Hasher } from "./hash.ts";

/** Bytes after which the room on the disk is looked at again. */
const ROOM_CHECK_BYTES = 256 * 1024 * 1024;

/** Which file is written, and how large it may become. */
export interface FileWriterOptions {
  readonly path: string;
  readonly hasher: Hasher;
  /** Bytes that the file may have in the end. */
  readonly bytesMax: number;
  readonly folder: string;
  readonly freeBytes: FreeBytes;
  /** What is being done, for errors: `download alma 9`. */
  readonly what: string;
}

/** An open file; its disposal closes it. */
export interface FileWriter extends Disposable {
  /** @throws {AgentError} `too_large` or `storage_full` */
  write(part: Uint8Array): Promise<void>;
  /** Returns when everything written is on the disk. */
  sync(): Promise<void>;
}

/** Opens a file that is made when missing; what it holds has been given to the hasher before. */
export async function openFileWriter(options: FileWriterOptions): Promise<FileWriter> {
  const { path, hasher, bytesMax, folder, freeBytes, what } = options;
  const file = await Deno.open(path, { write: true, create: true });
  await file.truncate(hasher.size);
  await file.seek(hasher.size, Deno.SeekMode.Start);
  let unchecked = 0;
  return {
    async write(part) {
      if (hasher.size + part.byteLength > bytesMax) {
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
      hasher.update(part);
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
