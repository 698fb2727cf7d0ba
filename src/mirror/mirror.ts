// The mirror: what the rest of the house may ask of the image index and of the files it names.

import type { Digest } from "../domain/digest.ts";
import { AgentError } from "../domain/error.ts";
import type { Now } from "../domain/instant.ts";
import type { ArtifactRef } from "../domain/media.ts";
import type { Log } from "../log.ts";
import type { IndexStore, IndexSync } from "../store/store.ts";
import { type CachedFile, openCache } from "./cache.ts";
import { findArtifact, type FoundArtifact } from "./find_artifact.ts";
import { type FreeBytes, systemFreeBytes } from "./free_space.ts";
import { type ObtainDependencies, obtainFile, type Progress } from "./obtain_file.ts";
import { openUpstream } from "./open_upstream.ts";
import { removeFile, sweepPartials } from "./partial.ts";
import { type Resolve, systemResolve } from "./public_address.ts";
import { openSharedWork } from "./shared_work.ts";
import { syncIndex } from "./sync.ts";
import { systemWait, TIME_LIMITS, type TimeLimits, type Wait } from "./time_limits.ts";

import { keyOf, wantedArtifact, type WantedFile, wantedUrl } from "./wanted_file.ts";

/** A verified local file. */
export interface Medium {
  readonly source: "path" | "artifact" | "url";
  readonly path: string;
  /** Safe file name, the one to place it under; the path may end otherwise. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** Lower-case hex, of the file as it is used. */
  readonly sha256: string;
  readonly label: string;
}

/** How one sync is made. */
export interface SyncRequest {
  readonly signal?: AbortSignal;
  /** Takes digests that differ from those of known builds as well; see pins.ts. */
  readonly acceptChanged?: boolean;
}

/** How one download is made. */
export interface DownloadOptions {
  readonly signal?: AbortSignal;
  /** Bytes done and, where it is known, bytes in total; decompression counts anew. */
  readonly onProgress?: (done: number, total: number | null) => void;
  /** A digest of the file as downloaded, checked besides those of the index. */
  readonly digest?: Digest;
}

/** The mirror of one upstream, and the files it has fetched. */
export interface Mirror {
  /** As the operator wrote it; null when there is none. */
  readonly upstream: string | null;
  readonly syncing: boolean;
  /** Grows with every sync that is recorded. */
  readonly generation: number;
  /**
   * Syncs the index. There is one sync at a time: a second call joins the first.
   * @throws {AgentError} `conflict` without an upstream, `aborted` when the caller gives up
   */
  sync(request?: SyncRequest): Promise<IndexSync>;
  /** @throws {AgentError} `not_found` or `invalid_argument`, naming the choices */
  findArtifact(ref: ArtifactRef): Promise<FoundArtifact>;
  /**
   * The artifact's file, decompressed. Calls for the same file share one download.
   * @throws {AgentError} `invalid_argument` without a digest or for a compression that is not
   *   known; otherwise as obtainFile
   */
  download(found: FoundArtifact, options?: DownloadOptions): Promise<Medium>;
  /** A file of any address, as it is. @throws {AgentError} as obtainFile */
  downloadUrl(url: string, digest: Digest, options?: DownloadOptions): Promise<Medium>;
  /** Forgets a file of the cache that turned out to be damaged; it is downloaded anew when asked. */
  discard(medium: Medium): Promise<void>;
}

/** What the mirror works with; what is optional is the system's own unless given. */
export interface MirrorDependencies {
  readonly store: IndexStore;
  /** `https://...`, `http://...` or a folder; null for none. */
  readonly upstream: string | null;
  /** Also speaks plain http, and with servers on this host and in private networks. */
  readonly allowHttp: boolean;
  readonly cacheDir: string;
  readonly log: Log;
  readonly now: Now;
  /** Names the program to the servers; some refuse requests without it. */
  readonly userAgent: string;
  readonly fetch?: typeof fetch;
  readonly resolve?: Resolve;
  readonly freeBytes?: FreeBytes;
  readonly times?: TimeLimits;
  readonly wait?: Wait;
  /** From 0 up to 1; spreads the waits between tries. */
  readonly random?: () => number;
}

const SYNC = "the sync";

/**
 * Opens the mirror. Nothing is asked or written before the first call.
 * @throws {AgentError} `invalid_argument` for an upstream that may not be used
 */
export function openMirror(deps: MirrorDependencies): Mirror {
  const { store: index, log, now } = deps;
  const obtain = obtainDependencies(deps);
  const upstream = deps.upstream === null ? null : openUpstream(deps.upstream, obtain);
  const syncs = openSharedWork<IndexSync, never>();
  const downloads = openDownloads(obtain, log, now);
  let generation = 0;
  let accepting = false;

  return {
    upstream: deps.upstream,
    get syncing() {
      return syncs.has(SYNC);
    },
    get generation() {
      return generation;
    },
    async sync({ signal, acceptChanged = false } = {}) {
      if (upstream === null) {
        throw new AgentError("conflict", "Cannot sync the index: no upstream is configured");
      }
      const share = signal === undefined ? {} : { signal };
      const begin = async (shared: AbortSignal) => {
        accepting = acceptChanged;
        const options = { signal: shared, acceptChanged };
        const sync = await syncIndex({ index, upstream, log, now }, options);
        generation += 1;
        return sync;
      };
      // A sync under way that holds changes back does not do what this caller asks for.
      if (acceptChanged && syncs.has(SYNC) && !accepting) await syncs.join(SYNC, share, begin);
      return await syncs.join(SYNC, share, begin);
    },
    findArtifact: (ref) => findArtifact(index, ref),
    async download(found, o = {}) {
      const wanted = wantedArtifact(found, o.digest);
      return medium("artifact", wanted, await downloads(wanted, o));
    },
    async downloadUrl(url, digest, o = {}) {
      const wanted = wantedUrl(url, digest, o.digest, deps.allowHttp);
      return medium("url", wanted, await downloads(wanted, o));
    },
    discard: async ({ source, path, label }) => {
      // A file of a media folder is the operator's.
      if (source === "path") return;
      await removeFile(path);
      log.warn("damaged file discarded", { label });
    },
  };
}

/** Downloads of which those of the same file are one. */
function openDownloads(
  deps: ObtainDependencies,
  log: Log,
  now: Now,
): (wanted: WantedFile, options: DownloadOptions) => Promise<CachedFile> {
  const works = openSharedWork<CachedFile, Progress>();
  const { cache } = deps;
  return async (wanted, { signal, onProgress }) => {
    const key = keyOf(wanted);
    await cache.prepare();
    const cached = await cache.find(key, wanted.digests);
    if (cached !== undefined) return cached;
    const isActive = (other: string) => other === key || works.has(other);
    await sweepPartials(cache.partialFolder, Date.parse(now()), isActive);
    const share = {
      ...(signal === undefined ? {} : { signal }),
      ...(onProgress === undefined ? {} : {
        onProgress: ({ done, total }: Progress) => onProgress(done, total),
      }),
    };
    return await works.join(key, share, async (shared, report) => {
      const file = await obtainFile(deps, wanted, shared, report);
      log.info("file downloaded", { label: wanted.label, size: file.size, sha256: file.sha256 });
      return file;
    });
  };
}

function obtainDependencies(deps: MirrorDependencies): ObtainDependencies {
  return {
    web: {
      fetch: deps.fetch ?? fetch,
      reach: { allowHttp: deps.allowHttp, resolve: deps.resolve ?? systemResolve },
      userAgent: deps.userAgent,
    },
    cache: openCache(deps.cacheDir),
    freeBytes: deps.freeBytes ?? systemFreeBytes,
    times: deps.times ?? TIME_LIMITS,
    wait: deps.wait ?? systemWait,
    random: deps.random ?? Math.random,
  };
}

function medium(source: Medium["source"], { name, label }: WantedFile, file: CachedFile): Medium {
  return { source, path: file.path, name, size: file.size, sha256: file.sha256, label };
}
