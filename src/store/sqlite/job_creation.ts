// A wish for a job, judged in one transaction: whether the request was here before, whether there is
// room, whether the target is locked; then the row.

import type { JobUuid } from "../../domain/id.ts";
import type { Idempotency, NewJob } from "../../domain/job.ts";
import { isFinal } from "../../domain/job_state.ts";
import type { CreateJobOutcome, EarlierOutcome, RetryOutcome } from "../job_store.ts";
import type { Connection } from "./connection.ts";
import { nameNextAttempt } from "./job_changes.ts";
import { jobFromRow, type JobRow } from "./job_rows.ts";
import { countUnfinished, insertJob, selectJobRow } from "./jobs.ts";
import { countLocks, lockOn, type LockPatterns } from "./locks.ts";

/** Locks that may be held at a time: each is tried on every new target. */
const LOCKS_MAX = 256;

/** What the caller has prepared, since a write cannot wait for it. */
export interface Prepared {
  /** Digest of the canonical params, when the job has a target. */
  readonly paramsSha256: string | null;
  readonly patterns: LockPatterns;
  readonly unfinishedMax: number;
}

/** Writes a job, or tells why there is none. */
export function createJob(db: Connection, job: NewJob, prepared: Prepared): CreateJobOutcome {
  const { idempotency } = job;
  const earlier = idempotency === undefined ? undefined : earlierJob(db, idempotency);
  if (earlier !== undefined) return earlier;
  const outcome = placeJob(db, job, prepared);
  if (outcome.kind === "created" && idempotency !== undefined) {
    insertKey(db, idempotency, job);
  }
  return outcome;
}

type PlaceOutcome = Extract<
  CreateJobOutcome,
  { kind: "created" | "duplicate" | "locked" | "full" }
>;

function placeJob(db: Connection, job: NewJob, prepared: Prepared): PlaceOutcome {
  const { unfinishedMax } = prepared;
  if (countUnfinished(db) >= unfinishedMax) {
    return { kind: "full", what: "unfinished jobs", limit: unfinishedMax };
  }
  if (typeof job.locks === "string" && countLocks(db) >= LOCKS_MAX) {
    return { kind: "full", what: "locks", limit: LOCKS_MAX };
  }
  const holder = job.target === null ? undefined : lockOn(db, job.target, prepared.patterns);
  if (holder !== undefined) return { kind: "locked", job_uuid: holder };
  return insertJob(db, job, prepared.paramsSha256);
}

/** What an earlier request under the key came to. */
export function earlierJob(
  db: Connection,
  { key, request_sha256 }: Idempotency,
): EarlierOutcome | undefined {
  const used = db.row<{ request_sha256: string; uuid: JobUuid }>(
    `SELECT request_sha256, uuid FROM idempotency_keys JOIN jobs ON jobs.id = job_id
      WHERE key = ?`,
    key,
  );
  if (used === undefined) return undefined;
  if (used.request_sha256 !== request_sha256) return { kind: "key_reused", job_uuid: used.uuid };
  const row = selectJobRow(db, used.uuid);
  return row === undefined ? undefined : { kind: "repeated", job: jobFromRow(db, row) };
}

function insertKey(db: Connection, { key, request_sha256 }: Idempotency, job: NewJob): void {
  db.run(
    `INSERT INTO idempotency_keys (key, request_sha256, job_id, created_at)
     SELECT ?1, ?2, id, ?4 FROM jobs WHERE uuid = ?3`,
    key,
    request_sha256,
    job.uuid,
    job.created_at,
  );
}

/** Makes a finished job anew, once: both jobs name each other. */
export function retryJob(
  db: Connection,
  uuid: JobUuid,
  successor: NewJob,
  prepared: Prepared,
): RetryOutcome {
  const row = selectJobRow(db, uuid);
  if (row === undefined) return { kind: "not_found" };
  const job = jobFromRow(db, row);
  if (!isFinal(job.execution) || isUndoing(row)) {
    return { kind: "denied", reason: "unfinished", job };
  }
  if (job.props.next_attempt !== undefined) return { kind: "denied", reason: "retried", job };
  const outcome = placeJob(db, successor, prepared);
  if (outcome.kind === "created") nameNextAttempt(db, row.id, outcome.job.uuid);
  return outcome;
}

/** A canceled job whose oncancel chain has not come to its end. */
function isUndoing(row: JobRow): boolean {
  return row.runner_id !== null || row.claimable_at !== null;
}
