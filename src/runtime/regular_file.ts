// Files of this machine: opens one for reading without following a link or waiting for a FIFO, checks by its
// handle what was opened, takes a missing one for nothing, and lets one process at a time change those of a folder.

import { AgentError } from "../domain/error.ts";

type FileHandle = Awaited<ReturnType<typeof import("node:fs/promises")["open"]>>;

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

// Files that may be missing.

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

// Two commands that change the same files at once would each undo what the other did.

/** How long another process may have a folder, milliseconds: an upgrade takes less. */
const HELD_MS_MAX = 120_000;
/** Milliseconds of waiting after which it is mentioned. */
const NOTE_MS = 1_000;
/** Where Linux lists the locks of all processes. @see proc(5) */
const LOCKS = "/proc/locks";

/** How a command waits for others. */
interface Patience {
  /** Milliseconds; the process is to end after that, since its wait cannot be called off. */
  readonly mostMs?: number;
  /** Takes one line, when it takes a second. */
  readonly note?: ((line: string) => void) | undefined;
}

/**
 * Runs a function while no other process does so for this folder: the second one waits. A process that is
 * killed holds nothing. Not reentrant.
 * @throws {AgentError} `conflict` when another process has the folder for longer: flock(1) may have begun this one
 */
export async function aloneIn<T>(
  folder: string,
  run: () => Promise<T>,
  { mostMs = HELD_MS_MAX, note }: Patience = {},
): Promise<T> {
  // A folder that only its owner may read, or whose file system has no locks, is changed as before.
  const held = await Deno.open(folder).catch(() => undefined);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let locking = true;
  const mention = setTimeout(async () => {
    const holder = await holderOf(folder);
    if (locking) note?.(`waiting until ${holder} is done with ${folder}`);
  }, NOTE_MS);
  try {
    const late = new Promise<"late">((resolve) => {
      timer = setTimeout(() => resolve("late"), mostMs);
    });
    const locked = held?.lock(true).catch(() => {});
    const outcome = await Promise.race([locked, late]);
    locking = false;
    clearTimeout(mention);
    if (outcome === "late") {
      const message = `Cannot change files in ${folder}: ${await holderOf(folder)} has locked it`;
      throw new AgentError("conflict", message, { about: { kind: "file", name: folder } });
    }
    return await run();
  } finally {
    clearTimeout(timer);
    clearTimeout(mention);
    held?.close();
  }
}

/** `process 4711`, which has locked a folder, if the system says so. */
async function holderOf(folder: string): Promise<string> {
  try {
    // By its name: calls of a file that waits for its lock wait too.
    const { ino } = await Deno.stat(folder);
    // The runtime hides /proc from a binary that lacks any permission.
    const locks = new Deno.Command("/bin/cat", { args: [LOCKS], stdin: "null", stderr: "null" });
    const text = new TextDecoder().decode((await locks.output()).stdout);
    const held = new RegExp(`: FLOCK +\\S+ +WRITE +(\\d+) +[^ ]+:${ino} `).exec(text);
    if (held !== null) return `process ${held[1]}`;
  } catch {
    // Without that list the holder stays unknown.
  }
  return "another process";
}
