// One sync of the image index: reads the upstream's tree and replaces ours in one transaction, so
// that readers see the tree before or the tree after.
//
// The distro is the unit of acceptance. A distro with a document that cannot be read or breaks a
// rule keeps its stored state while the others proceed. Only the list of distros removes a distro,
// and only a 404 or 410 removes an archive: silence and errors never remove anything.

import type { Decoders } from "../../decoder/pool.ts";
import { AgentError } from "../../domain/error.ts";
import type { Now } from "../../domain/instant.ts";
import type { Log } from "../../metrics/log.ts";
import type { IndexProblem, IndexStore, IndexSync } from "../../store/store.ts";
import { openIndexReading } from "./index_reading.ts";
import { planTree } from "./plan_tree.ts";
import { openSyncReader } from "./reader.ts";
import { countsOf, forgetValidators, type SyncPlan } from "./plan.ts";
import { openDeadline, type Wait } from "../web/time_limits.ts";
import type { Upstream } from "../upstream.ts";

/** Longest time of one sync; what was not read by then stays as it was. */
const SYNC_MS_MAX = 30 * 60_000;
/** Refused documents logged one by one; the report has all of them. */
const LOGGED_PROBLEMS_MAX = 20;
/** Changes listed in a preview; all of them are counted. */
const PREVIEW_CHANGES_MAX = 1000;

export interface SyncDependencies {
  readonly index: IndexStore;
  readonly upstream: Upstream;
  /** The processes that read its documents. */
  readonly decoders: Decoders;
  readonly log: Log;
  readonly now: Now;
  readonly wait: Wait;
}

/** What a sync is doing now. */
export interface SyncProgress {
  readonly phase: "list" | "documents" | "store";
  /** Documents requested and answered. */
  readonly documents: number;
  /** Documents known so far; more may turn up. */
  readonly total: number;
  /** Bytes received; unchanged documents bring none. */
  readonly bytes: number;
}

export interface SyncOptions {
  readonly signal?: AbortSignal;
  /** Also accepts changed digests of known builds, and older trees. */
  readonly acceptChanged?: boolean;
  readonly onProgress?: (progress: SyncProgress) => void;
}

/** What a sync would change. */
export interface IndexPreview {
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

/** A document that would change. */
export interface PreviewedChange {
  readonly change: "+" | "~" | "-";
  readonly document: string;
  /** New size; for a removal, the current size. */
  readonly bytes: number;
}

/**
 * Runs one sync to its end and records it.
 * @returns the result; a failing upstream is an outcome, not an error
 * @throws {AgentError} `aborted` when the caller gave up: nothing is changed or recorded
 */
export async function syncIndex(deps: SyncDependencies, o: SyncOptions = {}): Promise<IndexSync> {
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
 * @throws {AgentError} `aborted` when the caller gave up
 */
export async function previewSync(
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
    const reading = openIndexReading(decoders, upstream.address, deadline.signal);
    plan = await planTree({ reader, reading, index, acceptChanged, now, wait, ...caller });
  } finally {
    deadline.clear();
  }
  if (signal?.aborted) throw new AgentError("aborted", "Cannot sync the index: the caller gave up");
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
    log.warn("index document not taken", { document, json_path, reason: reason ?? message, kept });
  }
  const level = sync.outcome === "complete" ? "info" : "warn";
  log[level]("index synced", { ...sync, problems: problems.length });
}
