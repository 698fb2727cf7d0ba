// Makes jobs. One transaction checks the limits and locks on the targets, and writes the rows.
// What two agents must not judge at the same time, they judge one after the other.

import type { JobUuid } from "../../../domain/id.ts";
import type { Idempotency, NewJob } from "../../../domain/job/job.ts";
import {
  FREE,
  type HeldLock,
  isUnread,
  lockOn,
  LOCKS_MAX,
  type PreparedWrite,
  type Unread,
} from "../../rules.ts";
import type { EarlierOutcome, PlaceJobOutcome } from "../../job_store.ts";
import { HOLDS_TARGET } from "../../columns.ts";
import type { Asking, Transaction } from "../connection.ts";
import { countUnfinished } from "./counts.ts";
import { type InsertedJob, insertJobs, writtenBefore } from "./jobs.ts";
import type { PlaceHosts } from "./queue.ts";

/** Where locks and targets are judged, among the advisory locks of the database. */
const JUDGING = 8_780_002;

/** A job to make, and what was prepared for it. */
export interface Placing {
  readonly job: NewJob;
  readonly hosts: PlaceHosts;
  readonly ready: PreparedWrite;
  /** As insertJobs() takes it. */
  readonly handedOver?: boolean;
}

/**
 * Makes jobs that no earlier request with their key has made.
 * @param known how many jobs are unfinished, where that is read already
 * @returns the outcome of each
 */
export async function makeJobs(
  tx: Transaction,
  placings: readonly Placing[],
  known?: number,
): Promise<Map<JobUuid, PlaceJobOutcome | Unread>> {
  const outcomes = await placeJobs(tx, placings, known);
  for (const { job: { uuid } } of placings) {
    const outcome = outcomes.get(uuid);
    if (outcome === undefined || isUnread(outcome) || outcome.kind === "created") continue;
    outcomes.set(uuid, await writtenBefore(tx, uuid) ?? outcome);
  }
  return outcomes;
}

/** Makes jobs that the limits and locks allow; as makeJobs(). */
export async function placeJobs(
  tx: Transaction,
  placings: readonly Placing[],
  known?: number,
): Promise<Map<JobUuid, PlaceJobOutcome | Unread>> {
  const outcomes = new Map<JobUuid, PlaceJobOutcome | Unread>();
  const unfinished = known ?? await countUnfinished(tx);
  const areMany = placings.length > 1;
  const after = unfinished + placings.length;
  const mayCross = ({ job, ready }: Placing) =>
    after > ready.unfinishedMax || typeof job.locks === "string";
  if (areMany && placings.some(mayCross)) {
    // Each sees the locks of those before it, and what they have added.
    for (const one of placings) {
      for (const [uuid, outcome] of await placeJobs(tx, [one])) outcomes.set(uuid, outcome);
    }
    return outcomes;
  }
  const locks = await lockJudged(tx, placings.map(({ job }) => job));
  const free: InsertedJob[] = [];
  for (const { job, hosts, ready: { unfinishedMax, verdicts, paramsSha256 }, ...how } of placings) {
    const lock = job.target === null ? FREE : lockOn(locks, verdicts);
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

/** The locks that new jobs are judged by. Of a new lock and new targets, one is written and seen before the other. */
export async function lockJudged(tx: Transaction, jobs: readonly NewJob[]): Promise<HeldLock[]> {
  const locks = jobs.some((job) => typeof job.locks === "string");
  if (!locks && jobs.every(({ target }) => target === null)) return [];
  await tx.run(`SELECT pg_advisory_xact_lock${locks ? "" : "_shared"}(${JUDGING})`);
  return await selectLocks(tx);
}

/** The outcome for one of the jobs. @throws {Error} when it was none of them */
export function madeOf<Outcome>(outcomes: ReadonlyMap<JobUuid, Outcome>, uuid: JobUuid): Outcome {
  const outcome = outcomes.get(uuid);
  if (outcome === undefined) throw new Error(`Cannot make job ${uuid}: it has no outcome`);
  return outcome;
}

/** What was asked for with a key, and the job that was made. */
export type UsedKeys = ReadonlyMap<
  string,
  { readonly request_sha256: string; readonly uuid: JobUuid }
>;

/** What was asked for with some keys. */
export async function usedKeys(tx: Asking, keys: readonly string[]): Promise<UsedKeys> {
  if (keys.length === 0) return new Map();
  const rows = await tx.rows<{ key: string; request_sha256: string; uuid: JobUuid }>(
    `SELECT idempotency_key AS key, request_sha256, uuid FROM jobs
      WHERE idempotency_key = ANY($1)`,
    keys,
  );
  return new Map(rows.map(({ key, ...used }) => [key, used]));
}

/** The same where it is read already. */
export function earlierOf(
  used: UsedKeys,
  { key, request_sha256 }: Idempotency,
): EarlierOutcome | undefined {
  const found = used.get(key);
  if (found === undefined) return undefined;
  if (found.request_sha256 !== request_sha256) return { kind: "key_reused", job_uuid: found.uuid };
  return { kind: "repeated", job: { uuid: found.uuid } };
}

/** Outcome of an earlier request with the key. */
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
