// The mirror of one upstream: the image index, and the files it names.

import { type CheckLevel, type Digest, parseDigest } from "../domain/digest.ts";
import type { Decoders } from "../decoder/pool.ts";
import type { OwnEvent } from "../domain/event.ts";
import type { Now } from "../domain/instant.ts";
import {
  type ArtifactRef,
  type ExpectedMedium,
  type MediaRequest,
  parseMediaName,
} from "../domain/machine/media.ts";
import type { Log } from "../metrics/log.ts";
import type { ImageStore } from "../store/image_store.ts";
import type { MediaStore } from "../store/media_store.ts";
import type { IndexStore } from "../store/store.ts";
import { openBandwidth } from "./media/download.ts";
import { openCache } from "./media/cache.ts";
import { lookAtFile } from "./media/folders.ts";
import { type DownloadOptions, type Downloads, openDownloads } from "./media/downloads.ts";
import { type FreeBytes, systemFreeBytes } from "./media/disk.ts";
import { openHashing } from "./media/hash.ts";
import { openIndexReading, type ReadingOptions } from "./sync/index_reading.ts";
import { type KnownFiles, openKnownFiles } from "./media/known_files.ts";
import { type Resolve, systemResolve } from "./web/allowed_hosts.ts";
import { openKnownHosts } from "./sync/known_hosts.ts";
import type { Medium, WantedFile } from "./media/wanted_file.ts";
import { findArtifact, findImage, type FoundArtifact } from "./media/find_artifact.ts";
import type { ObtainDependencies } from "./media/obtain_file.ts";
import { openSyncs, type Syncs } from "./sync/sync.ts";
import { systemWait, type TimeLimits, type Wait } from "./web/time_limits.ts";
import type { Web } from "./web/request.ts";
import { openUpstream } from "./web/upstream.ts";

/** The mirror of one upstream, and the files it has downloaded. */
export interface Mirror extends Syncs {
  /** As the operator wrote it; null for none. */
  readonly upstream: string | null;
  /** @throws {AgentError} `not_found` or `invalid_argument`, naming the choices; `aborted` */
  findArtifact(ref: ArtifactRef, options?: ReadingOptions): Promise<FoundArtifact>;
  /**
   * The artifact's file, decompressed. Calls for the same file share one download.
   * @throws {AgentError} `invalid_argument` without a digest or for an unknown compression;
   *   otherwise as obtainFile
   */
  download(found: FoundArtifact, options?: DownloadOptions): Promise<Medium>;
  /**
   * The file of a URL, without a digest only where that is allowed.
   * @throws {AgentError} `forbidden` for an unknown host; otherwise as obtainFile
   */
  downloadUrl(
    url: string,
    digest: Digest | undefined,
    options?: DownloadOptions,
  ): Promise<Medium>;
  /**
   * Describes the medium that a request means, before it is fetched or read whole.
   * @throws {AgentError} for what can be checked in advance: a missing file, a file that is not a medium, an
   *   unknown artifact, a host or a check that the configuration does not allow
   */
  expect(media: MediaRequest, signal?: AbortSignal): Promise<ExpectedMedium>;
  readonly files: KnownFiles;
  /** Forgets a cached file that turned out to be damaged; the next request downloads it again. */
  discard(medium: Medium): Promise<void>;
}

/** Optional members default to the system's own. */
export interface MirrorDependencies {
  readonly store: IndexStore;
  readonly media: MediaStore;
  readonly images: ImageStore;
  /** The processes that parse bytes from outside. */
  readonly decoders: Decoders;
  /** `https://...`, `http://...` or a folder; null for none. */
  readonly upstream: string | null;
  /**
   * The upstream's bearer token, read before each request. It is sent only to the upstream's own scheme, host
   * and port, whatever URLs a document names and wherever redirects lead.
   */
  readonly indexToken: () => Promise<string | undefined>;
  /** Allows plain http, and files from an upstream whose address is not public. */
  readonly allowHttp: boolean;
  readonly cacheDir: string;
  /** Folders of the operator's media, in search order; none unless given. */
  readonly mediaDirs?: readonly string[];
  /** Bytes of the cache; no limit unless given. */
  readonly cacheBytesMax?: number;
  /** Bytes a second of all downloads together; no limit unless given. */
  readonly bytesPerSecond?: number;
  /** Called with the number of bytes received, whatever becomes of them. */
  readonly received?: (bytes: number) => void;
  /** Hosts that the operator allowed, public or not; none unless given. */
  readonly allowedHosts?: readonly string[];
  /** The level a file must reach when its request names none; `index` unless given. */
  readonly checkMin?: CheckLevel;
  /** Folder of trusted keys; none unless given. */
  readonly keyDir?: string | null;
  readonly monotonicMs?: () => number;
  readonly log: Log;
  /** Receives the events of downloads and syncs. It does not throw. */
  readonly emit?: (event: OwnEvent) => void;
  readonly now: Now;
  /** Names the program to servers, some of which refuse requests without it. */
  readonly userAgent: string;
  readonly fetch?: typeof fetch;
  readonly resolve?: Resolve;
  readonly freeBytes?: FreeBytes;
  readonly times: TimeLimits;
  readonly wait?: Wait;
  /** In [0, 1); spreads the waits between tries. */
  readonly random?: () => number;
}

/**
 * Opens the mirror. Nothing is fetched or written before the first call.
 * @throws {AgentError} `invalid_argument` for an upstream that may not be used
 */
export function openMirror(deps: MirrorDependencies): Mirror {
  const { store: index, log, now, emit = () => {} } = deps;
  const obtain = obtainDependencies(deps);
  const upstream = deps.upstream === null ? null : openUpstream(deps.upstream, obtain);
  const syncs = openSyncs({
    index,
    upstream,
    decoders: deps.decoders,
    log,
    now,
    wait: obtain.wait,
    emit: (payload) => emit({ kind: "index", payload }),
  });
  const downloads = openDownloads({
    ...obtain,
    media: deps.media,
    hosts: openKnownHosts({
      index,
      decoders: deps.decoders,
      upstream: deps.upstream,
      allowed: deps.allowedHosts ?? [],
      generation: () => syncs.generation,
    }),
    checkMin: deps.checkMin ?? "index",
    keyDir: deps.keyDir ?? null,
    now,
    log,
    emit: (payload) => emit({ kind: "media", payload }),
  });
  const find = async (ref: ArtifactRef, options?: ReadingOptions) => {
    const found = await findImage(deps.images, ref);
    if (found !== undefined) return found;
    const reading = openIndexReading(deps.decoders, deps.upstream ?? "", options);
    return await findArtifact({ index, reading }, ref);
  };
  return {
    upstream: deps.upstream,
    get syncing() {
      return syncs.syncing;
    },
    get progress() {
      return syncs.progress;
    },
    get generation() {
      return syncs.generation;
    },
    sync: (request) => syncs.sync(request),
    preview: (request) => syncs.preview(request),
    findArtifact: find,
    async expect(media, signal) {
      if ("path" in media) return await lookedAt(deps.mediaDirs ?? [], media);
      return expected(await wantedOf(media, downloads, find, signal));
    },
    download: (found, options = {}) => downloads.artifact(found, options),
    downloadUrl: (url, digest, options = {}) => downloads.url(url, digest, options),
    files: openKnownFiles({ ...obtain, media: deps.media, now, log }),
    discard: (medium) => downloads.discard(medium),
  };
}

/** The file of a folder that a request means. @throws {AgentError} as Mirror.expect() */
async function lookedAt(
  mediaDirs: readonly string[],
  { path, digest }: Extract<MediaRequest, { path: string }>,
): Promise<ExpectedMedium> {
  const wanted = digest === undefined ? {} : { digest: parseDigest(digest, "digest") };
  return await lookAtFile(mediaDirs, { path, ...wanted });
}

/** The file that a request would download. @throws {AgentError} as Mirror.expect() */
async function wantedOf(
  media: Exclude<MediaRequest, { path: string }>,
  downloads: Downloads,
  find: Mirror["findArtifact"],
  signal: AbortSignal | undefined,
): Promise<WantedFile> {
  const { digest, check, allow_unverified } = media;
  const options: DownloadOptions = {
    ...(signal === undefined ? {} : { signal }),
    ...(digest === undefined ? {} : { digest: parseDigest(digest, "media.digest") }),
    ...(check === undefined ? {} : { check }),
    ...(allow_unverified === undefined ? {} : { allowUnverified: allow_unverified }),
  };
  if ("url" in media) {
    const { compression } = media;
    const packed = compression === undefined ? {} : { compression };
    return await downloads.expectUrl(media.url, undefined, { ...options, ...packed });
  }
  const reading = signal === undefined ? {} : { signal };
  return await downloads.expectArtifact(await find(media.artifact, reading), options);
}

function expected({ name, size, compression }: WantedFile): ExpectedMedium {
  // The size of a packed file says little about its unpacked size.
  return { name: parseMediaName(name, "media"), size: compression === "none" ? size : null };
}

function obtainDependencies(deps: MirrorDependencies): ObtainDependencies {
  return {
    web: {
      fetch: deps.fetch ?? fetch,
      reach: {
        allowHttp: deps.allowHttp,
        namedHosts: namedHosts(deps),
        resolve: deps.resolve ?? systemResolve,
      },
      userAgent: deps.userAgent,
      tokenFor: tokenFor(deps),
    },
    cache: openCache({
      folder: deps.cacheDir,
      media: deps.media,
      bytesMax: deps.cacheBytesMax ?? Number.POSITIVE_INFINITY,
      now: deps.now,
      log: deps.log,
    }),
    received: deps.received ?? (() => {}),
    bandwidth: openBandwidth(deps.bytesPerSecond ?? 0, {
      wait: deps.wait ?? systemWait,
      monotonicMs: deps.monotonicMs ?? (() => performance.now()),
    }),
    decoders: deps.decoders,
    hashing: openHashing(deps.decoders),
    freeBytes: deps.freeBytes ?? systemFreeBytes,
    times: deps.times,
    wait: deps.wait ?? systemWait,
    random: deps.random ?? Math.random,
  };
}

function tokenFor({ indexToken, upstream }: MirrorDependencies): Web["tokenFor"] {
  const own = upstream === null ? undefined : URL.parse(upstream)?.origin;
  return async (url) =>
    url.protocol === "https:" && url.origin === own ? await indexToken() : undefined;
}

/** An index without TLS is in the operator's own network, and so are the files beside it. */
function namedHosts({ allowedHosts = [], allowHttp, upstream }: MirrorDependencies): string[] {
  const host = allowHttp && upstream !== null ? URL.parse(upstream)?.host ?? "" : "";
  return host === "" ? [...allowedHosts] : [...allowedHosts, host];
}
