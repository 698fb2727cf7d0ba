// The files of an installed agent. Each is renamed into place, so that none is ever incomplete, and is marked, so
// that files of others are recognized.

import { dirname, relative } from "@std/path";
import { fileInfo } from "../runtime/regular_file.ts";
import { writeAll } from "../domain/bytes.ts";
import { AgentError } from "../domain/error.ts";

/** Mode of the program, which everybody may run. */
export const PROGRAM_MODE = 0o755;
/** Mode of folders that hold no secrets. */
const FOLDER_MODE = 0o755;
/** Marks our definition, unlike one of a package or an administrator. */
const MARK = "Written by zonewright install";
/** A definition is short; only so many bytes of a file are searched for the mark. */
const MARK_BYTES = 4096;

/** Suffix of a file until it is complete. */
export const UNFINISHED = ".new";
/** Suffix of the binary before an upgrade. */
export const PREVIOUS = ".previous";
/** Suffix of the new binary until it is in place. Not after a dot: Node would take that for a file type. */
export const VERIFIED = "-upgrade";
/** Suffix of the note about an upgrade that has not ended. */
export const UNDER_WAY = ".upgrading";

/** Copies a binary into place. @returns whether a different one, or none, was there */
export async function copyProgram(from: string, to: string): Promise<boolean> {
  if (await Deno.realPath(from) === await Deno.realPath(to).catch(() => undefined)) return false;
  // A running program cannot be written to, but its name can be reused.
  await putInPlace(to, PROGRAM_MODE, async () => (await Deno.open(from)).readable);
  return true;
}

/**
 * Creates a folder with this mode, and missing ones above it, whatever the caller's umask. An existing folder keeps
 * its mode.
 * @throws {AgentError} `conflict` when something else has the name
 */
export async function makeFolder(path: string, mode: number): Promise<void> {
  if (await exists(path)) {
    // A link to a folder counts as one.
    if (await Deno.stat(path).then(({ isDirectory }) => isDirectory, () => false)) return;
    throw new AgentError("conflict", `Cannot use ${path}: it is not a folder`);
  }
  await makeFolder(dirname(path), FOLDER_MODE);
  await Deno.mkdir(path, { mode });
  await Deno.chmod(path, mode);
}

/** Writes a file unless it exists. @returns whether it was written */
export async function writeNew(path: string, text: string, mode: number): Promise<boolean> {
  if (await exists(path)) return false;
  await replaceFile(path, text, mode);
  return true;
}

/** Writes or replaces a file. @param owner of the file; by default this process */
export async function replaceFile(
  path: string,
  text: string,
  mode: number,
  owner?: FileOwner,
): Promise<void> {
  await putInPlace(path, mode, () => Promise.resolve(new Blob([text]).stream()), owner);
}

/** User and group of a file. */
interface FileOwner {
  readonly uid: number | null;
  readonly gid: number | null;
}

/**
 * Writes a new file, syncs it and renames it into place. Whatever has the temporary name is removed, never written
 * to: it may be a link.
 * @throws {Error} of the system; the new file is removed then
 */
export async function putInPlace(
  path: string,
  mode: number,
  open: () => Promise<ReadableStream<Uint8Array<ArrayBuffer>>>,
  owner?: FileOwner,
): Promise<void> {
  await makeFolder(dirname(path), FOLDER_MODE);
  const unfinished = `${path}${UNFINISHED}`;
  await removeFile(unfinished);
  const fresh = await Deno.open(unfinished, { write: true, createNew: true, mode });
  try {
    try {
      for await (const part of await open()) await writeAll(fresh, part);
      await fresh.sync();
    } finally {
      fresh.close();
    }
    // Before the mode: changing the owner clears bits of it.
    if (owner !== undefined) await Deno.chown(unfinished, owner.uid, owner.gid);
    await Deno.chmod(unfinished, mode);
    await Deno.rename(unfinished, path);
  } catch (error) {
    await removeFile(unfinished);
    throw error;
  }
}

/**
 * Checks that a file is, or would be, below a root: a link in an image that is right for the image may lead to this
 * machine's own files here.
 * @throws {AgentError} `conflict` when it leads out
 */
export async function staysBelow(root: string, path: string): Promise<void> {
  let folder = dirname(path);
  while (!await exists(folder)) folder = dirname(folder);
  const real = await Deno.realPath(folder);
  let base = root;
  while (!await exists(base)) base = dirname(base);
  const way = relative(await Deno.realPath(base), real);
  if (way !== ".." && !way.startsWith("../")) return;
  throw new AgentError(
    "conflict",
    `Cannot touch ${path}: ${folder} leads out of ${root}, to ${real}`,
  );
}

/**
 * Removes a file.
 * @returns whether there was one
 * @throws {Error} for a folder, and for what the system refused
 */
export async function removeFile(path: string): Promise<boolean> {
  try {
    if ((await Deno.lstat(path)).isDirectory) throw new Error(`${path} is a folder`);
    await Deno.remove(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Whether anything has this name, even a link that leads nowhere. @throws {Error} when the system refuses to look */
export async function exists(path: string): Promise<boolean> {
  return await fileInfo(path) !== undefined;
}

/**
 * Whether our definition is installed. A masked unit, a link to a device, does not count.
 * @throws {AgentError} `conflict` for somebody else's definition
 */
export async function hasOwnDefinition(path: string): Promise<boolean> {
  if (!await exists(path)) return false;
  if ((await Deno.lstat(path)).isFile && (await headOf(path)).includes(MARK)) return true;
  const message = `Cannot touch ${path}: zonewright install did not write it; remove it yourself`;
  throw new AgentError("conflict", message);
}

async function headOf(path: string): Promise<string> {
  const file = await Deno.open(path);
  try {
    const bytes = new Uint8Array(MARK_BYTES);
    return new TextDecoder().decode(bytes.subarray(0, await file.read(bytes) ?? 0));
  } finally {
    file.close();
  }
}
