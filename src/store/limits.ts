// Limits of both stores: how much is cached, searched, or written in one go. Long work is cut into parts of such a
// size, and lets requests pass between them.

import { DAY_SECONDS, MS_PER_SECOND } from "../domain/instant.ts";

/** Maximum number of pending writes; more are refused as overload. */
export const PENDING_WRITES_MAX = 10_000;
/** Whether a write is committed as soon as possible, or may wait for others to share its commit. */
export type Pace = "prompt" | "patient";
/** Number of patient writes that triggers a commit: in a file, a commit writes some twenty pages whatever is in it. */
export const GATHERED_MIN = 48;
/** Most cached values of rows that rarely or never change: 16 Mi characters in all. */
export const CACHED_MAX = 128;
/** Most characters of one cached value. */
export const CACHED_CHARS_MAX = 128 * 1024;
/** Delayed jobs that become ready in one write: more than a claim takes. Others follow with the next write. */
export const READY_MAX = 100;
/** Most bytes of jobs in one claim, because they are parsed without yielding to other work. */
export const CLAIM_BYTES = 1024 * 1024;
/** Lifetime of an idempotency key, milliseconds: a day. */
export const IDEMPOTENCY_MS: number = DAY_SECONDS * MS_PER_SECOND;
/** Finished jobs, or idempotency keys, removed in one write: few, so that no other write waits for long. */
export const PRUNE_BATCH = 200;
/** Info entries removed in one write; a job may have many thousands. */
export const INFO_BATCH = 10_000;
/** How many of the newest jobs are searched for a param with a given name. */
export const PARAM_LOOKED_AT_MAX = 1_000;
/** How many of a machine's newest jobs are examined, for its history or for the one that made it. */
export const HISTORY_LOOKED_AT_MAX = 1024;
/** How many of those are read, the newest first. */
export const HISTORY_READ_MAX = 64;
/** Most jobs that are examined for one uuid prefix; of a million jobs, about fifteen share four characters. */
export const UUIDS_MAX = 1000;
/** Most versions of one workflow's definition whose lists are merged. */
export const DEFINITIONS_MAX = 16;
/** Jobs that are examined for one page of summaries. */
export const SUMMARIES_LOOKED_AT_MAX = 20_000;

/**
 * Ends with the next turn of the event loop, so that requests are served between two parts of long work.
 */
export function yieldTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
