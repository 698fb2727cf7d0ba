// Verified files, each in a folder named by its own SHA-256. What they are and who uses them is known
// by the store; what the store does not know is no file of the cache.
//
//   sha256-<hex>/<name>   files; a name appears here only after the bytes were verified
//   partial/              unfinished downloads, see partial.ts

import { dirname, join } from "@std/path";
import { closing } from "../../program/loop.ts";
import type { CheckLevel } from "../../domain/index/check_level.ts";
import { requireDigest } from "../../domain/digest.ts";
import type { Now } from "../../domain/instant.ts";
import type { Log } from "../../metrics/log.ts";
import type { MediaFile, MediaStore } from "../../store/media_store.ts";
import { fileInfo } from "./free_space.ts";
import type { Hashes } from "./hash.ts";
import { removeOutputs } from "./partial.ts";
import type { WantedFile } from "./wanted_file.ts";
import { shown } from "../web/request.ts";
import { AgentError } from "../../domain/error.ts";

/** A file of the cache. */
export interface CachedFile {
  readonly path: string;
  readonly size: number;
  /** Of the file as it is used. */
  readonly sha256: string;
  readonly level: CheckLevel;
}

/** A verified file that is to be kept. */
export interface NewFile {
  /** Where its bytes are, on the disk; they are moved. */
  readonly from: string;
  readonly size: number;
  readonly sha256: string;
  readonly level: CheckLevel;
  /** Of the file as downloaded. */
  readonly downloaded: Hashes;
}

/** The verified files, by what was asked for. */
export interface Cache extends CacheRoom {
  readonly partialFolder: string;
  /** Makes the folders, and once removes what a crash has left without its record. */
  prepare(): Promise<void>;
  /**
   * The file that is wanted, when it is here in its full size.
   * @throws {AgentError} `digest_mismatch` when it lacks a digest that is asked for now
   */
  find(wanted: WantedFile): Promise<CachedFile | undefined>;
  /** Gives a verified file its name, and records it. */
  keep(wanted: WantedFile, file: NewFile): Promise<CachedFile>;
  /** Where a file lies. */
  pathOf(file: Pick<MediaFile, "path" | "sha256" | "name">): string;
  /** Removes the bytes of a file that is no longer known; a file of the operator is left alone. */
  evict(file: MediaFile): Promise<void>;
}

/** What the cache works with. */
interface CacheDependencies {
  readonly folder: string;
  readonly media: MediaStore;
  /** Bytes that the files may have together. */
  readonly bytesMax: number;
  readonly now: Now;
  readonly log: Log;
}

const FILE_FOLDER = /^sha256-([0-9a-f]{64})$/;

/** Opens a cache; nothing is touched yet. */
export function openCache(deps: CacheDependencies): Cache {
  const { folder, media, log } = deps;
  const partialFolder = join(folder, "partial");
  const pathOf: Cache["pathOf"] = ({ path, sha256, name }) =>
    path ?? join(folder, `sha256-${sha256}`, name);
  const remove = async (file: MediaFile) => {
    if (file.path === null) await removeFolder(dirname(pathOf(file)));
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
    prepare: async () => {
      await Deno.mkdir(partialFolder, { recursive: true, mode: 0o700 });
      swept ??= sweep(folder, partialFolder, media).catch((error) => {
        // Tried again by the next download: what failed may pass, such as a busy store.
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
  // What was not hashed then cannot be compared now: only the file as downloaded can tell.
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
  // The same bytes keep the name that they have: a job may be reading them.
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

/** A crash between a rename and its record leaves a folder that nobody knows; it is downloaded anew. */
async function sweep(folder: string, partials: string, media: MediaStore): Promise<void> {
  await removeOutputs(partials);
  const known = new Set<string>();
  for (const { sha256, path } of await media.list()) if (path === null) known.add(sha256);
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const [, sha256] = FILE_FOLDER.exec(name) ?? [];
    if (isDirectory && sha256 !== undefined && !known.has(sha256)) {
      await removeFolder(join(folder, name));
    }
  }
}

async function removeFolder(path: string): Promise<void> {
  try {
    await Deno.remove(path, { recursive: true });
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** A rename survives power loss only when its folder has been written too. */
async function syncFolder(path: string): Promise<void> {
  await closing(await Deno.open(path, { read: true }), (folder) => folder.sync());
}

// The bound on the size of the cache. Room is made by taking away what was used longest ago, never
// what an unfinished job uses. Downloads under way have their room reserved, so that two that fit one
// by one do not pass the bound together.

/** Room in the cache. */
interface CacheRoom {
  /**
   * Keeps so many bytes for a file that is on its way. Disposal gives them back.
   * @throws {AgentError} `storage_full` when so many cannot be had
   */
  reserve(bytes: number, what: string): Promise<Disposable>;
}

/** What the room is made in. */
interface CacheRoomDependencies {
  readonly media: MediaStore;
  /** Infinite for no bound. */
  readonly bytesMax: number;
  /** Removes the bytes of a file that is no longer known. */
  readonly evict: (file: MediaFile) => Promise<void>;
}

/** Opens it. */
function openCacheRoom({ media, bytesMax, evict }: CacheRoomDependencies): CacheRoom {
  let reserved = 0;
  let last: Promise<unknown> = Promise.resolve();
  const makeRoom = async (bytes: number, what: string) => {
    if (bytes > bytesMax) {
      const message = `Cannot ${what}: it has ${bytes} bytes, the cache may have ${bytesMax}`;
      throw new AgentError("storage_full", message);
    }
    let held = await media.bytes();
    const fits = () => held + reserved + bytes <= bytesMax;
    if (fits()) return;
    for (const file of await media.unused()) {
      // A job may have begun to use it since it was listed.
      if (await media.remove(file.sha256) !== "removed") continue;
      await evict(file);
      held -= file.size;
      if (fits()) return;
    }
    const message = `Cannot ${what}: ${held + reserved} bytes of the cache are in use, ` +
      `${bytes} more would be over its ${bytesMax}`;
    throw new AgentError("storage_full", message);
  };
  return {
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
