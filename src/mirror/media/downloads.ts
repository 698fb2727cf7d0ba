// Verified files by what is asked for: from the cache where it has them, else downloaded, and checked
// as far as the request or the configuration wants. Requests for the same file share one download;
// what each of them wants checked is its own matter.

import { type CheckLevel, reaches } from "../../domain/index/check_level.ts";
import type { Digest } from "../../domain/digest.ts";
import { AgentError } from "../../domain/error.ts";
import type { JobUuid } from "../../domain/id.ts";
import type { Now } from "../../domain/instant.ts";
import type { MediaCompression } from "../../domain/machine/media.ts";
import type { Log } from "../../metrics/log.ts";
import type { MediaStore } from "../../store/media_store.ts";
import type { CachedFile } from "./cache.ts";
import { confirm, type ConfirmDependencies, type Confirmed } from "./confirm.ts";
import type { FoundArtifact } from "./find_artifact.ts";
import type { KnownHosts } from "../web/known_hosts.ts";
import { type Medium, wantedArtifact, type WantedFile, wantedUrl } from "./wanted_file.ts";
import { type ObtainDependencies, obtainFile, type Progress } from "./obtain_file.ts";
import { sweepPartials } from "./partial.ts";
import { openSharedWork, type SharedWork } from "../shared_work.ts";

/** How one download is made. */
export interface DownloadOptions {
  readonly signal?: AbortSignal;
  /** Bytes done and, where it is known, bytes in total; each phase counts anew. */
  readonly onProgress?: (
    done: number,
    total: number | null,
    phase: Progress["phase"] | "verify",
  ) => void;
  /** A digest of the file as downloaded, checked besides those of the index. */
  readonly digest?: Digest;
  /** The level that it has to reach; without it, the configured least one. */
  readonly check?: CheckLevel;
  /** Takes it also when it does not reach that level. */
  readonly allowUnverified?: boolean;
  /** Uses the file until it ends: till then the file is not taken away. */
  readonly job?: JobUuid;
  /** What undoes the compression of a file that is named by its address. */
  readonly compression?: MediaCompression;
}

/** Files by what they are asked for. */
export interface Downloads {
  artifact(found: FoundArtifact, options: DownloadOptions): Promise<Medium>;
  url(url: string, digest: Digest | undefined, options: DownloadOptions): Promise<Medium>;
  /** Forgets a file of the cache that turned out to be damaged. */
  discard(medium: Medium): Promise<void>;
}

/** What downloads work with. */
export interface DownloadsDependencies extends ObtainDependencies, ConfirmDependencies {
  readonly media: MediaStore;
  readonly hosts: KnownHosts;
  /** What a file has to reach when its request says nothing. */
  readonly checkMin: CheckLevel;
  readonly now: Now;
  readonly log: Log;
}

/** The downloads under way, by what is downloaded. */
interface Works {
  readonly shared: SharedWork<CachedFile, Progress>;
  /** The addresses at which each of them is asked for. */
  readonly asked: Map<string, string>;
}

/** Opens them. */
export function openDownloads(deps: DownloadsDependencies): Downloads {
  const { cache, media, log } = deps;
  const works: Works = { shared: openSharedWork(), asked: new Map() };
  const obtain = async (wanted: WantedFile, o: DownloadOptions): Promise<Medium> => {
    const required = o.check ?? deps.checkMin;
    requireAllowed(deps, wanted, required, o);
    await cache.prepare();
    const cached = await cache.find(wanted);
    if (cached !== undefined && reaches(cached.level, required)) {
      if (await media.use(cached.sha256, deps.now(), o.job)) return medium(wanted, cached);
    }
    const confirmed = await requiredLevel(deps, wanted, required, o);
    if (cached === undefined || confirmed.vet !== undefined) {
      const file = await download(deps, works, wanted, confirmed, o);
      return await used(deps, wanted, file, confirmed, o);
    }
    return await used(deps, wanted, cached, confirmed, o);
  };
  return {
    artifact: async (found, o) =>
      await obtain(await wantedArtifact(found, o.digest, o.allowUnverified), o),
    async url(url, digest, o) {
      const digests = [digest, o.digest].filter((one) => one !== undefined);
      const compression = o.compression ?? "none";
      const wanted = await wantedUrl({ url, digests, compression }, deps.web.reach.allowHttp);
      await deps.hosts.require(new URL(wanted.urls[0] ?? ""));
      return await obtain(wanted, o);
    },
    async discard({ source, sha256, label }) {
      // A file of a media folder is the operator's.
      if (source === "path") return;
      const file = await media.get(sha256);
      await media.remove(sha256, true);
      if (file !== undefined) await cache.evict(file);
      log.warn("damaged file discarded", { label });
    },
  };
}

/** @throws {AgentError} `forbidden` for less than is configured, without the word that allows it */
function requireAllowed(
  { checkMin }: DownloadsDependencies,
  { label, digests }: WantedFile,
  required: CheckLevel,
  { allowUnverified = false }: DownloadOptions,
): void {
  if (allowUnverified) return;
  if (!reaches(required, checkMin)) {
    const message =
      `Cannot download ${label}: its check is to be ${JSON.stringify(required)}, the ` +
      `setting check_min wants ${JSON.stringify(checkMin)}; allow_unverified takes less`;
    throw new AgentError("forbidden", message);
  }
  if (digests.length > 0 || required === "none") return;
  throw notReached(label, "none", required, "nobody tells its digest");
}

function notReached(
  label: string,
  level: CheckLevel,
  required: CheckLevel,
  reason: string,
): AgentError {
  const message = `Cannot accept ${label}: its check reaches ${JSON.stringify(level)}, expected ` +
    `${JSON.stringify(required)}: ${reason}; allow_unverified takes it all the same`;
  return new AgentError("forbidden", message);
}

async function requiredLevel(
  deps: DownloadsDependencies,
  wanted: WantedFile,
  required: CheckLevel,
  { signal, allowUnverified = false }: DownloadOptions,
): Promise<Confirmed> {
  const confirmed = await confirm(deps, wanted, required, signal);
  if (!reaches(confirmed.level, required) && !allowUnverified) {
    throw notReached(wanted.label, confirmed.level, required, confirmed.reason);
  }
  return confirmed;
}

/** Downloads a file, or joins those who do. */
async function download(
  deps: DownloadsDependencies,
  works: Works,
  wanted: WantedFile,
  confirmed: Confirmed,
  options: DownloadOptions,
): Promise<CachedFile> {
  const { shared, asked } = works;
  const { level, vet } = confirmed;
  const { signal, onProgress } = options;
  // What is signed itself is judged by who wants that; others do not wait for it.
  const key = vet === undefined ? wanted.key : `${wanted.key}-signed`;
  const isActive = (other: string) => other === key || shared.has(other);
  await sweepPartials(deps.cache.partialFolder, Date.parse(deps.now()), isActive);
  const share = {
    ...(signal === undefined ? {} : { signal }),
    ...(onProgress === undefined ? {} : {
      onProgress: ({ done, total, phase }: Progress) => onProgress(done, total, phase),
    }),
  };
  const own = { ...wanted, key };
  const addresses = wanted.urls.join(" ");
  const isElsewhere = shared.has(key) && asked.get(key) !== addresses;
  try {
    return await shared.join(key, share, async (shares, report) => {
      asked.set(key, addresses);
      const vetting = vet === undefined ? {} : { vet };
      // Others may share the download: a level beyond its digests is noted by who has checked it.
      const least = vet !== undefined ? level : wanted.digests.length === 0 ? "none" : "index";
      const obtaining = { signal: shares, report, level: least, ...vetting };
      const file = await obtainFile(deps, own, obtaining).finally(() => asked.delete(key));
      const { size, sha256 } = file;
      deps.log.info("file downloaded", { label: wanted.label, size, sha256 });
      return file;
    });
  } catch (error) {
    if (!isElsewhere || signal?.aborted || !(error instanceof AgentError)) throw error;
    // Whoever began it may have named a place where it is not: that is not the end of this one.
    return await download(deps, works, wanted, confirmed, options);
  }
}

async function used(
  { media, now }: DownloadsDependencies,
  wanted: WantedFile,
  file: CachedFile,
  { level }: Confirmed,
  { job }: DownloadOptions,
): Promise<Medium> {
  await media.raise(file.sha256, level);
  if (!await media.use(file.sha256, now(), job)) {
    const message = `Cannot use ${wanted.label}: it was removed from the cache meanwhile`;
    throw new AgentError("conflict", message);
  }
  return medium(wanted, { ...file, level: reaches(file.level, level) ? file.level : level });
}

function medium({ source, name, label }: WantedFile, file: CachedFile): Medium {
  const { path, size, sha256, level } = file;
  return { source, path, name, size, sha256, label, level };
}
