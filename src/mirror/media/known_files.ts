// The recorded files by digest: verifying one again, removing one, recording one of the operator's. The
// record of a damaged file is dropped; the operator's own files are never deleted.

import { whileOpen } from "../../runtime/run.ts";
import { type DigestAlgorithm, requireDigest } from "../../domain/digest.ts";
import { AgentError } from "../../domain/error.ts";
import type { JobUuid } from "../../domain/id.ts";
import type { Instant, Now } from "../../domain/instant.ts";
import type { Log } from "../../metrics/log.ts";
import type { MediaFile, MediaStore } from "../../store/media_store.ts";
import type { Cache } from "./cache.ts";
import { type Hashes, type HashFileOptions, type Hashing, hashInto } from "./hash.ts";
import type { Medium } from "./wanted_file.ts";

/** How to follow a verification, and who needs the file. */
interface VerifyOptions extends HashFileOptions {
  /** The job that uses the file; the file stays while the job is unfinished. */
  readonly job?: JobUuid;
}

/** A recorded file, and the jobs that use it. */
export interface KnownFile extends MediaFile {
  readonly path: string;
  /** Whether it is in the cache, not in a media folder. */
  readonly cached: boolean;
  /** Unfinished jobs whose machines boot from it. */
  readonly used_by: readonly JobUuid[];
}

/** A recorded file in a media folder. */
export interface KnownCopy {
  readonly file: KnownFile;
  readonly path: string;
  /** When the bytes at this path were hashed. */
  readonly verified_at: Instant;
}

/** The files that the store has recorded, by their SHA-256. */
export interface KnownFiles {
  /** All files, the most recently used first. */
  list(): Promise<KnownFile[]>;
  /** The recorded places of files in media folders, by path. */
  copies(): Promise<ReadonlyMap<string, KnownCopy>>;
  /** @throws {AgentError} `not_found` when no file with this digest is recorded */
  get(sha256: string): Promise<KnownFile>;
  /**
   * Reads a recorded file again.
   * @throws {AgentError} `not_found`; `digest_mismatch` when it is damaged, which also removes it
   */
  verify(sha256: string, options?: VerifyOptions): Promise<Medium>;
  /**
   * Hashes a file in parts, as they arrive.
   * @param wanted algorithms besides SHA-256
   */
  hash(parts: AsyncIterable<Uint8Array>, wanted: readonly DigestAlgorithm[]): Promise<Hashes>;
  /** Records a verified file of the operator's, and the job that uses it. */
  note(medium: Medium, job?: JobUuid): Promise<void>;
  /** Forgets a path whose file is about to be removed; other paths with the same bytes stay recorded. */
  gone(path: string): Promise<void>;
  /** Records that a job is reading a file without a digest yet, until disposal. */
  reading(path: string, job: JobUuid): Disposable;
  /** Jobs that are reading the file of a path. */
  readers(path: string): readonly JobUuid[];
  /** @throws {AgentError} `not_found`; `conflict` naming the jobs that use it */
  remove(sha256: string): Promise<void>;
}

/** Where files are recorded and stored, and how they are hashed. */
interface KnownFilesDependencies {
  readonly media: MediaStore;
  readonly cache: Cache;
  readonly hashing: Hashing;
  readonly now: Now;
  readonly log: Log;
}

/** Opens the recorded files. A file in the cache without a record is not listed. */
export function openKnownFiles(deps: KnownFilesDependencies): KnownFiles {
  const shown = async (file: MediaFile) => ({
    ...file,
    path: deps.cache.pathOf(file),
    cached: file.path === null,
    used_by: await deps.media.users(file.sha256),
  });
  const list = async () => await Promise.all((await deps.media.list()).map(shown));
  return {
    list,
    copies: async () => {
      const files = new Map((await list()).map((file) => [file.sha256, file]));
      const copies = await deps.media.copies();
      return new Map(copies.flatMap(({ path, sha256, verified_at }) => {
        const file = files.get(sha256);
        return file === undefined ? [] : [[path, { file, path, verified_at }]];
      }));
    },
    get: async (sha256) => await shown(await known(deps.media, sha256)),
    verify: (sha256, options = {}) => verify(deps, sha256, options),
    hash: (parts, wanted) =>
      whileOpen(deps.hashing.open(wanted), async (hasher) => {
        for await (const part of parts) await hasher.update(part);
        return await hasher.finish();
      }),
    note: (medium, job) => note(deps, medium, job),
    gone: (path) => deps.media.gone(path),
    ...openReaders(),
    remove: (sha256) => remove(deps, sha256),
  };
}

/** Which jobs read which files. Kept in memory only: after a restart, a job reads its file again. */
export function openReaders(): Pick<KnownFiles, "reading" | "readers"> {
  const readings = new Set<{ readonly path: string; readonly job: JobUuid }>();
  return {
    reading(path, job) {
      const reading = { path, job };
      readings.add(reading);
      return { [Symbol.dispose]: () => void readings.delete(reading) };
    },
    readers: (path) => [...readings].filter((one) => one.path === path).map(({ job }) => job),
  };
}

async function known(media: MediaStore, sha256: string): Promise<MediaFile> {
  const file = await media.get(sha256);
  if (file !== undefined) return file;
  const message = `Cannot find medium sha256:${sha256}: no file with this digest is recorded`;
  throw new AgentError("not_found", message, { about: { kind: "medium" } });
}

async function verify(
  deps: KnownFilesDependencies,
  sha256: string,
  { signal, onProgress, job }: VerifyOptions,
): Promise<Medium> {
  const { media, cache, now, log } = deps;
  const file = await known(media, sha256);
  const path = cache.pathOf(file);
  await media.use(sha256, now(), job);
  const forget = async () => {
    await media.remove(sha256, true);
    await cache.evict(file);
  };
  let found: Hashes;
  try {
    const share = signal === undefined ? {} : { signal };
    const how = { ...share, ...(onProgress === undefined ? {} : { onProgress }) };
    found = await whileOpen(deps.hashing.open(), async (hasher) => {
      await hashInto(hasher, path, how);
      return await hasher.finish();
    });
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    await forget();
    const message = `Cannot find medium ${file.label}: its file is gone, so its record was removed`;
    throw new AgentError("not_found", message, { cause, about: { kind: "medium" } });
  }
  try {
    requireDigest(path, found, { algorithm: "sha256", value: sha256 });
  } catch (error) {
    await forget();
    log.warn("damaged file discarded", { label: file.label });
    throw error;
  }
  await media.verified(sha256, now());
  const { name, size, source, label, level } = file;
  return { source, path, name, size, sha256, label, level };
}

async function note(
  { media, now }: KnownFilesDependencies,
  { source, path, name, size, sha256, label, level }: Medium,
  job: JobUuid | undefined,
): Promise<void> {
  const at = now();
  const file = await media.get(sha256);
  // The cache has the same bytes, which nobody else changes.
  if (file !== undefined && file.path === null) {
    await media.copied({ path, sha256, verified_at: at });
  } else {
    await media.keep({
      sha256,
      name,
      path,
      size,
      source,
      origin: path,
      label,
      level,
      created_at: at,
      last_used_at: at,
      verified_at: at,
    });
  }
  await media.use(sha256, at, job);
}

/** The error for a file that jobs need. @param why such as `Cannot remove a.iso: it is used` */
export function neededBy(jobs: readonly string[], why: string): AgentError {
  const [name = ""] = jobs;
  const message = `${why} by job ${jobs.join(", ")}`;
  return new AgentError("conflict", message, { about: { kind: "job", name } });
}

async function remove(
  { media, cache }: KnownFilesDependencies,
  sha256: string,
): Promise<void> {
  const file = await known(media, sha256);
  if (await media.remove(sha256) === "in_use") {
    throw neededBy(await media.users(sha256), `Cannot remove ${file.label}: it is used`);
  }
  await cache.evict(file);
}
