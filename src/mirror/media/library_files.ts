// All media of this host: the files of the media folders, of the upload folder and of the cache, each with
// the format that its first bytes show.

import { basename, join, resolve } from "@std/path";
import type { CheckLevel } from "../../domain/digest.ts";
import { systemReason } from "../../domain/error.ts";
import type { JobUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import { mapLimited } from "../../runtime/run.ts";
import type { MediaStore } from "../../store/media_store.ts";
import { isWithin, realPath, UNFINISHED_FOLDER } from "./folders.ts";
import { fileInfo } from "../../runtime/regular_file.ts";
import type { KnownCopy, KnownFile, KnownFiles } from "./known_files.ts";
import { type FileLook, lookInto } from "./file_format.ts";

/** Most files in the list, over all folders. */
export const LIBRARY_FILES_MAX = 10_000;
/** Levels of subfolders that are searched. */
const DEPTH_MAX = 4;
/** Files whose first bytes are read at the same time. */
const LOOKS_AT_ONCE = 4;
/** Files whose format is remembered. */
const LOOKS_KEPT = LIBRARY_FILES_MAX;

/** Where a file is from: a media folder of the operator's, an upload, or a download. */
type MediaPlace = "folder" | "upload" | "cache";

interface MediaFolder {
  readonly path: string;
  readonly place: Exclude<MediaPlace, "cache">;
  /** Why its files are not listed; null when it can be read. */
  readonly problem: string | null;
}

/** One listed file, before its content is read. */
export interface FoundFile {
  /** Its path below the folder; machine requests name it so. */
  readonly name: string;
  readonly place: MediaPlace;
  /** The media folder; null for a file of the cache. */
  readonly folder: string | null;
  readonly path: string;
  readonly size: number;
  readonly modified_at: Instant | null;
  /** SHA-256 in hex, if the file has been hashed and has not changed since. */
  readonly sha256: string | null;
  readonly level: CheckLevel | null;
  /** Unfinished jobs that use it. */
  readonly used_by: readonly JobUuid[];
}

/** A listed file with its format. */
export type LibraryFile = FoundFile & FileLook;

/** All media files of this host. */
export interface Library {
  readonly folders: readonly MediaFolder[];
  /** Sorted by name; among equal names, the one that a request would use comes first. */
  readonly files: readonly FoundFile[];
  /** Whether there are more than {@linkcode LIBRARY_FILES_MAX}. */
  readonly truncated: boolean;
  readonly cache: {
    readonly bytes: number; /** Null for no bound. */
    readonly bytes_max: number | null;
  };
}

/** The records and folders that a listing is made of. */
export interface LibrarySources {
  readonly files: KnownFiles;
  readonly media: Pick<MediaStore, "bytes">;
  /** Media folders in search order, the upload folder last. A reload may change them. */
  readonly mediaDirs: readonly string[];
  readonly uploadDir: string;
  /** Infinity when there is no limit. */
  readonly cacheBytesMax: number;
}

/** Lists all files without reading their content. */
export async function listLibrary(deps: LibrarySources): Promise<Library> {
  const known = await deps.files.list();
  const byPath = await deps.files.copies();
  const folders: MediaFolder[] = [];
  const files: FoundFile[] = [];
  const distinct = await distinctFolders(deps);
  const within = realOnes(distinct);
  for (const { path, place } of distinct) {
    const problem = await readFolder({ within, root: path, place, byPath, files });
    folders.push({ path, place, problem });
  }
  for (const file of known) if (file.cached) files.push(cachedFile(file));
  files.sort((one, other) => one.name < other.name ? -1 : one.name > other.name ? 1 : 0);
  const bytes_max = Number.isFinite(deps.cacheBytesMax) ? deps.cacheBytesMax : null;
  return {
    folders,
    files: files.slice(0, LIBRARY_FILES_MAX),
    truncated: files.length > LIBRARY_FILES_MAX,
    cache: { bytes: await deps.media.bytes(), bytes_max },
  };
}

/** The file that a machine request with this name would use. Reads no folder. */
export async function findInFolders(
  deps: LibrarySources,
  name: string,
): Promise<FoundFile | undefined> {
  // Hidden files are not listed, and cannot be named either.
  if (name.split("/").some((part) => part === "" || part.startsWith("."))) return undefined;
  const byPath = await deps.files.copies();
  const distinct = await distinctFolders(deps);
  const within = realOnes(distinct);
  for (const { path: root, place } of distinct) {
    const file = await foundFile({ within, root, place, byPath, files: [] }, name);
    if (file !== undefined) return file;
  }
  return undefined;
}

function cachedFile(file: KnownFile): FoundFile {
  const { name, path, size, created_at, sha256, level, used_by } = file;
  return {
    name,
    place: "cache",
    folder: null,
    path,
    size,
    modified_at: created_at,
    sha256,
    level,
    used_by,
  };
}

/** One media folder that is being read. */
interface FolderReading {
  /** All media folders, links followed. */
  readonly within: readonly string[];
  readonly root: string;
  readonly place: MediaFolder["place"];
  readonly byPath: ReadonlyMap<string, KnownCopy>;
  readonly files: FoundFile[];
}

/** @returns why the folder cannot be read; null when it can, or when nothing was uploaded yet */
async function readFolder(reading: FolderReading): Promise<string | null> {
  try {
    await readBelow(reading, "", 0);
    return null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) {
      return reading.place === "upload" ? null : "it does not exist";
    }
    return systemReason(error);
  }
}

async function readBelow(reading: FolderReading, below: string, depth: number): Promise<void> {
  const { root, files } = reading;
  for await (const entry of Deno.readDir(join(root, below))) {
    // One more than the limit, to know whether the list is complete.
    if (files.length > LIBRARY_FILES_MAX) return;
    if (entry.name.startsWith(".")) continue;
    const name = join(below, entry.name);
    if (entry.isDirectory) {
      if (depth < DEPTH_MAX) await readBelow(reading, name, depth + 1).catch(ignoreUnreadable);
    } else {
      const file = await foundFile(reading, name);
      if (file !== undefined) files.push(file);
    }
  }
}

/** Reads a subfolder; one that the agent may not read counts as empty. */
function ignoreUnreadable(error: unknown): void {
  const passing = error instanceof Deno.errors.NotFound ||
    error instanceof Deno.errors.PermissionDenied;
  if (!passing) throw error;
}

/** A regular file of a folder, or a link to one; undefined for all else. */
async function foundFile(
  { within, root, place, byPath }: FolderReading,
  name: string,
): Promise<FoundFile | undefined> {
  // Ignore broken links, and links that leave the media folders.
  const path = await realPath(join(root, name)).catch(() => undefined);
  if (path === undefined || path.includes(`/${UNFINISHED_FOLDER}/`)) return undefined;
  if (!within.some((folder) => isWithin(folder, path))) return undefined;
  const info = await fileInfo(path);
  if (info === undefined || !info.isFile) return undefined;
  const copy = byPath.get(path);
  const record = copy?.file;
  const same = copy !== undefined && copy.file.size === info.size && info.mtime !== null &&
    info.mtime.getTime() <= Date.parse(copy.verified_at);
  return {
    name,
    place,
    folder: root,
    path,
    size: info.size,
    modified_at: info.mtime === null ? null : info.mtime.toISOString() as Instant,
    sha256: same ? copy.file.sha256 : null,
    level: same ? copy.file.level : null,
    used_by: record?.used_by ?? [],
  };
}

/** The real path of a media folder, or the path itself if it cannot be resolved. */
interface DistinctFolder {
  readonly path: string;
  readonly place: MediaFolder["place"];
  readonly real: string | undefined;
}

/**
 * The media folders without duplicates: two settings may name the same folder by different paths. The upload
 * folder goes by its own path.
 */
export async function distinctFolders(
  { mediaDirs, uploadDir }: Pick<LibrarySources, "mediaDirs" | "uploadDir">,
): Promise<readonly DistinctFolder[]> {
  const spelled = await Promise.all(mediaDirs.map(async (path) => {
    const real = await realPath(path).catch(() => undefined);
    return { path, real, key: real ?? resolve(path) };
  }));
  const upload = spelled.find(({ path }) => path === uploadDir)?.key ?? resolve(uploadDir);
  const first = new Map<string, DistinctFolder>();
  for (const { path, real, key } of spelled) {
    if (first.has(key)) continue;
    const folder = key === upload ? uploadDir : path;
    first.set(key, { path: folder, place: key === upload ? "upload" : "folder", real });
  }
  return [...first.values()];
}

function realOnes(folders: readonly DistinctFolder[]): string[] {
  return folders.map(({ real }) => real).filter((real) => real !== undefined);
}

/** Reads the formats of files, and remembers them until a file changes. */
export function openLooking(): (files: readonly FoundFile[]) => Promise<LibraryFile[]> {
  const known = new Map<string, FileLook>();
  const look = async ({ path, name, size, modified_at }: FoundFile): Promise<FileLook> => {
    const key = JSON.stringify([path, name, size, modified_at]);
    const before = known.get(key);
    if (before !== undefined) return before;
    const found = await lookInto(path, basename(name)).catch(unreadable);
    if (found === undefined) return UNREADABLE;
    for (const oldest of known.keys()) {
      if (known.size < LOOKS_KEPT) break;
      known.delete(oldest);
    }
    known.set(key, found);
    return found;
  };
  return async (files) => {
    const looked: LibraryFile[] = [];
    const places = Array.from(files, (_, at) => at);
    await mapLimited(places, LOOKS_AT_ONCE, async (at) => {
      const file = files[at] as FoundFile;
      looked[at] = { ...file, ...await look(file) };
    });
    return looked;
  };
}

const UNREADABLE: FileLook = { kind: "unknown", boot_record: null, problem: "it cannot be read" };

function unreadable(error: unknown): undefined {
  const passing = error instanceof Error && "code" in error;
  if (!passing) throw error;
}
