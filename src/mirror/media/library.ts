// The media library: lists media, receives uploads, and removes uploaded and cached files. The operator's own
// files are listed but never changed.

import { dirname, join } from "@std/path";
import { AgentError } from "../../domain/error.ts";
import type { Log } from "../../metrics/log.ts";
import { isWithin, realPath } from "./folders.ts";
import { fileInfo, syncFolder } from "../../runtime/regular_file.ts";
import { type KnownFile, neededBy } from "./known_files.ts";
import {
  distinctFolders,
  findInFolders,
  type FoundFile,
  type Library,
  type LibraryFile,
  type LibrarySources,
  listLibrary,
  openLooking,
} from "./library_files.ts";
import { removeFile } from "./partial.ts";
import type { ArrivedFile, UploadPart, UploadResult, Uploads } from "./uploads.ts";

interface Uploaded {
  readonly file: LibraryFile;
  readonly replaced: boolean;
}

/** Kinds of files that can be removed; a record is of a file whose bytes are gone. */
export const REMOVED_KINDS = [
  "cached file",
  "uploaded file",
  "unfinished upload",
  "record",
] as const;

/** A removed file, and which kind it was. */
interface RemovedMedium {
  readonly removed: typeof REMOVED_KINDS[number];
  readonly path: string;
}

/** The media of this host. */
export interface MediaLibrary {
  list(): Promise<Library>;
  /** Reads the first bytes of these listed files. */
  look(files: readonly FoundFile[]): Promise<LibraryFile[]>;
  /** The file that a machine request with this name would use. */
  find(name: string): Promise<LibraryFile | undefined>;
  readonly uploads: Uploads;
  /**
   * Receives one request of an upload.
   * @param replace whether to replace an uploaded file that no unfinished job uses
   * @throws {AgentError} as Uploads.receive(); `conflict` for a name that is taken or in use;
   *   `forbidden` for one that is taken in a folder of the operator
   */
  upload(
    part: UploadPart,
    replace: boolean,
  ): Promise<UploadResult<Uploaded>>;
  /**
   * Removes the uploaded file of this name, or else the unfinished upload, or else the cached file.
   * @throws {AgentError} `not_found`; `conflict` while it is used; `forbidden` for a file of the operator
   */
  removeNamed(name: string): Promise<RemovedMedium>;
  /**
   * Removes a recorded file: a cached or uploaded one with its bytes.
   * @throws {AgentError} as removeNamed()
   */
  removeKnown(sha256: string): Promise<RemovedMedium>;
}

interface LibraryDependencies extends LibrarySources {
  readonly uploads: Uploads;
  readonly log: Log;
}

/** Opens the library. Folders are read on request. */
export function openLibrary(deps: LibraryDependencies): MediaLibrary {
  const { uploads } = deps;
  const look = openLooking();
  const find = async (name: string) => {
    const found = await findInFolders(deps, name);
    return found === undefined ? undefined : (await look([found]))[0];
  };
  return {
    list: () => listLibrary(deps),
    look,
    find,
    uploads,
    upload: async (part, replace) => {
      await requireFree(deps, part.name, replace);
      return await uploads.receive(part, async (file) => {
        const replaced = await publish(deps, part, file, replace);
        const kept = await find(part.name);
        // The store knows files by digest: it may have recorded the same bytes under another path.
        const { sha256, level } = file;
        if (kept !== undefined) return { file: { ...kept, sha256, level }, replaced };
        throw new AgentError(
          "conflict",
          `Cannot keep ${part.name}: it was removed right after the upload`,
        );
      });
    },
    removeNamed: (name) => removeNamed(deps, name),
    removeKnown: (sha256) => removeKnown(deps, sha256),
  };
}

async function removeNamed(deps: LibraryDependencies, name: string): Promise<RemovedMedium> {
  const path = join(deps.uploadDir, name);
  const info = await fileInfo(path);
  if (info === undefined) return await removeUnpublished(deps, name, path);
  if (info.isDirectory) {
    throw new AgentError("conflict", `Cannot remove ${name}: ${path} is a folder, not a file`);
  }
  await deps.uploads.take();
  await forgetRecord(deps, path, `remove ${name}`);
  await removeFile(path);
  deps.log.info("uploaded file removed", { path });
  return { removed: "uploaded file", path };
}

/** Removes the unfinished upload of a name; without one, the cached file. */
async function removeUnpublished(
  deps: LibraryDependencies,
  name: string,
  path: string,
): Promise<RemovedMedium> {
  const { uploads, files, log } = deps;
  await requireNotOperators(deps, name);
  if (await uploads.remove(name)) return { removed: "unfinished upload", path };
  const cached = await cachedOf(deps, name);
  if (cached === undefined) {
    const message = `Cannot find ${name}: no such file was uploaded, and none is in the cache`;
    throw new AgentError("not_found", message);
  }
  await files.remove(cached.sha256);
  log.info("cached file removed", { path: cached.path });
  return { removed: "cached file", path: cached.path };
}

async function removeKnown(deps: LibraryDependencies, sha256: string): Promise<RemovedMedium> {
  const { files } = deps;
  const file = await files.get(sha256);
  const { cached, path } = file;
  const upload = !cached && await isUploaded(deps, path);
  if (!cached && !upload) await requireGone(deps, file);
  if (!upload) {
    await files.remove(sha256);
    return { removed: cached ? "cached file" : "record", path };
  }
  await deps.uploads.take();
  // Another file may have the same bytes; its record stays.
  await forgetRecord(deps, path, `remove ${file.name}`);
  await removeFile(path);
  return { removed: "uploaded file", path };
}

/** The cached file of this name. @throws {AgentError} `conflict` when several have it */
async function cachedOf(
  { files }: LibraryDependencies,
  name: string,
): Promise<KnownFile | undefined> {
  const found = (await files.list()).filter((file) => file.cached && file.name === name);
  if (found.length <= 1) return found[0];
  const digests = found.map(({ sha256 }) => `sha256:${sha256}`).join(", ");
  const message =
    `Cannot remove ${name}: ${found.length} files of the cache have this name; name ` +
    `one by its digest: ${digests}`;
  throw new AgentError("conflict", message);
}

/** Refuses a name that is taken. @returns whether an uploaded file that may be replaced has the name */
async function requireFree(
  deps: LibraryDependencies,
  name: string,
  replace: boolean,
): Promise<boolean> {
  await requireNotOperators(deps, name);
  const path = join(deps.uploadDir, name);
  const info = await fileInfo(path);
  if (info === undefined) return false;
  if (!info.isFile) {
    const message = `Cannot upload ${name}: ${path} is not a regular file`;
    throw new AgentError("conflict", message);
  }
  if (!replace) {
    const message =
      `Cannot upload ${name}: there is a file of this name: pass replace=true, or --replace ` +
      "in the command line, to take its place";
    throw new AgentError("conflict", message);
  }
  await requireUnused(deps, path, `replace ${name}`);
  return true;
}

/** @throws {AgentError} `forbidden` naming the media folder that has a file of this name */
async function requireNotOperators(deps: LibraryDependencies, name: string): Promise<void> {
  for (const { path, place } of await distinctFolders(deps)) {
    if (place === "upload" || await fileInfo(join(path, name)) === undefined) continue;
    throw operators(name, path);
  }
}

function operators(name: string, folder: string): AgentError {
  const message =
    `Cannot change ${name}: it is the operator's own file in the media folder ${folder}`;
  return new AgentError("forbidden", message);
}

/** @throws {AgentError} `conflict` naming the jobs that use the file or are reading it */
async function requireUnused(
  { files }: LibraryDependencies,
  path: string,
  action: string,
): Promise<void> {
  const real = await realPath(path) ?? path;
  const readers = files.readers(real);
  const known = (await files.copies()).get(real)?.file;
  const jobs = [...new Set([...readers, ...known?.used_by ?? []])];
  if (jobs.length === 0) return;
  const how = known === undefined ? "read" : "used";
  throw neededBy(jobs, `Cannot ${action}: it is ${how}`);
}

/** Drops the record of a file before it is removed. @throws {AgentError} `conflict` while it is used */
async function forgetRecord(
  deps: LibraryDependencies,
  path: string,
  action: string,
): Promise<void> {
  await requireUnused(deps, path, action);
  await deps.files.gone(await realPath(path) ?? path);
}

/** Gives a complete file its name and records it. @returns whether it replaced another file */
async function publish(
  deps: LibraryDependencies,
  { name }: UploadPart,
  { path: from, size, sha256, level }: ArrivedFile,
  replace: boolean,
): Promise<boolean> {
  const replaced = await requireFree(deps, name, replace);
  const target = join(deps.uploadDir, name);
  await Deno.chmod(from, 0o444);
  if (replaced) {
    await forgetRecord(deps, target, `replace ${name}`);
    await Deno.rename(from, target);
  } else await linkNew(from, target, name);
  await syncFolder(deps.uploadDir);
  const path = await Deno.realPath(target);
  await deps.files.note({ source: "path", path, name, size, sha256, label: `file ${name}`, level });
  deps.log.info("file uploaded", { path, size, sha256, replaced });
  return replaced;
}

/** Links the file under its name: unlike a rename, that fails when a file of this name has just appeared. */
async function linkNew(from: string, target: string, name: string): Promise<void> {
  try {
    await Deno.link(from, target);
    // At once, or a later request would write into the finished file.
    await Deno.remove(from);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.AlreadyExists)) throw cause;
    throw new AgentError(
      "conflict",
      `Cannot keep ${name}: another file of this name was added in the meantime`,
      { cause },
    );
  }
}

async function isUploaded({ uploadDir }: LibraryDependencies, path: string): Promise<boolean> {
  const real = await realPath(uploadDir);
  return real !== undefined && dirname(path) === real;
}

/** @throws {AgentError} `forbidden` for a file in one of the operator's media folders */
async function requireGone(
  { mediaDirs }: LibraryDependencies,
  { name, path }: KnownFile,
): Promise<void> {
  if (await fileInfo(path) === undefined) return;
  for (const folder of mediaDirs) {
    const real = await realPath(folder);
    if (real !== undefined && isWithin(real, path)) throw operators(name, folder);
  }
}
