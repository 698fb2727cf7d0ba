// Locks: patterns of unfinished jobs that block the targets of other jobs. Matching a long target may take milliseconds,
// so a target is matched before the write, one pattern per turn of the event loop. In its transaction the write only
// looks up the results, and if a lock was added meanwhile, the target is matched again.

import { sha256Hex } from "../domain/digest.ts";
import type { JobUuid } from "../domain/id.ts";
import { type NewJob, SERVER_PARAM } from "../domain/job/job.ts";
import { type LockPattern, parseLockPattern } from "../domain/job/request.ts";
import { canonicalJson } from "../domain/json.ts";
import type { JobOrder } from "./job_store.ts";
import { yieldTurn } from "./limits.ts";

/** Which patterns, by their texts, match one target. */
type LockMatches = ReadonlyMap<string, boolean>;

/** Whether a target is free, locked by a job, or unknown because its matches are older than a lock. */
type LockAnswer =
  | { readonly kind: "free" }
  | { readonly kind: "locked"; readonly job_uuid: JobUuid }
  | { readonly kind: "stale" };
/** No lock covers the target. */
export const FREE = { kind: "free" } as const;
const STALE = { kind: "stale" } as const;

/** Parsed patterns, cached while a job holds them. */
type LockPatterns = Map<string, LockPattern>;

/** Maximum number of held locks: each is matched against every new target. */
export const LOCKS_MAX = 256;
/** How often a target is matched again because a lock was added during the match. */
const MATCHINGS_MAX = 100;

/** A lock and the job that holds it. */
export interface HeldLock {
  readonly locks: string;
  readonly uuid: JobUuid;
}

/**
 * Matches a target against locks.
 * @param patterns the cache of parsed patterns, from which those that no job holds any more are dropped
 */
async function matchLocks(
  target: string,
  held: readonly HeldLock[],
  patterns: LockPatterns,
): Promise<LockMatches> {
  const texts = new Set(held.map(({ locks }) => locks));
  for (const text of patterns.keys()) if (!texts.has(text)) patterns.delete(text);
  const matches = new Map<string, boolean>();
  for (const text of texts) {
    const pattern = patterns.get(text) ?? await parseLockPattern(text);
    patterns.set(text, pattern);
    matches.set(text, pattern.matches(target));
    await yieldTurn();
  }
  return matches;
}

/**
 * Looks up whether a held lock covers a target that was matched before.
 * @param ends a job that ends with this write, and whose lock ends with it
 */
export function lockOn(
  held: readonly HeldLock[],
  matches: LockMatches,
  ends?: JobUuid,
): LockAnswer {
  for (const { locks, uuid } of held) {
    if (uuid === ends) continue;
    const isMatch = matches.get(locks);
    if (isMatch === undefined) return STALE;
    if (isMatch) return { kind: "locked", job_uuid: uuid };
  }
  return FREE;
}

/** What was worked out before the write. */
export interface PreparedWrite {
  /** Digest of the canonical params; null for a job without a target. */
  readonly paramsSha256: string | null;
  readonly matches: LockMatches;
  readonly unfinishedMax: number;
}

/** The outcome of a write that found a lock to which the target had not been matched. */
export type StaleLocks = Extract<LockAnswer, { kind: "stale" }>;

/** Writes a job once its target has been matched against every lock. */
type LockCheckedWrite = <T>(
  job: NewJob | JobOrder,
  unfinishedMax: number,
  write: (ready: PreparedWrite) => Promise<T | StaleLocks>,
) => Promise<T>;

/** Opens such writes, which share a cache of patterns. @param readLocks reads the locks of unfinished jobs */
export function openLockCheckedWrite(
  readLocks: () => readonly HeldLock[] | Promise<readonly HeldLock[]>,
): LockCheckedWrite {
  const patterns: LockPatterns = new Map();
  return async (job, unfinishedMax, write) => {
    const paramsSha256 = await paramsDigest(job);
    // Checked first, because a lock that cannot be parsed would block every later target.
    if (typeof job.locks === "string") await parseLockPattern(job.locks);
    for (let matching = 1; matching <= MATCHINGS_MAX; matching++) {
      const matches = job.target === null
        ? new Map()
        : await matchLocks(job.target, await readLocks(), patterns);
      const outcome = await write({ paramsSha256, matches, unfinishedMax });
      if (!isStale(outcome)) return outcome;
    }
    throw new Error(`Cannot write job ${job.uuid}: locks change faster than they are read`);
  };
}

/** Wraps such writes to count the jobs that are being created. */
export function countedWrite(lockChecked: LockCheckedWrite) {
  let creating = 0;
  const created: LockCheckedWrite = async (job, unfinishedMax, write) => {
    creating += 1;
    try {
      return await lockChecked(job, unfinishedMax, write);
    } finally {
      creating -= 1;
    }
  };
  return { creating: () => creating, created };
}

/** Whether the target must be matched again. */
export function isStale(outcome: unknown): outcome is StaleLocks {
  return outcome === STALE;
}

/**
 * By which the params of jobs with the same target are compared, whatever the order of their keys: lower-case hex SHA-256
 * of the canonical params of the request, without the host that they name; null without a target.
 */
async function paramsDigest(
  { target, params, requested_params = params }: NewJob | JobOrder,
): Promise<string | null> {
  if (target === null) return null;
  const { [SERVER_PARAM]: _host, ...compared } = requested_params;
  return await sha256Hex(new TextEncoder().encode(canonicalJson(compared)));
}
