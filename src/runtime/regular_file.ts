// Files of this machine, sockets among them: the modes that keep them from others; opens one for reading without following a link or
// waiting for a FIFO, checks by its handle what was opened, and takes a missing one for nothing; syncs a folder.

import { whileOpen } from "./run.ts";

type FileHandle = Awaited<ReturnType<typeof import("node:fs/promises")["open"]>>;

/** The mode of a file for the agent's user alone. */
export const OWNER_ONLY_MODE = 0o600;
/** Rights of group and others. */
export const OTHERS = 0o077;
/** The sticky bit of a folder: others may create files in it, and change or remove only their own. */
export const STICKY = 0o1000;

/** Bytes of a socket's path that a caller can connect to. @see unix(7) */
export const SOCKET_PATH_BYTES_MAX = 107;

/** Bytes per read: large enough to be fast, small enough to abort at once. */
const CHUNK_BYTES = 1024 * 1024;

/** A regular file that is open for reading. */
export interface RegularFile {
  /** Bytes when it was opened. */
  readonly size: number;
  /**
   * Its bytes in order; the next part is read while one is used. A part is valid until the next one is
   * requested.
   */
  parts(): AsyncGenerator<Uint8Array>;
  /** Its first bytes, fewer when it is shorter; parts() still begins at its start. */
  head(bytesMax: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/**
 * Opens a file for reading.
 * @returns null for anything but a regular file
 * @throws the operating system's error, with its `code`, when nothing is there or it is unreadable
 */
export async function openRegularFile(path: string): Promise<RegularFile | null> {
  const { open } = await import("node:fs/promises");
  const { constants: { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } } = await import("node:fs");
  let handle: FileHandle;
  try {
    handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    // ELOOP: a link. ENXIO: a socket, or a device without a driver.
    if (error instanceof Error && "code" in error && isNoFile(error.code)) return null;
    throw error;
  }
  const info = await handle.stat();
  if (!info.isFile()) {
    await handle.close();
    return null;
  }
  return {
    size: info.size,
    parts: () => partsOf(handle),
    head: (bytesMax) => headOf(handle, bytesMax),
    close: () => handle.close(),
  };
}

function isNoFile(code: unknown): boolean {
  return code === "ELOOP" || code === "ENXIO";
}

async function headOf(handle: FileHandle, bytesMax: number): Promise<Uint8Array> {
  const head = new Uint8Array(bytesMax);
  let filled = 0;
  // Ends with the buffer or with the file; one read may return less than there is.
  while (filled < bytesMax) {
    const { bytesRead } = await handle.read(head, filled, bytesMax - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return head.subarray(0, filled);
}

async function* partsOf(handle: FileHandle): AsyncGenerator<Uint8Array> {
  // Two buffers in turn: one is used while the other is being filled.
  const buffers = [new Uint8Array(CHUNK_BYTES), new Uint8Array(CHUNK_BYTES)] as const;
  let position = 0;
  const fill = async (buffer: Uint8Array) => {
    const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, position);
    position += bytesRead;
    return buffer.subarray(0, bytesRead);
  };
  let turn = 0;
  let filling = fill(buffers[0]);
  try {
    for (let part = await filling; part.length > 0; part = await filling) {
      turn = 1 - turn;
      filling = fill(turn === 0 ? buffers[0] : buffers[1]);
      yield part;
    }
  } finally {
    // The handle must stay open during a read.
    await filling.catch(() => {});
  }
}

/** For `catch()` of a call about a file: undefined when nothing is there. @throws every other error */
export function absent(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

/**
 * Looks at a path, at a link itself and not at what it points to.
 * @returns undefined when nothing is there
 */
export async function fileInfo(path: string): Promise<Deno.FileInfo | undefined> {
  return await Deno.lstat(path).catch(absent);
}

/** Writes a folder to the disk: until then, a rename in it does not survive a power loss. */
export async function syncFolder(path: string): Promise<void> {
  await whileOpen(await Deno.open(path), (folder) => folder.sync());
}
