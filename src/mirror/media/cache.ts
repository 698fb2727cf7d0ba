// The cache of verified files, each in a folder named by its SHA-256. The store records what the
// files are and who uses them; a file without a record is not part of the cache.
//
//   sha256-<hex>/<name>   files; a name appears here only after the bytes were verified
//   partial/              unfinished downloads, see partial.ts

import { dirname, join } from "@std/path";
import { absent, fileInfo, syncFolder } from "../../runtime/regular_file.ts";
import { type CheckLevel, requireDigest } from "../../domain/digest.ts";
import type { Now } from "../../domain/instant.ts";
import type { Log } from "../../metrics/log.ts";
import type { MediaFile, MediaStore } from "../../store/media_store.ts";
import type { Hashes } from "./hash.ts";
import { removeOutputs } from "./partial.ts";
import type { WantedFile } from "./wanted_file.ts";
import { shown } from "../web/request.ts";
import { AgentError, systemCode, systemReason } from "../../domain/error.ts";

/** A file in the cache, and the level at which it was verified. */
export interface CachedFile {
  readonly path: string;
  readonly size: number;
  /** Hash of the file as it is used, after decompression. */
  readonly sha256: string;
  readonly level: CheckLevel;
}

/** A verified file to keep. */
interface NewFile {
  /** Path of its bytes on the disk, from where they are moved. */
  readonly from: string;
  readonly size: number;
  readonly sha256: string;
  readonly level: CheckLevel;
  /** Hashes of the file as downloaded. */
  readonly downloaded: Hashes;
}

/** The verified files, looked up by request. */
export interface Cache extends CacheRoom {
  readonly partialFolder: string;
  /** Creates the folders, and the first time removes what a crash left without a record. */
  prepare(): Promise<void>;
  /**
   * Finds a requested file, if it is in the cache in its full size.
   * @throws {AgentError} `digest_mismatch` when it does not match a digest that is requested now
   */
  find(wanted: WantedFile): Promise<CachedFile | undefined>;
  /** Moves a verified file into place and records it. */
  keep(wanted: WantedFile, file: NewFile): Promise<CachedFile>;
  pathOf(file: Pick<MediaFile, "path" | "sha256" | "name">): string;
  /** Removes the bytes of a forgotten file; the operator's own files are left alone. */
  evict(file: MediaFile): Promise<void>;
}

interface CacheDependencies {
  readonly folder: string;
  readonly media: MediaStore;
  /** Bytes of all files together. */
  readonly bytesMax: number;
  readonly now: Now;
  readonly log: Log;
}

const FILE_FOLDER = /^sha256-([0-9a-f]{64})$/;

/** Opens the cache without touching the disk. */
export function openCache(deps: CacheDependencies): Cache {
  const { folder, media, log } = deps;
  const partialFolder = join(folder, "partial");
  const pathOf: Cache["pathOf"] = ({ path, sha256, name }) =>
    path ?? join(folder, `sha256-${sha256}`, name);
  const remove = async (file: MediaFile) => {
    if (file.path === null) {
      await Deno.remove(dirname(pathOf(file)), { recursive: true }).catch(absent);
    }
  };
  const evict = async (file: MediaFile) => {
    await remove(file);
    log.info("file removed from the cache", { label: file.label, sha256: file.sha256 });
  };
  const room = openCacheRoom({ media, bytesMax: deps.bytesMax, evict });
  let swept: Promise<void> | undefined;
  return {
    partialFolder,
    pathOf,
    evict,
    reserve: room.reserve,
    requireFitting: room.requireFitting,
    prepare: async () => {
      await makeFolder(folder, partialFolder);
      swept ??= sweep(folder, partialFolder, media).catch((error) => {
        // The next download tries again: the cause, such as a busy store, may pass.
        swept = undefined;
        throw error;
      });
      await swept;
    },
    find: (wanted) => find(deps, pathOf, remove, wanted),
    keep: (wanted, file) => keep(deps, pathOf, wanted, file),
  };
}

async function find(
  { media }: CacheDependencies,
  pathOf: Cache["pathOf"],
  remove: (file: MediaFile) => Promise<void>,
  wanted: WantedFile,
): Promise<CachedFile | undefined> {
  const [first] = wanted.digests;
  if (first === undefined) return undefined;
  const found = await media.find(first, wanted.compression);
  if (found === undefined) return undefined;
  const path = pathOf(found);
  const info = await fileInfo(path);
  if (info === undefined || !info.isFile || info.size !== found.size) {
    await media.remove(found.sha256, true);
    await remove(found);
    return undefined;
  }
  const { download, size, sha256, level } = found;
  // A hash that was not computed then cannot be compared now; only a new download can.
  if (wanted.digests.some(({ algorithm }) => download[algorithm] === null)) return undefined;
  for (const digest of wanted.digests) requireDigest(`the cached ${path}`, download, digest);
  return { path, size, sha256, level };
}

async function keep(
  { media, now }: CacheDependencies,
  pathOf: Cache["pathOf"],
  wanted: WantedFile,
  { from, size, sha256, level, downloaded }: NewFile,
): Promise<CachedFile> {
  const known = await media.get(sha256);
  const inCache = known !== undefined && known.path === null ? known : undefined;
  // Bytes already in the cache keep their name: a job may be reading them.
  const name = inCache?.name ?? wanted.name;
  const path = pathOf({ path: null, sha256, name });
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await Deno.chmod(from, 0o444);
  await Deno.rename(from, path);
  await syncFolder(dirname(path));
  const at = now();
  await media.keep({
    sha256,
    name,
    path: null,
    size,
    source: wanted.source,
    origin: shown(wanted.urls[0] ?? ""),
    label: wanted.label,
    level,
    created_at: at,
    last_used_at: at,
    verified_at: at,
  }, { packed: wanted.compression, sha512: null, ...downloaded });
  return { path, size, sha256, level };
}

/**
 * Removes folders without a record, which a crash between rename and record leaves; their files are
 * downloaded again.
 */
async function sweep(folder: string, partials: string, media: MediaStore): Promise<void> {
  await removeOutputs(partials);
  const known = new Set<string>();
  for (const { sha256, path } of await media.list()) if (path === null) known.add(sha256);
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const [, sha256] = FILE_FOLDER.exec(name) ?? [];
    if (isDirectory && sha256 !== undefined && !known.has(sha256)) {
      await Deno.remove(join(folder, name), { recursive: true }).catch(absent);
    }
  }
}

/** The size limit of the cache, with the downloads under way, for which it reserves room. */
interface CacheRoom {
  /**
   * Reserves bytes for a file about to be downloaded; disposal releases them.
   * @throws {AgentError} `storage_full` when there is not enough room
   */
  reserve(bytes: number, what: string): Promise<Disposable>;
  /** @throws {AgentError} `storage_full` for a file that the cache cannot hold even alone */
  requireFitting(bytes: number, what: string): void;
}

interface CacheRoomDependencies {
  readonly media: MediaStore;
  /** Infinity when there is no limit. */
  readonly bytesMax: number;
  /** Removes the bytes of a file that is no longer recorded. */
  readonly evict: (file: MediaFile) => Promise<void>;
}

/** Evicts the least recently used files to make room, never one that an unfinished job uses. */
function openCacheRoom({ media, bytesMax, evict }: CacheRoomDependencies): CacheRoom {
  let reserved = 0;
  let last: Promise<unknown> = Promise.resolve();
  const requireFitting = (bytes: number, what: string) => {
    if (bytes <= bytesMax) return;
    const message = `Cannot ${what}: it has ${bytes} bytes, the cache holds at most ${bytesMax}`;
    throw new AgentError("storage_full", message);
  };
  const makeRoom = async (bytes: number, what: string) => {
    requireFitting(bytes, what);
    let held = await media.bytes();
    const fits = () => held + reserved + bytes <= bytesMax;
    if (fits()) return;
    for (const file of await media.unused()) {
      // A job may have started to use it since the list was read.
      if (await media.remove(file.sha256) !== "removed") continue;
      await evict(file);
      held -= file.size;
      if (fits()) return;
    }
    const message = `Cannot ${what}: the cache has ${held + reserved} bytes in use, ` +
      `${bytes} more would exceed its ${bytesMax}`;
    throw new AgentError("storage_full", message);
  };
  return {
    requireFitting,
    async reserve(bytes, what) {
      const mine = last.then(async () => {
        await makeRoom(bytes, what);
        reserved += bytes;
      });
      last = mine.catch(() => {});
      await mine;
      let given = false;
      return {
        [Symbol.dispose]() {
          if (!given) reserved -= bytes;
          given = true;
        },
      };
    },
  };
}

/** Makes a folder below that of the cache. @throws {AgentError} `conflict` or `forbidden`; `storage_full` */
async function makeFolder(cache: string, path: string): Promise<void> {
  try {
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const message = `Cannot keep media in ${cache}: ${systemReason(cause)}, expected a folder ` +
      "that the agent may write to";
    throw new AgentError(systemCode(cause) ?? "internal", message, { cause });
  }
}
