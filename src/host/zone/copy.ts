// Copies one file into a zone's root under a temporary name, hashing what is written, and renames it once size and digests
// match. Reading, hashing and writing overlap. The guest's hypervisor may own what is inside, so nothing on the path may be
// a link, and after every step that used a name, that of the file or of the root, it must still refer to the same one.

import { AgentError, invalidArgument } from "../../domain/error.ts";
import { sizeText } from "../../domain/host.ts";
import { checkAborted } from "../../runtime/wait.ts";
import {
  brokenPromise,
  type Digests,
  type FileStatus,
  type HostFileWriter,
  type PromisedDigests,
} from "../host_files.ts";
import { openRegularFile, type RegularFile } from "../../runtime/regular_file.ts";
import type { Transport } from "../transport.ts";
import { normalize } from "@std/path";

/** The file to copy, and its expected content. */
export interface MediaCopy extends PromisedDigests {
  /** Name in the zone's root: `[A-Za-z0-9._-]`, at most 128, no leading dot or dash. */
  name: string;
  /** File on the agent's own host; a link as the last component is refused. */
  source: string;
  size: number;
  /** Called at most every 100 ms, and once when all bytes are written. */
  onProgress?: (done: number, total: number) => void;
  signal?: AbortSignal;
}

/** Readable for all, writable for none, as qemu opens a CD. */
export const MEDIA_MODE = 0o444;

/**
 * A path beside the zone's root, out of reach of the zone but in the same file system. All attempts use the
 * same name, so that the next one removes what a crash left.
 */
export function temporaryPath({ zonepath }: ZoneFolder, name: string): string {
  return `${zonepath}/${temporaryName(name)}`;
}

function temporaryName(name: string): string {
  return `.zonewright-${name}.part`;
}

/**
 * Copies the file and verifies it before it gets its name; leaves nothing behind on failure.
 * @returns the sha256 of its bytes
 * @throws {AgentError} see placeFile()
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
    const copying = { source, copy, action, renamed: false };
    try {
      await checkSameFile(transport, root, temporary, copy, action);
      const found = await fill(transport, root, media, copying);
      await checkCopy(transport, root, media, { ...copying, found });
      await giveName(transport, root, media, copying);
      return found.sha256;
    } catch (error) {
      await removeOwn(transport, root, media, copying);
      throw error;
    } finally {
      await copy.close().catch(() => {});
    }
  } finally {
    await source.close();
  }
}

interface Copying {
  readonly source: RegularFile;
  readonly copy: HostFileWriter;
  /** The beginning of error messages. */
  readonly action: string;
  /** Whether the copy has, or may have, its final name. */
  renamed: boolean;
}

async function openSource(action: string, { source, size }: MediaCopy): Promise<RegularFile> {
  const shown = JSON.stringify(source);
  let file: RegularFile | null;
  try {
    file = await openRegularFile(source);
  } catch (cause) {
    const missing = cause instanceof Error && "code" in cause && cause.code === "ENOENT";
    const message = `${action}: ${shown} ${missing ? "does not exist" : "cannot be read"}`;
    throw new AgentError(missing ? "not_found" : "host", message, { cause });
  }
  if (file === null) throw invalidArgument("source", `${action}: ${shown} is not a regular file`);
  if (file.size === size) return file;
  await file.close();
  const message = `${action}: ${shown} has ${file.size} bytes, expected ${size}`;
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
  const message = `${action}: it has ${sizeText(size)} and ${sizeText(free)} are free there`;
  throw new AgentError("storage_full", message);
}

/** Writes the source's bytes and digests them while they are being written. */
async function fill(
  { files }: Transport,
  root: ZoneFolder,
  media: MediaCopy,
  { source, copy, action }: Copying,
): Promise<Digests & { sha256: string }> {
  const { createHash } = await import("node:crypto");
  const sha256 = createHash("sha256");
  const sha512 = media.sha512 === undefined ? undefined : createHash("sha512");
  const progress = pacedProgress(media.onProgress, media.size);
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
    const message = `${action}: no space left after ${done} of ${media.size} bytes, ` +
      `${sizeText(free)} are free there`;
    throw new AgentError("storage_full", message, { cause });
  }
  if (done !== media.size) {
    const message = `${action}: its source was changed while it was being read`;
    throw new AgentError("digest_mismatch", message);
  }
  const both = sha512 === undefined ? {} : { sha512: sha512.digest("hex") };
  return { sha256: sha256.digest("hex"), ...both };
}

/** Compares digests and size, and waits for the disk; on a remote host, the file is read back. */
async function checkCopy(
  { files }: Transport,
  root: ZoneFolder,
  media: MediaCopy,
  { copy, action, found }: Copying & { readonly found: Digests & { readonly sha256: string } },
): Promise<void> {
  const broken = brokenPromise(media, found);
  if (broken !== null) {
    const message = `${action}: its ${broken} is ${found[broken]}, expected ${media[broken]}`;
    throw new AgentError("digest_mismatch", message);
  }
  const finished = await copy.finish(MEDIA_MODE);
  if (finished.size !== media.size || finished.links !== 1) throw tampered(action);
  if (!files.rereadsCopies) return;
  const temporary = temporaryPath(root, media.name);
  const arrived = (await files.digests(temporary, ["sha256"], media.signal))?.sha256;
  if (arrived === undefined) throw tampered(action);
  if (arrived === found.sha256) return;
  const message = `${action}: its sha256 is ${arrived} there and ${found.sha256} here`;
  throw new AgentError("digest_mismatch", message);
}

/** The last steps, after size and digests matched. */
async function giveName(
  transport: Transport,
  root: ZoneFolder,
  media: MediaCopy,
  copying: Copying,
): Promise<void> {
  const { files } = transport;
  const { copy, action } = copying;
  const { name } = media;
  const final = `${root.path}/${name}`;
  checkAborted(action, media.signal);
  await checkSameFile(transport, root, temporaryPath(root, name), copy, action);
  copying.renamed = true;
  await files.moveWithin({ folder: root.path, name, temporary: temporaryName(name) });
  await checkSameFolder(transport, root);
  if ((await files.status(final))?.identity !== copy.status.identity) {
    // Between check and move, the temporary name was given to something else. What was moved must not keep
    // the name of a verified medium.
    await files.removeWithin({ folder: root.path, name });
    throw tampered(action);
  }
  await files.sync(root.path);
  await files.sync(root.zonepath);
}

/** Returns only if the zone's root is unchanged and the path still names this file. */
async function checkSameFile(
  transport: Transport,
  root: ZoneFolder,
  path: string,
  file: HostFileWriter,
  action: string,
): Promise<void> {
  await checkSameFolder(transport, root);
  const there = await transport.files.status(path);
  if (there?.identity !== file.status.identity) throw tampered(action);
}

function tampered(action: string): AgentError {
  const message =
    `${action}: the zone's root was changed by another process while the file was being placed`;
  return new AgentError("conflict", message);
}

/** Removes our file, unless its name has been given to another one. */
async function removeOwn(
  { files }: Transport,
  root: ZoneFolder,
  { name }: MediaCopy,
  { copy, renamed }: Copying,
): Promise<void> {
  const isOwn = async (path: string) =>
    (await files.status(path))?.identity === copy.status.identity;
  try {
    const temporary = temporaryPath(root, name);
    if (await isOwn(temporary)) await files.remove(temporary);
    if (renamed && await isOwn(`${root.path}/${name}`)) {
      await files.removeWithin({ folder: root.path, name });
    }
  } catch {
    // The failure that led here is what matters; the next attempt removes this file.
  }
}

const PACE_MS = 100;

/** Reports bytes done at most every 100 ms, and once when all are done. */
function pacedProgress(
  report: ((done: number, total: number) => void) | undefined,
  total: number,
): (done: number) => void {
  let reportedAt = -Infinity;
  return (done) => {
    const now = performance.now();
    if (done !== total && now - reportedAt < PACE_MS) return;
    reportedAt = now;
    report?.(done, total);
  };
}

/** The root of a zone and its identity. */
export interface ZoneFolder {
  readonly zonepath: string;
  /** `<zonepath>/root`, as an absolute path. */
  readonly path: string;
  readonly status: FileStatus;
}

const COMPONENT = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/**
 * Finds `<zonepath>/root`; every folder on the way must be a real one.
 * @param zonepath as `vmadm get` reports it, e.g. `/zones/<uuid>`
 * @throws {AgentError} `forbidden` when the zonepath is not below the transport's zones, or leads
 * through a link; `not_found` when it does not exist
 */
export async function findZoneFolder(transport: Transport, zonepath: string): Promise<ZoneFolder> {
  const { zonesRoot } = transport;
  const action = `Cannot use zonepath ${JSON.stringify(zonepath)}`;
  const base = zonesRoot === "/" ? "/" : `${zonesRoot}/`;
  const components = zonepath.slice(base.length).split("/");
  if (
    !zonepath.startsWith(base) || normalize(zonepath) !== zonepath ||
    !components.every((component) => COMPONENT.test(component))
  ) {
    throw new AgentError("forbidden", `${action}, expected a folder below ${zonesRoot}`);
  }
  let path = zonesRoot;
  const zones = await realFolder(transport, path, action);
  let status = zones;
  for (const component of [...components, "root"]) {
    path = path === "/" ? `/${component}` : `${path}/${component}`;
    status = await realFolder(transport, path, action);
  }
  if (status.owner !== zones.owner) {
    const owners = `user ${status.owner}, expected ${zones.owner}`;
    throw new AgentError("forbidden", `${action}: ${JSON.stringify(path)} belongs to ${owners}`);
  }
  return { zonepath, path, status };
}

async function realFolder(
  transport: Transport,
  path: string,
  action: string,
): Promise<FileStatus> {
  const status = await transport.files.status(path);
  if (status === null) {
    throw new AgentError("not_found", `${action}: ${JSON.stringify(path)} does not exist`);
  }
  if (status.kind !== "folder") {
    const found = status.kind === "link" ? "a symbolic link" : "not a folder";
    throw new AgentError("forbidden", `${action}: ${JSON.stringify(path)} is ${found}`);
  }
  return status;
}

/**
 * Returns only if the zone's root is still the same folder.
 * @throws {AgentError} `conflict` when it was replaced
 */
export async function checkSameFolder(
  transport: Transport,
  before: ZoneFolder,
): Promise<void> {
  const now = await findZoneFolder(transport, before.zonepath);
  if (now.status.identity !== before.status.identity) {
    const message = `Cannot trust ${JSON.stringify(before.path)}: ` +
      "it was replaced by another folder while a file was being placed";
    throw new AgentError("conflict", message);
  }
}
