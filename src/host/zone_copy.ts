// Copies one file into a zone's root under a temporary name, hashing what is written, and gives it
// its name when everything that was promised of it is true. Reading, hashing and writing overlap.
// Every step that used a name is followed by a look at whether the name still means the same file.

import { AgentError, invalidArgument } from "../domain/error.ts";
import { checkAborted } from "./abort.ts";
import { brokenPromise, type Digests, type PromisedDigests } from "./digests.ts";
import type { NewFile } from "./host_files.ts";
import { openPlainFile, type PlainFile } from "./plain_file.ts";
import type { Transport } from "./transport.ts";
import { checkSameFolder, type ZoneFolder } from "./zone_folder.ts";

/** What is copied, and what it must be. */
export interface MediaCopy extends PromisedDigests {
  /** Name in the zone's root: `[A-Za-z0-9._-]`, at most 128, no leading dot or dash. */
  name: string;
  /** File of the agent's own host; a link as last component is refused. */
  source: string;
  /** Bytes that the file has. */
  size: number;
  /** Told of bytes at most every 100 ms, and once when all are written. */
  onProgress?: (done: number, total: number) => void;
  signal?: AbortSignal;
}

/** Readable for all, writable for nobody, as qemu opens a CD. */
export const MEDIA_MODE = 0o444;

const PROGRESS_MS = 100;

/** One name for all attempts, so that the next one clears away what a crash left. */
export function temporaryPath(root: ZoneFolder, name: string): string {
  return `${root.path}/.zonewright-${name}.part`;
}

/**
 * Copies the file and verifies it before it has its name; leaves nothing behind when it fails.
 * @returns the sha256 of its bytes
 * @throws {AgentError} as placeFile
 */
export async function copyFile(
  transport: Transport,
  root: ZoneFolder,
  media: MediaCopy,
): Promise<string> {
  const { files } = transport;
  const action = `Cannot place ${JSON.stringify(media.name)} in ${JSON.stringify(root.path)}`;
  const source = await openSource(action, media);
  try {
    await checkSpace(transport, root, media, action);
    const temporary = temporaryPath(root, media.name);
    await files.remove(temporary);
    const copy = await files.create(temporary);
    try {
      await checkSameFile(transport, root, temporary, copy, action);
      const found = await fill(transport, root, media, { source, copy, action });
      await giveName(transport, root, media, { copy, action, found });
      return found.sha256;
    } catch (error) {
      for (const path of [temporary, `${root.path}/${media.name}`]) {
        await removeOwn(transport, path, copy);
      }
      throw error;
    } finally {
      await copy.close();
    }
  } finally {
    await source.close();
  }
}

async function openSource(action: string, { source, size }: MediaCopy): Promise<PlainFile> {
  const shown = JSON.stringify(source);
  let file: PlainFile | null;
  try {
    file = await openPlainFile(source);
  } catch (cause) {
    const missing = cause instanceof Error && "code" in cause && cause.code === "ENOENT";
    const message = `${action}: ${shown} ${missing ? "is not there" : "cannot be read"}`;
    throw new AgentError(missing ? "not_found" : "host", message, { cause });
  }
  if (file === null) throw invalidArgument("source", `${action}: ${shown} is no plain file`);
  if (file.size === size) return file;
  await file.close();
  const message = `${action}: ${shown} has ${file.size} bytes, wanted ${size}`;
  throw new AgentError("digest_mismatch", message);
}

async function checkSpace(
  { files }: Transport,
  root: ZoneFolder,
  { size }: MediaCopy,
  action: string,
): Promise<void> {
  const free = await files.freeBytes(root.path);
  if (free >= size) return;
  const message = `${action}: it has ${size} bytes and ${free} bytes are free there`;
  throw new AgentError("storage_full", message);
}

/** Writes the source's bytes and digests them while they are being written. */
async function fill(
  { files }: Transport,
  root: ZoneFolder,
  media: MediaCopy,
  { source, copy, action }: { source: PlainFile; copy: NewFile; action: string },
): Promise<Digests & { sha256: string }> {
  const { createHash } = await import("node:crypto");
  const sha256 = createHash("sha256");
  const sha512 = media.sha512 === undefined ? undefined : createHash("sha512");
  const progress = pacedProgress(media);
  let done = 0;
  try {
    for await (const part of source.parts()) {
      checkAborted(action, media.signal);
      done += part.length;
      if (done > media.size) break;
      const writing = copy.write(part);
      sha256.update(part);
      sha512?.update(part);
      await writing;
      progress(done);
    }
  } catch (cause) {
    if (!(cause instanceof AgentError && cause.code === "storage_full")) throw cause;
    const free = await files.freeBytes(root.path);
    const message = `${action}: no space was left after ${done} of ${media.size} bytes, ` +
      `${free} bytes are free there`;
    throw new AgentError("storage_full", message, { cause });
  }
  if (done !== media.size) {
    const message = `${action}: its source was changed while it was being read`;
    throw new AgentError("digest_mismatch", message);
  }
  const both = sha512 === undefined ? {} : { sha512: sha512.digest("hex") };
  return { sha256: sha256.digest("hex"), ...both };
}

function pacedProgress({ onProgress, size }: MediaCopy): (done: number) => void {
  let toldAt = -Infinity;
  return (done) => {
    const now = performance.now();
    if (done !== size && now - toldAt < PROGRESS_MS) return;
    toldAt = now;
    onProgress?.(done, size);
  };
}

/** The last steps: digests, disk, and only then the name. */
async function giveName(
  transport: Transport,
  root: ZoneFolder,
  media: MediaCopy,
  { copy, action, found }: { copy: NewFile; action: string; found: Digests },
): Promise<void> {
  const broken = brokenPromise(media, found);
  if (broken !== null) {
    const message = `${action}: its ${broken} is ${found[broken]}, wanted ${media[broken]}`;
    throw new AgentError("digest_mismatch", message);
  }
  const { files } = transport;
  const temporary = temporaryPath(root, media.name);
  const final = `${root.path}/${media.name}`;
  const finished = await copy.finish(MEDIA_MODE);
  if (finished.size !== media.size || finished.links !== 1) throw tampered(action);
  checkAborted(action, media.signal);
  await checkSameFile(transport, root, temporary, copy, action);
  await files.rename(temporary, final);
  await checkSameFolder(transport, root);
  if ((await files.status(final))?.identity !== copy.status.identity) {
    // Between the look and the rename the temporary name was given to something else: what we moved
    // is not ours, and it must not keep the name of a verified medium.
    await files.remove(final);
    throw tampered(action);
  }
  await files.sync(root.path);
}

/** Returns only while a path in the zone's root, which is still the same, names this very file. */
async function checkSameFile(
  transport: Transport,
  root: ZoneFolder,
  path: string,
  file: NewFile,
  action: string,
): Promise<void> {
  await checkSameFolder(transport, root);
  const there = await transport.files.status(path);
  if (there?.identity !== file.status.identity) throw tampered(action);
}

function tampered(action: string): AgentError {
  const message = `${action}: someone else changed the zone's root while the file was being placed`;
  return new AgentError("conflict", message);
}

/** Removes a name if it means our own file; it may have been given to another one meanwhile. */
async function removeOwn({ files }: Transport, path: string, own: NewFile): Promise<void> {
  try {
    const there = await files.status(path);
    if (there?.identity === own.status.identity) await files.remove(path);
  } catch {
    // The failure that brought us here is the one to tell; the next attempt clears this away.
  }
}
