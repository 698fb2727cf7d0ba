// Verified files by request: from the cache, or downloaded and checked to the level that the
// request or the configuration requires. Requests for the same file share one download but keep
// their own level.

import { type CheckLevel, type Digest, reaches } from "../../domain/digest.ts";
import { AgentError, messageOf } from "../../domain/error.ts";
import type { JobUuid } from "../../domain/id.ts";
import type { Now } from "../../domain/instant.ts";
import type { MediaCompression } from "../../domain/machine/media.ts";
import type { Log } from "../../metrics/log.ts";
import type { MediaStore } from "../../store/media_store.ts";
import type { CachedFile } from "./cache.ts";
import { confirm, type ConfirmDependencies, type Confirmed } from "./confirm.ts";
import type { KnownHosts } from "../sync/known_hosts.ts";
import { type Medium, wantedArtifact, type WantedFile, wantedUrl } from "./wanted_file.ts";
import type { FoundArtifact } from "./find_artifact.ts";
import { type FirstBytes, requireBootableHead } from "./file_format.ts";
import { type ObtainDependencies, obtainFile, type ObtainProgress } from "./obtain_file.ts";
import { openPartial, sweepPartials } from "./partial.ts";
import { openSharedTransfers, type SharedTransfers } from "../shared_transfers.ts";
import { type MediaEvent, openTransferEvents, type TransferEvents } from "./transfer_events.ts";

/** What one caller requires of a file. Callers that want the same file share its download. */
export interface DownloadOptions {
  readonly signal?: AbortSignal;
  /** Bytes done and, where known, total bytes; each phase starts at zero. */
  readonly onProgress?: (
    done: number,
    total: number | null,
    phase: ObtainProgress["phase"] | "verify",
  ) => void;
  /** A digest of the file as downloaded, checked in addition to those of the index. */
  readonly digest?: Digest;
  /** The level the file must reach; the configured minimum unless given. */
  readonly check?: CheckLevel;
  /** Accepts the file below that level. */
  readonly allowUnverified?: boolean;
  /** The job that uses the file; the file stays while the job is unfinished. */
  readonly job?: JobUuid;
  /** Refuses a file that no machine boots under its name, as soon as its first bytes show that. */
  readonly booted?: boolean;
  /** Compression of a file named by its address. */
  readonly compression?: MediaCompression;
}

/** Gets the files that requests name, each verified; requests for the same file share one download. */
export interface Downloads {
  artifact(found: FoundArtifact, options: DownloadOptions): Promise<Medium>;
  url(url: string, digest: Digest | undefined, options: DownloadOptions): Promise<Medium>;
  /** Describes the file that artifact() would download, and refuses what that would refuse at once. */
  expectArtifact(found: FoundArtifact, options: DownloadOptions): Promise<WantedFile>;
  /** Describes the file that url() would download, and refuses what that would refuse at once. */
  expectUrl(url: string, digest: Digest | undefined, options: DownloadOptions): Promise<WantedFile>;
  /** Forgets a cached file that turned out to be damaged. */
  discard(medium: Medium): Promise<void>;
}

/** What is needed to download a file, confirm it and record who uses it. */
interface DownloadsDependencies extends ObtainDependencies, ConfirmDependencies {
  readonly media: MediaStore;
  readonly hosts: KnownHosts;
  /** The level a file must reach when its request names none. */
  readonly checkMin: CheckLevel;
  readonly now: Now;
  readonly log: Log;
  /** Receives the events of downloads; shared downloads are reported once. */
  readonly emit?: (event: MediaEvent) => void;
}

/** The downloads under way, by key. */
interface Works {
  readonly shared: SharedTransfers<CachedFile, ObtainProgress>;
  readonly asked: Map<string, string>;
  /** The first bytes of each, once received. */
  readonly begun: Map<string, FirstBytes>;
  /** Downloads that a caller has refused by their first bytes. */
  readonly refused: Set<string>;
  readonly transfers: TransferEvents;
}

/** Opens the downloads. A file that the cache has at the required level is not downloaded again. */
export function openDownloads(deps: DownloadsDependencies): Downloads {
  const { cache, media, log } = deps;
  const works: Works = {
    shared: openSharedTransfers(),
    asked: new Map(),
    begun: new Map(),
    refused: new Set(),
    transfers: openTransferEvents("download", deps.emit ?? (() => {})),
  };
  const expect = (wanted: WantedFile, o: DownloadOptions): WantedFile => {
    requireAllowed(deps, wanted, o.check ?? deps.checkMin, o);
    cache.requireFitting(wanted.size ?? 0, `download ${wanted.label}`);
    return wanted;
  };
  const expectArtifact: Downloads["expectArtifact"] = async (found, o) =>
    expect(await wantedArtifact(found, o.digest, o.allowUnverified), o);
  const expectUrl: Downloads["expectUrl"] = async (url, digest, o) => {
    const digests = [digest, o.digest].filter((one) => one !== undefined);
    const compression = o.compression ?? "none";
    const wanted = await wantedUrl({ url, digests, compression }, deps.web.reach.allowHttp);
    await deps.hosts.require(new URL(wanted.urls[0] ?? ""), o.signal);
    return expect(wanted, o);
  };
  const obtain = async (wanted: WantedFile, o: DownloadOptions): Promise<Medium> => {
    const required = o.check ?? deps.checkMin;
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
    expectArtifact,
    expectUrl,
    artifact: async (found, o) => await obtain(await expectArtifact(found, o), o),
    url: async (url, digest, o) => await obtain(await expectUrl(url, digest, o), o),
    async discard({ source, sha256, label }) {
      // Files in a media folder belong to the operator.
      if (source === "path") return;
      const file = await media.get(sha256);
      await media.remove(sha256, true);
      if (file !== undefined) await cache.evict(file);
      log.warn("damaged file discarded", { label });
    },
  };
}

/** @throws {AgentError} `forbidden` below the configured level, unless the request allows it */
function requireAllowed(
  { checkMin }: DownloadsDependencies,
  { label, digests }: WantedFile,
  required: CheckLevel,
  { allowUnverified = false }: DownloadOptions,
): void {
  if (allowUnverified) return;
  if (!reaches(required, checkMin)) {
    const message =
      `Cannot download ${label}: the requested check is ${JSON.stringify(required)}, the ` +
      `setting check_min requires ${JSON.stringify(checkMin)}; set allow_unverified to accept less`;
    throw new AgentError("forbidden", message, { about: { kind: "setting", name: "check_min" } });
  }
  if (digests.length > 0 || required === "none") return;
  throw notReached(label, "none", required, "nothing gives its digest");
}

function notReached(
  label: string,
  level: CheckLevel,
  required: CheckLevel,
  reason: string,
): AgentError {
  const message =
    `Cannot accept ${label}: it was checked to level ${JSON.stringify(level)}, expected ` +
    `${JSON.stringify(required)}: ${reason}; set allow_unverified to accept it`;
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

/** Downloads a file, or joins a download under way. */
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
  // A signature over the file itself is checked only for callers that require it; others do not wait.
  const key = vet === undefined ? wanted.key : `${wanted.key}-signed`;
  const isActive = (other: string) => other === key || shared.has(other);
  await sweepPartials(deps.cache.partialFolder, Date.parse(deps.now()), isActive);
  const judge = openJudge(works, key, wanted, options);
  const share = {
    signal: judge.signal,
    onProgress: ({ done, total, phase }: ObtainProgress) => {
      judge.look();
      onProgress?.(done, total, phase);
    },
  };
  const own = { ...wanted, key };
  const addresses = wanted.urls.join(" ");
  const isElsewhere = shared.has(key) && asked.get(key) !== addresses;
  try {
    const file = await shared.join(key, share, async (shares, report) => {
      asked.set(key, addresses);
      const vetting = vet === undefined ? {} : { vet };
      // Others may share the download, so the caller that checked a higher level records that level.
      const least = vet !== undefined ? level : wanted.digests.length === 0 ? "none" : "index";
      const onFirstBytes = (first: FirstBytes) => void works.begun.set(key, first);
      const moving = reported(works, own, report);
      const how = { signal: shares, report: moving.report, onFirstBytes, level: least, ...vetting };
      const file = await moving.whole(obtainFile(deps, own, how)).finally(async () => {
        // A refused download is not reused: the file may have changed, so the next request starts again.
        const isRefused = shares.aborted && works.refused.has(key);
        if (isRefused) await openPartial(deps.cache.partialFolder, key).remove();
        asked.delete(key);
        works.begun.delete(key);
        works.refused.delete(key);
      });
      const { size, sha256 } = file;
      deps.log.info("file downloaded", { label: wanted.label, size, sha256 });
      return file;
    });
    // It was complete before the check of its first bytes could stop it.
    if (judge.refusal !== undefined) throw judge.refusal;
    return file;
  } catch (error) {
    if (judge.refusal !== undefined) throw judge.refusal;
    if (!isElsewhere || signal?.aborted || !(error instanceof AgentError)) throw error;
    // The caller that started it may have named an address without the file; that must not fail
    // this one.
    return await download(deps, works, wanted, confirmed, options);
  }
}

/** Also reports the progress and the end of a download as events. */
function reported(
  { transfers }: Works,
  { key, name, size }: WantedFile,
  report: (progress: ObtainProgress) => void,
) {
  let last = { key, name, done: 0, size };
  transfers.moved(last);
  return {
    report(progress: ObtainProgress) {
      if (progress.phase === "download") {
        last = { ...last, done: progress.done, size: progress.total ?? size };
        transfers.moved(last);
      }
      report(progress);
    },
    async whole(file: Promise<CachedFile>): Promise<CachedFile> {
      try {
        const got = await file;
        transfers.ended(last, null);
        return got;
      } catch (error) {
        transfers.ended(last, messageOf(error));
        throw error;
      }
    },
  };
}

/** Checks the first bytes for one caller, whose share of the download ends when they are refused. */
function openJudge(
  { begun, refused }: Works,
  key: string,
  { name, label }: WantedFile,
  { signal, booted = false }: DownloadOptions,
) {
  const ending = new AbortController();
  let seen: FirstBytes | undefined;
  let refusal: AgentError | undefined;
  return {
    signal: signal === undefined ? ending.signal : AbortSignal.any([signal, ending.signal]),
    get refusal() {
      return refusal;
    },
    look() {
      const first = begun.get(key);
      if (!booted || first === undefined || first === seen || refusal !== undefined) return;
      seen = first;
      try {
        requireBootableHead(name, label, first);
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
        refusal = error;
        refused.add(key);
        ending.abort(error);
      }
    },
  };
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
    const message = `Cannot use ${wanted.label}: it was removed from the cache in the meantime`;
    throw new AgentError("conflict", message);
  }
  return medium(wanted, { ...file, level: reaches(file.level, level) ? file.level : level });
}

function medium({ source, name, label }: WantedFile, file: CachedFile): Medium {
  const { path, size, sha256, level } = file;
  return { source, path, name, size, sha256, label, level };
}
