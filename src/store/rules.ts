// What every store decides about jobs in the same way, whatever its tables are.

import { sha256Hex } from "../domain/digest.ts";
import type { JobUuid, RunnerId, WorkflowUuid } from "../domain/id.ts";
import { type Instant, MS_PER_SECOND, msBetween, notBefore } from "../domain/instant.ts";
import {
  type FailedAttempt,
  INTERRUPTED,
  keptError,
  type NewJob,
  SERVER_PARAM,
} from "../domain/job/job.ts";
import { type LockPattern, parseLockPattern } from "../domain/job/request.ts";
import {
  type Execution,
  type KeptState,
  type Phase,
  type Standing,
  stateOf,
} from "../domain/job/state.ts";
import { type Task, taskName } from "../domain/job/workflow.ts";
import { canonicalJson } from "../domain/json.ts";
import type { BrokenOff } from "./columns.ts";
import type { JobOrder, NextDue } from "./job_store.ts";

/** The input of a decision about a job; the schema's CHECKs guarantee the unions. */
export interface StateRow {
  readonly id: number;
  readonly uuid: JobUuid;
  readonly workflow_uuid: WorkflowUuid;
  readonly execution: Execution;
  readonly phase: Phase;
  /** 1 for a job with an oncancel chain. */
  readonly undoable: number;
  readonly claimable_at: Instant | null;
  readonly started_at: Instant | null;
  readonly elapsed_ms: number;
  readonly elapsed_at: Instant | null;
  readonly runner_id: RunnerId | null;
  readonly lease: number;
  readonly starts: number;
  /** Null for a job without a callback. */
  readonly callback_host: string | null;
}

/** The state of a row, as decide() takes it. */
export function standingOf(row: KeptState): Standing {
  return { state: stateOf(row), phase: row.phase };
}

/** Maximum number of pending writes; more are refused as overload. */
export const PENDING_WRITES_MAX = 10_000;
/**
 * Whether a write is committed as soon as possible, or may wait briefly so that several writes share the
 * cost of a commit.
 */
export type Pace = "prompt" | "patient";
/** Number of patient writes that triggers a commit: in a file, a commit writes some twenty pages whatever is in it. */
export const GATHERED_MIN = 48;
/** Most cached values of rows that rarely or never change: 16 Mi characters in all. */
export const KEPT_MAX = 128;
/** Most characters of one cached value. */
export const KEPT_CHARS_MAX = 128 * 1024;
/** Delayed jobs that become ready in one write: more than a claim takes. Others follow with the next write. */
export const READY_MAX = 100;
/** Most bytes of jobs in one claim: they are parsed without a pause. */
export const CLAIM_BYTES = 1024 * 1024;

/** Time until an instant; `none` when nothing is due. */
export function dueFrom(now: Instant, due: Instant | null): NextDue {
  if (due === null) return { kind: "none" };
  const ms = msBetween(now, due);
  return ms <= 0 ? { kind: "ready" } : { kind: "in", ms };
}

/** Lifetime of an idempotency key, milliseconds: a day. */
export const IDEMPOTENCY_MS = 86_400_000;

// Failed attempts of tasks, which are lines of the job's log that are not in its info.

/** The text of the line. @param secrets reads the names of the job's secrets when they are needed */
export function attemptText(
  { index: _index, attempt: _attempt, fallback, finished_at: _end, ...shown }: FailedAttempt,
  secrets: () => ReadonlySet<string>,
): string {
  const error = keptError(shown.error, secrets);
  return JSON.stringify({ ...shown, ...(fallback ? { fallback } : {}), error });
}

/**
 * The attempt that was cut off with the runner of a held job; undefined while the job was waiting for its next
 * attempt.
 */
export function interruptedAttempt(
  { index, starts, failures, elapsed_at, retry_at }: BrokenOff,
  task: Task,
  now: Instant,
): FailedAttempt | undefined {
  const leftMs = retry_at === null ? 0 : msBetween(now, retry_at);
  // More than the whole delay means that the clock was set back.
  if (leftMs > 0 && leftMs <= (task.retry_delay ?? 0) * MS_PER_SECOND) return undefined;
  const started_at = retry_at !== null && retry_at > elapsed_at ? retry_at : elapsed_at;
  return {
    task: taskName(task),
    index,
    attempt: starts + failures,
    fallback: false,
    error: INTERRUPTED,
    started_at,
    finished_at: notBefore(started_at, now),
    wait_seconds: 0,
  };
}

// Locks: patterns of unfinished jobs that block the targets of others. Matching a long target may take
// milliseconds, so a target is matched before the write, one pattern per turn of the event loop; the write
// only looks up the results.

/** Whether patterns, by their texts, match one target. */
type LockVerdicts = ReadonlyMap<string, boolean>;

/** Whether a target is free, locked by a job, or unknown because a lock was added since. */
type LockAnswer =
  | { readonly kind: "free" }
  | { readonly kind: "locked"; readonly job_uuid: JobUuid }
  | { readonly kind: "unread" };
/** No lock covers the target, or there is none. */
export const FREE = { kind: "free" } as const;
const UNREAD = { kind: "unread" } as const;

/** Parsed patterns, cached while a job holds them. */
type LockPatterns = Map<string, LockPattern>;

/** Maximum number of held locks: each is matched against every new target. */
export const LOCKS_MAX = 256;
/** How often a target is matched again because a lock was added in the meantime. */
const JUDGEMENTS_MAX = 100;

/** A lock, and the job that has it. */
export interface HeldLock {
  readonly locks: string;
  readonly uuid: JobUuid;
}

/**
 * Matches a target against locks.
 * @param patterns those of earlier calls; the ones that no job holds any more are dropped
 */
async function judgeTarget(
  target: string,
  held: readonly HeldLock[],
  patterns: LockPatterns,
): Promise<LockVerdicts> {
  const texts = new Set(held.map(({ locks }) => locks));
  for (const text of patterns.keys()) if (!texts.has(text)) patterns.delete(text);
  const verdicts = new Map<string, boolean>();
  for (const text of texts) {
    const pattern = patterns.get(text) ?? await parseLockPattern(text);
    patterns.set(text, pattern);
    verdicts.set(text, pattern.matches(target));
    await otherWork();
  }
  return verdicts;
}

/** One turn of the event loop: long work is done in parts, and yields in between. */
export function otherWork(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/**
 * The result for a matched target under the present locks.
 * @param ends a job that ends with this write, and whose lock ends with it
 */
export function lockOn(
  held: readonly HeldLock[],
  verdicts: LockVerdicts,
  ends?: JobUuid,
): LockAnswer {
  for (const { locks, uuid } of held) {
    if (uuid === ends) continue;
    const verdict = verdicts.get(locks);
    if (verdict === undefined) return UNREAD;
    if (verdict) return { kind: "locked", job_uuid: uuid };
  }
  return FREE;
}

/** The results of the work before the write. */
export interface PreparedWrite {
  /** Digest of the canonical params, when the job has a target. */
  readonly paramsSha256: string | null;
  readonly verdicts: LockVerdicts;
  readonly unfinishedMax: number;
}

/** A lock was added after the target was matched: match again. */
export type Unread = Extract<LockAnswer, { kind: "unread" }>;

/** Writes a job once its target has been matched against every lock. */
type JudgedWrite = <T>(
  job: NewJob | JobOrder,
  unfinishedMax: number,
  write: (ready: PreparedWrite) => Promise<T | Unread>,
) => Promise<T>;

/** @param readLocks reads the locks that unfinished jobs have */
export function openJudgedWrite(
  readLocks: () => readonly HeldLock[] | Promise<readonly HeldLock[]>,
): JudgedWrite {
  const patterns: LockPatterns = new Map();
  return async (job, unfinishedMax, write) => {
    const paramsSha256 = await paramsDigest(job);
    // An unreadable lock would block every later target.
    if (typeof job.locks === "string") await parseLockPattern(job.locks);
    for (let judgement = 1; judgement <= JUDGEMENTS_MAX; judgement++) {
      const verdicts = job.target === null
        ? new Map()
        : await judgeTarget(job.target, await readLocks(), patterns);
      const outcome = await write({ paramsSha256, verdicts, unfinishedMax });
      if (!isUnread(outcome)) return outcome;
    }
    throw new Error(`Cannot write job ${job.uuid}: locks change faster than they are read`);
  };
}

/** Counts the jobs that are being created by such writes. */
export function countedWrite(judged: JudgedWrite) {
  let creating = 0;
  const created: JudgedWrite = async (job, unfinishedMax, write) => {
    creating += 1;
    try {
      return await judged(job, unfinishedMax, write);
    } finally {
      creating -= 1;
    }
  };
  return { creating: () => creating, created };
}

/** Whether the target is to be matched again. */
export function isUnread(outcome: unknown): outcome is Unread {
  return outcome === UNREAD;
}

// The digest by which params of jobs with equal targets are compared, ignoring the order of keys.

/**
 * Lower-case hex SHA-256 of the canonical params that were asked for, without the host that they name; null
 * without a target.
 */
async function paramsDigest(
  { target, params, requested_params = params }: NewJob | JobOrder,
): Promise<string | null> {
  if (target === null) return null;
  const { [SERVER_PARAM]: _host, ...compared } = requested_params;
  return await sha256Hex(new TextEncoder().encode(canonicalJson(compared)));
}
