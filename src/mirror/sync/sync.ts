// The syncs of one mirror, one at a time: callers that arrive during a sync share it, and a preview waits its turn. A
// sync reads the upstream's tree and replaces ours in one transaction, so that readers see the tree before or the
// tree after.
//
// The distro is the unit of acceptance. A distro with a document that cannot be read or breaks a rule keeps its
// stored state while the others proceed. Only the list of distros removes a distro, and only a 404 or 410 removes an
// archive: missing answers and errors never remove anything.

import { abortedError, AgentError } from "../../domain/error.ts";
import type { IndexProblem, IndexStore, IndexSync } from "../../store/store.ts";
import { openSharedTransfers } from "../shared_transfers.ts";
import { type EventPayload, PROGRESS_EVENT_MS } from "../../domain/event.ts";
import type { Upstream } from "../web/upstream.ts";
import { type Instant, msBetween, type Now } from "../../domain/instant.ts";
import type { Decoders } from "../../decoder/pool.ts";
import type { Log } from "../../metrics/log.ts";
import { openIndexReading } from "./index_reading.ts";
import { planTree } from "./plan_tree.ts";
import { openSyncReader } from "./reader.ts";
import { countsOf, forgetValidators, type SyncPlan } from "./plan.ts";
import { openDeadline, type Wait } from "../web/time_limits.ts";

/** Longest time of one sync, milliseconds; what has not been read by then stays as it was. */
const SYNC_MS_MAX = 30 * 60_000;
/** Refused documents logged one by one; the report has all of them. */
const LOGGED_PROBLEMS_MAX = 20;
/** Changes listed in a preview; all of them are counted. */
const PREVIEW_CHANGES_MAX = 1000;

interface SyncDependencies {
  readonly index: IndexStore;
  readonly upstream: Upstream;
  readonly decoders: Decoders;
  readonly log: Log;
  readonly now: Now;
  readonly wait: Wait;
}

interface SyncProgress {
  readonly phase: "list" | "documents" | "store";
  /** Documents whose request has been answered. */
  readonly documents: number;
  /** Documents known so far; more may turn up. */
  readonly total: number;
  /** Bytes received; unchanged documents bring none. */
  readonly bytes: number;
}

interface SyncOptions {
  readonly signal?: AbortSignal;
  /** Also accepts changed digests of known builds, and older trees. */
  readonly acceptChanged?: boolean;
  readonly onProgress?: (progress: SyncProgress) => void;
}

interface IndexPreview {
  readonly dry_run: true;
  readonly upstream: string;
  readonly outcome: IndexSync["outcome"];
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  /** Bytes of the documents to write. */
  readonly bytes_put: number;
  /** Bytes of the documents to replace or remove. */
  readonly bytes_removed: number;
  /** In path order; the first thousand. */
  readonly changes: readonly PreviewedChange[];
  readonly problems: readonly IndexProblem[];
}

interface PreviewedChange {
  readonly change: "+" | "~" | "-";
  readonly document: string;
  /** New size; for a removal, the current size. */
  readonly bytes: number;
}

/**
 * Runs one sync to its end and records it.
 * @returns the result; a failing upstream is an outcome, not an error
 * @throws {AgentError} `aborted` when it was canceled: nothing is changed or recorded
 */
async function syncIndex(deps: SyncDependencies, o: SyncOptions = {}): Promise<IndexSync> {
  const { index, upstream, now } = deps;
  const started_at = now();
  const read = await readTree(deps, o);
  const { plan, before, progress } = read;
  o.onProgress?.({ ...progress, phase: "store" });
  const outcome = outcomeOf(plan);
  const finished_at = now();
  const compared_at = outcome === "failed" ? before?.compared_at : finished_at;
  const sync: IndexSync = {
    started_at,
    finished_at,
    upstream: upstream.address,
    outcome,
    ...countsOf(plan),
    problems: plan.problems,
    ...(compared_at === undefined ? {} : { compared_at }),
    ...(read.retryAfterSeconds === 0 ? {} : { retry_after_seconds: read.retryAfterSeconds }),
  };
  await index.swap([...plan.put.values()], plan.remove, sync, plan.pins);
  logSync(deps.log, sync);
  return sync;
}

/**
 * Reads the upstream as a sync does, and writes nothing.
 * @throws {AgentError} `aborted` when it was canceled
 */
async function previewSync(
  deps: SyncDependencies,
  o: SyncOptions = {},
): Promise<IndexPreview> {
  const { plan } = await readTree(deps, o);
  const changes: PreviewedChange[] = [];
  let [bytes_put, bytes_removed] = [0, 0];
  for (const { kind, document } of plan.changes) {
    const put = plan.put.get(document)?.body.byteLength ?? 0;
    const held = kind === "added" ? 0 : (await deps.index.get(document))?.body.byteLength ?? 0;
    bytes_put += put;
    bytes_removed += held;
    const change = ({ added: "+", changed: "~", removed: "-" } as const)[kind];
    changes.push({ change, document, bytes: kind === "removed" ? held : put });
  }
  changes.sort((a, b) => a.document < b.document ? -1 : 1);
  return {
    dry_run: true,
    upstream: deps.upstream.address,
    outcome: outcomeOf(plan),
    ...countsOf(plan),
    bytes_put,
    bytes_removed,
    changes: changes.slice(0, PREVIEW_CHANGES_MAX),
    problems: plan.problems,
  };
}

interface ReadTree {
  readonly plan: SyncPlan;
  readonly before: IndexSync | undefined;
  readonly progress: SyncProgress;
  readonly retryAfterSeconds: number;
}

async function readTree(
  { index, upstream, decoders, now, wait }: SyncDependencies,
  { signal, acceptChanged = false, onProgress }: SyncOptions,
): Promise<ReadTree> {
  const stored = new Map((await index.list()).map((document) => [document.path, document]));
  const before = await index.lastSync();
  const moved = before !== undefined && before.upstream !== upstream.address;
  const deadline = openDeadline(SYNC_MS_MAX, "sync the index", signal);
  let progress: SyncProgress = { phase: "list", documents: 0, total: 0, bytes: 0 };
  const reader = openSyncReader({
    index,
    upstream,
    stored,
    conditional: !moved,
    acceptOlder: acceptChanged,
    now,
    signal: deadline.signal,
    onProgress(read) {
      progress = { phase: read.documents === 0 ? "list" : "documents", ...read };
      onProgress?.(progress);
    },
  });
  let plan: SyncPlan;
  try {
    const caller = signal === undefined ? {} : { signal };
    const reading = openIndexReading(decoders, upstream.address, { signal: deadline.signal });
    plan = await planTree({ reader, reading, index, acceptChanged, now, wait, ...caller });
  } finally {
    deadline.clear();
  }
  if (signal?.aborted) throw abortedError("Cannot sync the index", signal);
  if (moved) await forgetValidators(plan, stored, index);
  return { plan, before, progress, retryAfterSeconds: reader.retryAfterSeconds };
}

function outcomeOf({ failed, problems }: SyncPlan): IndexSync["outcome"] {
  if (failed) return "failed";
  return problems.length > 0 ? "partial" : "complete";
}

function logSync(log: Log, { problems, ...sync }: IndexSync): void {
  for (const problem of problems.slice(0, LOGGED_PROBLEMS_MAX)) {
    const { document, json_path, reason, message, kept } = problem;
    log.warn("index document rejected", { document, json_path, reason: reason ?? message, kept });
  }
  const level = sync.outcome === "complete" ? "info" : "warn";
  log[level]("index synced", { ...sync, problems: problems.length });
}

interface SyncRequest {
  readonly signal?: AbortSignal;
  /** Also accepts changed digests of known builds, and older trees. */
  readonly acceptChanged?: boolean;
}

/** The syncs of one mirror. */
export interface Syncs {
  readonly syncing: boolean;
  /** Progress of the current sync or preview; null when idle. */
  readonly progress: SyncProgress | null;
  /** Increases with every finished sync. */
  readonly generation: number;
  /**
   * Syncs the index. Only one sync runs at a time: a second call joins it.
   * @throws {AgentError} `conflict` without an upstream, `aborted` when it is canceled
   */
  sync(request?: SyncRequest): Promise<IndexSync>;
  /**
   * Computes what a sync would change and writes nothing.
   * @throws {AgentError} as `sync`
   */
  preview(request?: SyncRequest): Promise<IndexPreview>;
}

type IndexEvent = Omit<EventPayload<"index">, "time">;

interface SyncsDependencies extends Omit<SyncDependencies, "upstream"> {
  readonly upstream: Upstream | null;
  /** Receives the start and progress of each sync, and the end of one that writes no report. */
  readonly emit: (event: IndexEvent) => void;
}

const NOTHING_DONE = { added: 0, changed: 0, removed: 0, problems: 0 };

/**
 * Runs a sync and reports its start and progress. Its end becomes an event when the store writes the report.
 */
async function reportedSync(
  deps: SyncDependencies,
  o: SyncOptions,
  emit: SyncsDependencies["emit"],
): Promise<IndexSync> {
  const report = (change: IndexEvent["change"]) => emit({ change, outcome: null, ...NOTHING_DONE });
  let reportedAt = deps.now();
  report("sync_started");
  const onProgress = (progress: SyncProgress) => {
    o.onProgress?.(progress);
    const at = deps.now();
    if (msBetween(reportedAt, at) < PROGRESS_EVENT_MS) return;
    reportedAt = at;
    report("syncing");
  };
  try {
    return await syncIndex(deps, { ...o, onProgress });
  } catch (error) {
    const outcome = o.signal?.aborted === true ? "aborted" : "failed";
    emit({ change: "sync_failed", outcome, ...NOTHING_DONE });
    throw error;
  }
}

const SYNC = "the sync";

/** Opens the syncs. Nothing is fetched before the first call. */
export function openSyncs({ upstream, emit, ...rest }: SyncsDependencies): Syncs {
  const syncs = openSharedTransfers<IndexSync, never>();
  const previews = openSharedTransfers<IndexPreview, never>();
  let last: Promise<unknown> = Promise.resolve();
  let progress: SyncProgress | null = null;
  let generation = 0;
  let accepting = false;

  const inTurn = <T>(run: (deps: SyncDependencies) => Promise<T>): Promise<T> => {
    if (upstream === null) {
      const message =
        "Cannot sync the index: no upstream is configured, expected one in the setting index";
      throw new AgentError("conflict", message, { about: { kind: "upstream" } });
    }
    const turn = last.then(() => run({ ...rest, upstream })).finally(() => progress = null);
    last = turn.catch(() => {});
    return turn;
  };
  const optionsOf = (signal: AbortSignal, acceptChanged: boolean): SyncOptions => ({
    signal,
    acceptChanged,
    onProgress: (now) => progress = now,
  });
  const shareOf = (signal: AbortSignal | undefined) => signal === undefined ? {} : { signal };
  return {
    get syncing() {
      return syncs.has(SYNC);
    },
    get progress() {
      return progress;
    },
    get generation() {
      return generation;
    },
    async sync({ signal, acceptChanged = false } = {}) {
      const share = shareOf(signal);
      const begin = async (shared: AbortSignal) => {
        accepting = acceptChanged;
        const o = optionsOf(shared, acceptChanged);
        const sync = await inTurn((deps) => reportedSync(deps, o, emit));
        generation += 1;
        return sync;
      };
      // A running sync that refuses changes does not help this caller.
      if (acceptChanged && syncs.has(SYNC) && !accepting) await syncs.join(SYNC, share, begin);
      return await syncs.join(SYNC, share, begin);
    },
    async preview({ signal, acceptChanged = false } = {}) {
      return await previews.join(
        `a preview that ${acceptChanged ? "accepts" : "refuses"} changes`,
        shareOf(signal),
        (shared) => inTurn((deps) => previewSync(deps, optionsOf(shared, acceptChanged))),
      );
    },
  };
}

/** Milliseconds after which an unchanged report is written anyway. */
const WRITTEN_AGAIN_MS = 24 * 3_600_000;

/**
 * Wraps the store of index documents and avoids large writes while nothing changes: the report of a
 * sync that found no change stays in memory, and is written once a day. After a restart, the time
 * of the last comparison is accurate to a day.
 * @param emit receives the ends of syncs whose report is not written; the store adds the other ends
 */
export function withoutEqualReports(
  index: IndexStore,
  emit: (event: IndexEvent) => void = () => {},
): IndexStore {
  let latest: IndexSync | undefined;
  return {
    ...index,
    async swap(put, remove, sync, pins) {
      const written = await index.lastSync();
      const changes = put.length + remove.length + (pins?.put.length ?? 0) +
        (pins?.remove.length ?? 0);
      if (changes > 0 || !saysTheSame(written, sync)) await index.swap(put, remove, sync, pins);
      else emit(endOf(sync));
      latest = sync;
    },
    lastSync: async () => latest ?? await index.lastSync(),
  };
}

function endOf({ outcome, added, changed, removed, problems }: IndexSync): IndexEvent {
  const change = outcome === "failed" ? "sync_failed" : "sync_finished";
  return { change, outcome, added, changed, removed, problems: problems.length };
}

function saysTheSame(written: IndexSync | undefined, sync: IndexSync): boolean {
  return written !== undefined && written.upstream === sync.upstream &&
    written.outcome === sync.outcome &&
    JSON.stringify(written.problems) === JSON.stringify(sync.problems) &&
    isRecent(written.finished_at, sync.finished_at);
}

/** After the clock was set back, a report from the future counts as old. */
function isRecent(written: Instant, now: Instant): boolean {
  const ms = msBetween(written, now);
  return ms >= 0 && ms < WRITTEN_AGAIN_MS;
}
