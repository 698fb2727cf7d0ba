// The files of an installed agent: put in their places by a rename, so that none is ever there by
// half, and told from what somebody else has put there.

import { dirname, relative } from "@std/path";
import { AgentError } from "../domain/error.ts";

const PROGRAM_MODE = 0o755;
/** Of folders that hold nothing but names. */
const FOLDER_MODE = 0o755;
/** By this a definition is told from one that a package or an administrator wrote. */
const MARK = "Written by zonewright install";
/** Definitions are short; more of a file is not looked at. */
const MARK_BYTES = 4096;

/** What a file has until it is whole. */
export const UNFINISHED = ".new";

/** @returns whether another binary was there, or none */
export async function copyProgram(from: string, to: string): Promise<boolean> {
  if (await Deno.realPath(from) === await Deno.realPath(to).catch(() => undefined)) return false;
  // A program that runs cannot be written to, but its name can be given to another.
  await putInPlace(to, PROGRAM_MODE, async () => (await Deno.open(from)).readable);
  return true;
}

/**
 * Makes a folder with these rights, and those above it that are missing, whatever the umask of the
 * caller is; one that is there keeps its own.
 * @throws {AgentError} `conflict` where something else has the name
 */
export async function makeFolder(path: string, mode: number): Promise<void> {
  if (await exists(path)) {
    // A link to a folder is one.
    if (await Deno.stat(path).then(({ isDirectory }) => isDirectory, () => false)) return;
    throw new AgentError("conflict", `Cannot use ${path}: it is no folder`);
  }
  await makeFolder(dirname(path), FOLDER_MODE);
  await Deno.mkdir(path, { mode });
  await Deno.chmod(path, mode);
}

/** Writes a file where there is none. @returns whether it did */
export async function writeNew(path: string, text: string, mode: number): Promise<boolean> {
  if (await exists(path)) return false;
  await replaceFile(path, text, mode);
  return true;
}

/** Writes a file, whatever is there. */
export async function replaceFile(path: string, text: string, mode: number): Promise<void> {
  await putInPlace(path, mode, () => Promise.resolve(new Blob([text]).stream()));
}

/**
 * Fills a new file, brings it to the disk and gives it the name. What stands under the unfinished name
 * is removed and never written to: it may be a link to something else.
 */
async function putInPlace(
  path: string,
  mode: number,
  open: () => Promise<ReadableStream<Uint8Array<ArrayBuffer>>>,
): Promise<void> {
  await makeFolder(dirname(path), FOLDER_MODE);
  const unfinished = `${path}${UNFINISHED}`;
  await removeFile(unfinished);
  const fresh = await Deno.open(unfinished, { write: true, createNew: true, mode });
  try {
    try {
      for await (const part of await open()) {
        for (let at = 0; at < part.length;) at += await fresh.write(part.subarray(at));
      }
      await fresh.sync();
    } finally {
      fresh.close();
    }
    await Deno.chmod(unfinished, mode);
    await Deno.rename(unfinished, path);
  } catch (error) {
    await removeFile(unfinished);
    throw error;
  }
}

/**
 * Asserts that a file is, or would be, below a root: a link in an image that names its place as the image
 * will see it leads to this machine's own files.
 * @throws {AgentError} `conflict` for a way that leads elsewhere
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

/** Removes a file. @returns whether there was one */
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

/** Whether there is something of this name, a link that leads nowhere included. */
export async function exists(path: string): Promise<boolean> {
  try {
    await Deno.lstat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/**
 * Whether a definition of ours is there. A unit that is masked is a link to a device: no plain file.
 * @throws {AgentError} `conflict` for one that somebody else has made
 */
export async function hasOwnDefinition(path: string): Promise<boolean> {
  if (!await exists(path)) return false;
  if ((await Deno.lstat(path)).isFile && (await headOf(path)).includes(MARK)) return true;
  const message =
    `Cannot touch ${path}: it was not written by zonewright install: remove it yourself`;
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
