// Places media files in the root of a zone and removes them. Copying there as root is the most dangerous
// thing the agent does: the guest's hypervisor may own that tree. So a file is written beside the zone's root
// under a new name, checked through its handle, and moved into the root once every expected digest matches.
// No link, FIFO or device is ever opened.

import { AgentError, invalidArgument } from "../../domain/error.ts";
import { brokenPromise, type FileStatus } from "../host_files.ts";
import { isMediaName } from "../../domain/machine/media.ts";
import type { Transport } from "../transport.ts";
import {
  checkSameFolder,
  copyFile,
  findZoneFolder,
  MEDIA_MODE,
  type MediaCopy,
  temporaryPath,
  type ZoneFolder,
} from "./copy.ts";

/** A file to place in the root of a zone. */
export interface Placement extends MediaCopy {
  /** As `vmadm get` reports it, such as `/zones/<uuid>`. */
  zonepath: string;
}

/**
 * Copies a file into the root of a zone and verifies it before it gets its name. An identical file there
 * counts as success; another regular file of that name is replaced.
 * @returns `file`: its path as the guest's hypervisor sees it, `/name`; `size` in bytes; `sha256`
 * @throws {AgentError} `invalid_argument` for a bad name or a source that is not a regular file;
 * `forbidden` for a zonepath outside the zones or through a link; `not_found` when zone or source
 * does not exist; `conflict` when something else has the name, or the tree changes during the copy;
 * `digest_mismatch`, `storage_full`, `aborted`, `host`
 * @see document 3, Installation media placement
 */
export async function placeFile(
  transport: Transport,
  placement: Placement,
): Promise<{ file: string; size: number; sha256: string }> {
  const { zonepath, name, size, signal } = placement;
  checkName(name);
  return await transport.locks.hold(lockName(zonepath, name), signal, async () => {
    const root = await findZoneFolder(transport, zonepath);
    const there = await transport.files.status(`${root.path}/${name}`);
    if (there !== null) checkReplaceable(`${root.path}/${name}`, there);
    const placed = await placedDigest(transport, root, placement, there);
    if (placed !== null) placement.onProgress?.(size, size);
    const sha256 = placed ?? await copyFile(transport, root, placement);
    return { file: `/${name}`, size, sha256 };
  });
}

/**
 * Removes a file from the root of a zone by its name only: a link is removed, not its target. So is whatever
 * an interrupted placement of that name left.
 * @returns whether the file existed
 * @throws {AgentError} `invalid_argument`, `forbidden`, `host`; `conflict` when a folder has the
 * name
 */
export async function removeFile(
  transport: Transport,
  { zonepath, name }: { zonepath: string; name: string },
): Promise<boolean> {
  checkName(name);
  return await transport.locks.hold(lockName(zonepath, name), undefined, async () => {
    const root = await zoneFolderOrNull(transport, zonepath);
    if (root === null) return false;
    const { files } = transport;
    const leftover = await files.remove(temporaryPath(root, name));
    if (leftover) await files.sync(root.zonepath);
    const removed = await files.removeWithin({ folder: root.path, name });
    if (removed) await files.sync(root.path);
    return removed;
  });
}

function lockName(zonepath: string, name: string): string {
  return `file ${zonepath}/root/${name}`;
}

function checkName(name: string): void {
  if (isMediaName(name)) return;
  const shown = JSON.stringify(name.slice(0, 200));
  const rule =
    "letters, digits, dot, dash and underscore, at most 128, starting with a letter or digit";
  throw invalidArgument("name", `Cannot use ${shown} as the name of a medium, expected ${rule}`);
}

/** The files of a deleted zone are gone. */
async function zoneFolderOrNull(
  transport: Transport,
  zonepath: string,
): Promise<ZoneFolder | null> {
  try {
    return await findZoneFolder(transport, zonepath);
  } catch (error) {
    if (error instanceof AgentError && error.code === "not_found") return null;
    throw error;
  }
}

function checkReplaceable(path: string, there: FileStatus): void {
  if (there.kind === "file") return;
  const found = { folder: "a folder", link: "a symbolic link", other: "a special file" };
  const message = `Cannot place a medium at ${JSON.stringify(path)}: ${found[there.kind]} is there`;
  throw new AgentError("conflict", message);
}

/** The sha256 of the existing file, if its digests match and nobody can write to it. */
async function placedDigest(
  transport: Transport,
  root: ZoneFolder,
  placement: Placement,
  there: FileStatus | null,
): Promise<string | null> {
  const { files } = transport;
  const { name, sha256, sha512, signal } = placement;
  if (sha256 === undefined && sha512 === undefined) return null;
  if (there === null || there.size !== placement.size || there.links !== 1) return null;
  if (there.mode !== MEDIA_MODE || there.owner !== root.status.owner) return null;
  const path = `${root.path}/${name}`;
  const algorithms = sha512 === undefined ? ["sha256"] as const : ["sha256", "sha512"] as const;
  const found = await files.digests(path, algorithms, signal);
  await checkSameFolder(transport, root);
  const same = (await files.status(path))?.identity === there.identity;
  if (!same || found === null || brokenPromise(placement, found) !== null) return null;
  return found.sha256 ?? null;
}
