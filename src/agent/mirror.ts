// The mirror of the agent, for the image index and for media, and what is built on it: the library of the media folders,
// and the regular syncs. A development agent without an upstream gets the sample one.

import { join } from "@std/path";
import type { Config } from "../config/settings.ts";
import type { OwnEvent } from "../domain/event.ts";
import { HOUR_MS } from "../domain/instant.ts";
import type { Log } from "../metrics/log.ts";
import type { Meters } from "../metrics/meters.ts";
import { systemFreeBytes } from "../mirror/media/disk.ts";
import { openHashing } from "../mirror/media/hash.ts";
import { type MediaLibrary, openLibrary } from "../mirror/media/library.ts";
import { openUploads } from "../mirror/media/uploads.ts";
import { type Mirror, openMirror } from "../mirror/mirror.ts";
import { VERSION } from "../runtime/executable.ts";
import { pause } from "../runtime/wait.ts";
import { TIME_LIMITS } from "../mirror/web/time_limits.ts";
import { readSecretFile } from "../state_dir/secret_file.ts";
import { lockFile } from "../state_dir/state_dir.ts";
import type { Store } from "../store/store.ts";
import type { Emit, SharedParts } from "./shared_parts.ts";

/** Size of the ISO image of the sample upstream, bytes: large enough to watch a copy for a moment. */
const SAMPLE_ISO_BYTES = 8 << 20; // 8 MiB

/**
 * @param o `meters` counts downloaded bytes, `emit` takes the events of downloads and syncs
 * @throws {AgentError} `invalid_argument` for an unusable upstream, or an unreadable token
 */
export async function openIndex(
  { config, log, now, opened, follow, decoders }: SharedParts,
  store: Pick<Store, "index" | "media" | "images">,
  stateDir: string,
  mediaDirs: readonly string[],
  { emit, meters }: { readonly emit?: Emit; readonly meters?: Pick<Meters, "media"> } = {},
): Promise<Mirror> {
  let upstream = config.index.value;
  const sample = config.dev.value && upstream === null;
  if (sample) {
    const { startSampleUpstream } = await import("../simulator/outside/upstream.ts");
    const started = startSampleUpstream({
      cacheDir: join(stateDir, "sample"),
      isoBytes: SAMPLE_ISO_BYTES,
      log,
    });
    opened("sample upstream", () => started.close());
    upstream = started.url;
  }
  const token = { path: config.index_token_file.value };
  follow(["index_token_file"], (next) => void (token.path = next.index_token_file.value));
  const indexToken = async () => token.path === null ? undefined : await readSecretFile(token.path);
  // An unusable token file fails the start, not only the first sync.
  await indexToken();
  return openMirror({
    store: store.index,
    media: store.media,
    images: store.images,
    decoders,
    upstream,
    indexToken,
    // The sample is served by this process on a loopback address.
    allowHttp: config.allow_http_index.value || sample,
    cacheDir: join(stateDir, "media"),
    mediaDirs,
    cacheBytesMax: config.cache_max.value || Number.POSITIVE_INFINITY,
    bytesPerSecond: config.download_rate.value,
    allowedHosts: config.download_host.value,
    ...(meters === undefined
      ? {}
      : { received: (bytes: number) => void (meters.media.downloaded += bytes) }),
    ...(emit === undefined ? {} : { emit: (event: OwnEvent) => void emit(event) }),
    checkMin: config.check_min.value,
    keyDir: config.key_dir.value,
    log,
    now,
    times: TIME_LIMITS,
    userAgent: `zonewright/${VERSION}`,
  });
}

/**
 * Milliseconds between two cleanups of unfinished uploads. They are removed a day after their last byte, even
 * when there are no other uploads.
 */
const SWEEP_MS = HOUR_MS;

/** Where media are taken from. */
interface AgentMediaFolders {
  /** In the order in which a name is searched, the upload folder last. It changes with the configuration. */
  readonly all: readonly string[];
  readonly upload: string;
}

/** The configured folders, and the one for uploads. */
export function openMediaFolders(
  { config, follow }: Pick<SharedParts, "config" | "follow">,
  stateDir: string,
): AgentMediaFolders {
  const upload = config.upload_dir.value ?? join(stateDir, "uploads");
  const foldersOf = ({ media_dir }: Config) => [
    ...media_dir.value.filter((folder) => folder !== upload),
    upload,
  ];
  const all = foldersOf(config);
  follow(["media_dir"], (next) => void all.splice(0, all.length, ...foldersOf(next)));
  return { all, upload };
}

/** The library of these folders and of the cache. */
export function openAgentLibrary(
  { config, limits, log, now, opened, decoders }: SharedParts,
  store: Pick<Store, "media">,
  { files }: Mirror,
  folders: AgentMediaFolders,
  emit: Emit,
): MediaLibrary {
  let held: Awaited<ReturnType<typeof lockFile>>;
  const uploads = openUploads({
    folder: folders.upload,
    lock: async (path) => (held = await lockFile(path)) !== undefined,
    limits: { ...limits, uploadBytesMax: config.upload_max.value },
    hashing: openHashing(decoders),
    freeBytes: systemFreeBytes,
    now,
    log,
    emit: (payload) => void emit({ kind: "media", payload }),
  });
  const sweep = () => {
    uploads.sweep().catch((error) => log.warn("unfinished uploads not examined", { error }));
  };
  sweep();
  const sweeping = setInterval(sweep, SWEEP_MS);
  opened("uploads", () => {
    clearInterval(sweeping);
    held?.close();
  });
  return openLibrary({
    files,
    media: store.media,
    uploads,
    mediaDirs: folders.all,
    uploadDir: folders.upload,
    cacheBytesMax: config.cache_max.value || Number.POSITIVE_INFINITY,
    log,
  });
}

/** Random share of the interval that is added or subtracted, so that hosts do not all ask at the same time. */
const JITTER = 0.1;

/** How often the index is synced. */
interface SyncTimes {
  /** Seconds between two syncs; 0 for only the one at start. */
  readonly intervalSeconds: number;
  /** A number from 0 up to, not including, 1. */
  readonly random: () => number;
}

/**
 * Milliseconds until the next sync.
 * @param retryAfterSeconds pause that the upstream asked for; 0 for none
 */
export function nextSyncMs(
  { intervalSeconds, random }: SyncTimes,
  retryAfterSeconds: number,
): number {
  const own = intervalSeconds * (1 + JITTER * (random() * 2 - 1));
  return 1000 * Math.max(own, retryAfterSeconds);
}

/**
 * Syncs now and at every interval; a failed sync leaves the tree as it was and waits for the next.
 * @param intervalSeconds seconds between two syncs; 0 for only the one at start
 */
export function syncRegularly(
  mirror: Pick<Mirror, "upstream" | "sync">,
  intervalSeconds: number,
  log: Log,
  random: () => number = Math.random,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const loop = mirror.upstream === null ? Promise.resolve() : (async () => {
    do {
      let retryAfterSeconds = 0;
      try {
        retryAfterSeconds = (await mirror.sync({ signal })).retry_after_seconds ?? 0;
      } catch (error) {
        if (!signal.aborted) log.warn("index not synced", { error });
      }
      if (intervalSeconds === 0) return;
      await pause(nextSyncMs({ intervalSeconds, random }, retryAfterSeconds), signal);
    } while (!signal.aborted);
  })();
  return {
    stop: () => {
      stopping.abort();
      return loop;
    },
  };
}
