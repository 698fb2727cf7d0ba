// Files in the state folder, used by the agent and by commands of root. A file is only used if it is a
// regular file of the folder's owner: links are not followed, and pipes are not waited for. Writing makes a
// new file, which is renamed into place when complete.
//
// In the folder of another user, root acts as that user. Between the check of a file and its opening by name,
// the user could replace it with a link; acting as the user, that leads only to files the user may write
// anyway. This also covers SQLite, which opens its files by name.

import { dirname, join } from "@std/path";
import { writeAll } from "../domain/bytes.ts";
import { AgentError, systemCode, systemReason } from "../domain/error.ts";
import { OWNER_ONLY_MODE, STICKY, syncFolder } from "../runtime/regular_file.ts";
import { whileOpen } from "../runtime/run.ts";

/** Prefixes of the names of these files; SQLite and restores append to some of them. */
const OWN_FILES = [
  "agent.lock",
  "agent.pid",
  "host.key",
  "runner_id",
  "tokens.json",
  "zonewright.db",
] as const;
/** More than the largest file that is read whole, that of the tokens. */
const FILE_BYTES_MAX = 4 * 1024 * 1024;
/** The rights of group and others to write. */
const OTHERS_WRITE = 0o022;

/** The owner of a folder and of everything kept in it; null where the system has no users. */
interface Owner {
  readonly uid: number | null;
  readonly gid: number | null;
}

/**
 * Looks at a state folder before anything in it is opened.
 * @returns its owner
 * @throws {AgentError} `forbidden` for a file in it that is not what it must be, and where others could put
 *   another folder in its place; `not_found`
 */
export function examineOwnFolder(path: string): Owner {
  const real = realPathOf(path);
  const { isDirectory, uid, gid } = Deno.lstatSync(real);
  if (!isDirectory) throw refused(path, "it is not a folder");
  for (let folder = dirname(real); folder !== dirname(folder); folder = dirname(folder)) {
    const mode = Deno.lstatSync(folder).mode ?? 0;
    if ((mode & OTHERS_WRITE) === 0 || (mode & STICKY) !== 0) continue;
    const shown = (mode & 0o777).toString(8).padStart(4, "0");
    throw refused(path, `others may write to ${folder}, whose mode is ${shown}, and so replace it`);
  }
  for (const name of namesIn(path, real)) {
    if (OWN_FILES.some((one) => name.startsWith(one))) lookAt(join(real, name), uid);
  }
  return { uid, gid };
}

function namesIn(path: string, real: string): string[] {
  try {
    return Array.from(Deno.readDirSync(real), ({ name }) => name);
  } catch (error) {
    throw stateFolderError(path, error);
  }
}

function realPathOf(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw stateFolderError(path, error);
    const message = `Cannot use ${path} as the state folder: it does not exist, expected the ` +
      "folder of an agent";
    throw new AgentError("not_found", message, { cause: error, about: { kind: "state_dir" } });
  }
}

/**
 * What has this name; undefined if nothing does. A file of root with one name is as good as one of the owner:
 * another user cannot have made it.
 * @throws {AgentError} `forbidden`
 */
function lookAt(path: string, owner: number | null): Deno.FileInfo | undefined {
  let found: Deno.FileInfo;
  try {
    found = Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw stateFolderError(dirname(path), error);
  }
  if (!found.isFile) throw refused(path, "it is not a regular file");
  const trusted = found.uid === owner || (found.uid === 0 && found.nlink === 1);
  if (!trusted) {
    throw refused(path, `it is a file of user ${found.uid}, and its folder of user ${owner}`);
  }
  return found;
}

function refused(path: string, why: string): AgentError {
  return new AgentError("forbidden", `Cannot use ${path}: ${why}`);
}

/** An error of the system about a state folder, with what is required of it and how to choose another. */
export function stateFolderError(path: string, error: unknown): AgentError {
  if (error instanceof AgentError) return error;
  const isFile = error instanceof Deno.errors.NotADirectory ||
    error instanceof Deno.errors.AlreadyExists;
  const code = systemCode(error) ?? "conflict";
  const why = isFile ? "it, or a folder of its path, is a file" : systemReason(error);
  const who = Deno.uid() === null ? "" : ` that user ${Deno.uid()} may write to`;
  const room = code === "storage_full" ? " and that has room" : "";
  const message =
    `Cannot use ${path} as the state folder: ${why}, expected a folder${who}${room}; ` +
    "--state-dir names another";
  // The folder is created if it is missing, so something on its path is in the way.
  return new AgentError(code === "not_found" ? "conflict" : code, message, {
    cause: error,
    about: { kind: "state_dir" },
  });
}

/**
 * Reads a file of a state folder; undefined if it does not exist.
 * @returns its text, with what the system says of it
 * @throws {AgentError} `forbidden` for anything but a regular file of the folder's owner
 */
export async function readOwnFile(
  path: string,
): Promise<{ readonly text: string; readonly mode: number } | undefined> {
  const { uid } = Deno.statSync(dirname(path));
  const seen = lookAt(path, uid);
  if (seen === undefined) return undefined;
  if (seen.size > FILE_BYTES_MAX) throw refused(path, `it is over ${FILE_BYTES_MAX} bytes long`);
  return await whileOpen(await Deno.open(path), async (file) => {
    const { dev, ino, mode } = await file.stat();
    if (dev !== seen.dev || ino !== seen.ino) {
      throw refused(path, "it was replaced while it was being opened");
    }
    return { text: await textOf(file), mode: mode ?? 0 };
  });
}

/** A stream would load much code, and an agent reads files before it listens. */
async function textOf(file: Deno.FsFile): Promise<string> {
  const bytes = new Uint8Array(FILE_BYTES_MAX);
  let length = 0;
  while (length < bytes.length) {
    const read = await file.read(bytes.subarray(length));
    if (read === null) break;
    length += read;
  }
  return new TextDecoder().decode(bytes.subarray(0, length));
}

/**
 * Replaces a file of a state folder: a new file is written and synced, then renamed, and the folder synced. A file
 * that a killed process left under the temporary name is removed, never written to.
 * @throws {AgentError} as stateFolderError(), and `forbidden` for anything but a file of the owner
 */
export async function replaceOwnFile(path: string, text: string): Promise<void> {
  const unfinished = `${path}.new`;
  if (lookAt(unfinished, Deno.statSync(dirname(path)).uid) !== undefined) {
    await Deno.remove(unfinished);
  }
  try {
    const options = { write: true, createNew: true, mode: OWNER_ONLY_MODE };
    await whileOpen(await Deno.open(unfinished, options), (file) => writeWhole(file, text));
    await Deno.rename(unfinished, path);
    await syncFolder(dirname(path));
  } catch (error) {
    // On a full disk it would take the room that is left.
    await Deno.remove(unfinished).catch(() => {});
    throw stateFolderError(dirname(path), error);
  }
}

/** Writes a text into a new file, and syncs it. */
async function writeWhole(file: Deno.FsFile, text: string): Promise<void> {
  await writeAll(file, new TextEncoder().encode(text));
  await file.sync();
}

/** Runs a function as one user or another. */
export type ActAs = <T>(run: () => T | Promise<T>) => Promise<T>;

/**
 * How to act in a state folder: root acts as the folder's owner, unless the folder is root's own or missing; anyone
 * else acts as themselves.
 */
export function asOwnerOf(path: string): ActAs {
  return async (run) => {
    if (Deno.uid() !== 0) return await run();
    const { uid, gid } = ownerOf(path);
    if (uid === null || gid === null || uid === 0) return await run();
    const { default: process } = await import("node:process");
    // The group first: a process that is no longer root may not change it.
    process.setegid?.(gid);
    process.seteuid?.(uid);
    try {
      refuseUnreachable(path, uid, process.geteuid?.());
      return await run();
    } finally {
      process.seteuid?.(0);
      process.setegid?.(Deno.gid() ?? 0);
    }
  };
}

/** @throws {AgentError} `forbidden` unless the folder's owner can reach it; the process acts as that user */
function refuseUnreachable(path: string, owner: number, acting: number | undefined): void {
  if (acting !== owner) {
    throw new Error(
      `Cannot use ${path}: the process acts as user ${acting}, expected user ${owner}`,
    );
  }
  try {
    Deno.statSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    throw refused(path, `user ${owner}, whose folder it is, may not enter a folder above it`);
  }
}

/**
 * The owner of a folder; of a missing one, the user of this process.
 * @throws {AgentError} `forbidden` or `conflict` when the system refuses to look
 */
export function ownerOf(path: string): Owner {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw stateFolderError(path, error);
    return { uid: Deno.uid(), gid: Deno.gid() };
  }
}
