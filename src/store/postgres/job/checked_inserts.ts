// Creates jobs. One transaction checks the limits and the locks on targets, and inserts the rows. An advisory lock
// keeps two agents from checking conflicting locks and targets at the same time.

import type { JobUuid } from "../../../domain/id.ts";
import type { NewJob } from "../../../domain/job/job.ts";
import type { Idempotency } from "../../../domain/job/idempotency.ts";
import { HOLDS_TARGET } from "../../sql.ts";
import {
  FREE,
  type HeldLock,
  isStale,
  lockOn,
  LOCKS_MAX,
  type PreparedWrite,
  type StaleLocks,
} from "../../target_locks.ts";
import type { EarlierOutcome, PlaceJobOutcome } from "../../job_store.ts";
import type { Asking, Transaction } from "../connection.ts";
import { countUnfinished } from "./counts.ts";
import { type InsertedJob, insertJobs, writtenBefore } from "./jobs.ts";
import type { PlaceHosts } from "./host_queue.ts";

/** The advisory lock under which locks and targets are checked. */
const TARGET_LOCK = 8_780_002;

/** A job to create, with what was prepared for it. */
export interface Placing {
  readonly job: NewJob;
  readonly hosts: PlaceHosts;
  readonly ready: PreparedWrite;
  /** As in InsertedJob. */
  readonly handedOver?: boolean;
}

/**
 * Creates jobs, or finds those that an earlier run of the same calls created.
 * @param known the number of unfinished jobs, if it has been read already
 * @returns the outcome of each
 */
export async function makeJobs(
  tx: Transaction,
  placings: readonly Placing[],
  known?: number,
): Promise<Map<JobUuid, PlaceJobOutcome | StaleLocks>> {
  const outcomes = await placeJobs(tx, placings, known);
  for (const { job: { uuid } } of placings) {
    const outcome = outcomes.get(uuid);
    if (outcome === undefined || isStale(outcome) || outcome.kind === "created") continue;
    outcomes.set(uuid, await writtenBefore(tx, uuid) ?? outcome);
  }
  return outcomes;
}

/** Creates the jobs that limits and locks allow; parameters as in makeJobs(). */
export async function placeJobs(
  tx: Transaction,
  placings: readonly Placing[],
  known?: number,
): Promise<Map<JobUuid, PlaceJobOutcome | StaleLocks>> {
  const outcomes = new Map<JobUuid, PlaceJobOutcome | StaleLocks>();
  const unfinished = known ?? await countUnfinished(tx);
  const areMany = placings.length > 1;
  const after = unfinished + placings.length;
  const mayCross = ({ job, ready }: Placing) =>
    after > ready.unfinishedMax || typeof job.locks === "string";
  if (areMany && placings.some(mayCross)) {
    // One job at a time, so that each sees the locks and counts of those before it.
    for (const one of placings) {
      for (const [uuid, outcome] of await placeJobs(tx, [one])) outcomes.set(uuid, outcome);
    }
    return outcomes;
  }
  const locks = await readCheckedLocks(tx, placings.map(({ job }) => job));
  const free: InsertedJob[] = [];
  for (const { job, hosts, ready: { unfinishedMax, matches, paramsSha256 }, ...how } of placings) {
    const lock = job.target === null ? FREE : lockOn(locks, matches);
    if (unfinished >= unfinishedMax) {
      outcomes.set(job.uuid, { kind: "full", what: "unfinished jobs", limit: unfinishedMax });
    } else if (typeof job.locks === "string" && locks.length >= LOCKS_MAX) {
      outcomes.set(job.uuid, { kind: "full", what: "locks", limit: LOCKS_MAX });
    } else if (lock.kind === "free") free.push({ job, hosts, paramsSha256, ...how });
    else outcomes.set(job.uuid, lock);
  }
  for (const [uuid, outcome] of await insertJobs(tx, free)) outcomes.set(uuid, outcome);
  return outcomes;
}

/**
 * Reads the locks that new jobs are checked against. A job with a lock takes the advisory lock exclusively, a job with
 * a target takes it shared: whichever commits second sees the other.
 */
export async function readCheckedLocks(
  tx: Transaction,
  jobs: readonly NewJob[],
): Promise<HeldLock[]> {
  const locks = jobs.some((job) => typeof job.locks === "string");
  if (!locks && jobs.every(({ target }) => target === null)) return [];
  await tx.run(`SELECT pg_advisory_xact_lock${locks ? "" : "_shared"}(${TARGET_LOCK})`);
  return await selectLocks(tx);
}

/** The outcome for one of the jobs. @throws {Error} when there is none */
export function madeOf<Outcome>(outcomes: ReadonlyMap<JobUuid, Outcome>, uuid: JobUuid): Outcome {
  const outcome = outcomes.get(uuid);
  if (outcome === undefined) throw new Error(`Cannot make job ${uuid}: it has no outcome`);
  return outcome;
}

/** The request and the job of each used idempotency key. */
export type UsedKeys = ReadonlyMap<
  string,
  { readonly request_sha256: string; readonly uuid: JobUuid }
>;

/** Reads which of these keys are used. */
export async function usedKeys(tx: Asking, keys: readonly string[]): Promise<UsedKeys> {
  if (keys.length === 0) return new Map();
  const rows = await tx.rows<{ key: string; request_sha256: string; uuid: JobUuid }>(
    `SELECT idempotency_key AS key, request_sha256, uuid FROM jobs
      WHERE idempotency_key = ANY($1)`,
    keys,
  );
  return new Map(rows.map(({ key, ...used }) => [key, used]));
}

/** The outcome of an earlier request with a key, from what usedKeys() returned. */
export function earlierOf(
  used: UsedKeys,
  { key, request_sha256 }: Idempotency,
): EarlierOutcome | undefined {
  const found = used.get(key);
  if (found === undefined) return undefined;
  if (found.request_sha256 !== request_sha256) return { kind: "key_reused", job_uuid: found.uuid };
  return { kind: "repeated", job: { uuid: found.uuid } };
}

/** The outcome of an earlier request with a key; undefined without one. */
export async function earlierJob(
  tx: Transaction,
  idempotency: Idempotency,
): Promise<EarlierOutcome | undefined> {
  return earlierOf(await usedKeys(tx, [idempotency.key]), idempotency);
}

/** The locks of unfinished jobs. */
export function selectLocks(tx: Transaction): Promise<HeldLock[]> {
  return tx.rows<HeldLock>(
    `SELECT locks, uuid FROM jobs WHERE locks IS NOT NULL AND ${HOLDS_TARGET} ORDER BY id`,
  );
}
