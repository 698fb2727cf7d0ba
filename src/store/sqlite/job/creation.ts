// Creates jobs. One transaction checks for a repeated request, the limits and locks on the target, and
// writes the row. Work that would block a transaction comes first: the digest of the params, and matching
// the target against every lock.

import type { JobUuid } from "../../../domain/id.ts";
import type { Instant, Now } from "../../../domain/instant.ts";
import type { NewJob } from "../../../domain/job/job.ts";
import type { Idempotency } from "../../../domain/job/idempotency.ts";
import { decide } from "../../../domain/job/state.ts";
import type { JsonValue } from "../../../domain/json.ts";
import type {
  CreateJobOutcome,
  EarlierOutcome,
  JobOrder,
  OrderOutcome,
  OrderRules,
  PlaceJobOutcome,
  RetryOutcome,
} from "../../job_store.ts";
import type { TaskRecord } from "../../run_store.ts";
import type { Pace } from "../../limits.ts";
import { HOLDS_TARGET, type JobCreation, standingOf, type StateRow } from "../../sql.ts";
import {
  countedWrite,
  FREE,
  type HeldLock,
  isStale,
  lockOn,
  LOCKS_MAX,
  openLockCheckedWrite,
  type PreparedWrite,
  type StaleLocks,
} from "../../target_locks.ts";
import type { Connection } from "../connection.ts";
import type { WaitingClaim, WaitingClaims } from "./waiting_claims.ts";
import { recordTask } from "./changes.ts";
import { countUnfinished } from "./counts.ts";
import { insertJob, missingHost, nameNextAttempt, writtenBefore } from "./jobs.ts";
import { STATE_COLUMNS } from "./moves.ts";
import type { Showing, StoredText } from "../../stored_text.ts";
import { createdText, jobText } from "./texts.ts";
import { workflowToRun } from "./workflows.ts";

/**
 * The methods of the store that create jobs.
 * @param now the clock of the store
 */
export function openJobCreation(
  db: Connection,
  begun: WaitingClaims,
  now: Now,
): JobCreation {
  const lockChecked = openLockCheckedWrite(() => selectLocks(db));
  const { creating, created } = countedWrite(lockChecked);
  return {
    creating,
    recordTask: (record, patient = false) => {
      const { successor = null } = record;
      if (successor === null) {
        return recordPlain(db, record, patient ? "patient" : "prompt", begun.take(record), now);
      }
      begun.write();
      const ends = record.job_uuid;
      return lockChecked(successor, Number.MAX_SAFE_INTEGER, async ({ matches, paramsSha256 }) => {
        return await db.write("job_record", () => {
          const lock = successor.target === null ? FREE : lockOn(selectLocks(db), matches, ends);
          return lock.kind === "stale"
            ? lock
            : recordTask(db, record, now(), { ready: { lock, paramsSha256 } });
        });
      });
    },
    create: (job, unfinishedMax) =>
      created(
        job,
        unfinishedMax,
        (ready) => db.write("job_create", () => createJob(db, job, ready, now())),
      ),
    order: async (order, rules) => {
      // A repeated request is answered by reading, which works on a full disk too.
      const earlier = order.idempotency === undefined
        ? undefined
        : await db.durably(() => earlierOrder(db, order, rules.showing));
      if (earlier !== undefined) return earlier;
      return await created(
        order,
        rules.unfinishedMax,
        (ready) => db.write("job_create", () => orderJob(db, order, rules, ready, now())),
      );
    },
    retry: (uuid, successor, unfinishedMax) =>
      created(
        successor,
        unfinishedMax,
        (ready) => db.write("job_retry", () => retryJob(db, uuid, successor, ready, now())),
      ),
  };
}

/** Records the end of a task that makes no other job. */
async function recordPlain(
  db: Connection,
  record: TaskRecord,
  pace: Pace,
  begun: WaitingClaim | undefined,
  now: Now,
): Promise<boolean> {
  try {
    const write = () => recordTask(db, record, now(), { begun });
    const owned = await db.write("job_record", write, pace);
    begun?.settle(owned);
    return owned;
  } catch (error) {
    begun?.fail(error);
    throw error;
  }
}

function createJob(
  db: Connection,
  job: NewJob,
  ready: PreparedWrite,
  now: Instant,
): CreateJobOutcome | StaleLocks {
  const { idempotency } = job;
  const earlier = idempotency === undefined ? undefined : earlierJob(db, idempotency);
  if (earlier !== undefined) return writtenBefore(db, job.uuid) ?? earlier;
  // Checked only here: a successor and a retried job belong to this host, whatever their params name.
  const outcome = missingHost(db, job) ?? placeJob(db, job, ready, now);
  if (isStale(outcome)) return outcome;
  if (outcome.kind !== "created") return writtenBefore(db, job.uuid) ?? outcome;
  if (idempotency !== undefined) insertKey(db, idempotency, job.uuid, now);
  return outcome;
}

/** The answer to a repeated request; its workflow may have been deleted since. */
function earlierOrder(
  db: Connection,
  { idempotency, uuid }: JobOrder,
  showing: Showing,
): OrderOutcome | undefined {
  const earlier = idempotency === undefined ? undefined : earlierJob(db, idempotency);
  if (earlier === undefined || earlier.kind === "key_reused") return earlier;
  const kind = earlier.job.uuid === uuid ? "created" : "repeated";
  return { kind, job: earlier.job, text: shownJob(db, earlier.job.uuid, showing) };
}

/** Creates a job from a stored workflow. */
function orderJob(
  db: Connection,
  whole: JobOrder,
  { workflowBytesMax, needsTasks, ...rules }: OrderRules,
  ready: PreparedWrite,
  now: Instant,
): OrderOutcome | StaleLocks {
  const { workflow_uuid, ...order } = whole;
  // Shown by the time at which the job was written, which is later than that of the request.
  const showing = { ...rules.showing, now };
  const earlier = earlierOrder(db, whole, showing);
  if (earlier !== undefined) return earlier;
  // A repeated call finds its job even when the workflow was changed or deleted.
  const unlessMade = (refusal: OrderOutcome): OrderOutcome => {
    const text = jobText(db, order.uuid, showing);
    return text === undefined ? refusal : { kind: "created", job: { uuid: order.uuid }, text };
  };
  const found = workflowToRun(db, workflow_uuid, workflowBytesMax);
  if (found.kind === "large") return unlessMade({ kind: "large_workflow", bytes: found.bytes });
  if (found.kind === "missing") return unlessMade({ kind: "no_workflow" });
  const { workflow } = found;
  if (needsTasks && workflow.chain.length === 0) return unlessMade({ kind: "no_tasks" });
  const outcome = createJob(db, { ...order, workflow }, ready, now);
  if (outcome.kind !== "created" && outcome.kind !== "repeated") return outcome;
  const { kind, job: { uuid } } = outcome;
  const text = outcome.kind === "created"
    ? createdText(db, outcome.job, found.bytes, showing)
    : undefined;
  return { kind, job: { uuid }, text: text ?? shownJob(db, uuid, showing) };
}

function shownJob(db: Connection, uuid: JobUuid, showing: Showing): StoredText {
  const text = jobText(db, uuid, showing);
  if (text === undefined) throw new Error(`Cannot show job ${uuid}: its row is missing`);
  return text;
}

function placeJob(
  db: Connection,
  job: NewJob,
  ready: PreparedWrite,
  now: Instant,
): PlaceJobOutcome | StaleLocks {
  const { unfinishedMax, matches, paramsSha256 } = ready;
  if (countUnfinished(db) >= unfinishedMax) {
    return { kind: "full", what: "unfinished jobs", limit: unfinishedMax };
  }
  if (typeof job.locks === "string" && countLocks(db) >= LOCKS_MAX) {
    return { kind: "full", what: "locks", limit: LOCKS_MAX };
  }
  const lock = job.target === null ? FREE : lockOn(selectLocks(db), matches);
  return lock.kind === "free" ? insertJob(db, job, paramsSha256, now) : lock;
}

/** Outcome of an earlier request with the key. */
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
  return { kind: "repeated", job: { uuid: used.uuid } };
}

function insertKey(
  db: Connection,
  { key, request_sha256 }: Idempotency,
  job: JobUuid,
  now: Instant,
): void {
  db.run(
    `INSERT INTO idempotency_keys (key, request_sha256, job_id, created_at)
     SELECT ?1, ?2, id, ?4 FROM jobs WHERE uuid = ?3`,
    key,
    request_sha256,
    job,
    now,
  );
}

/** A job to be retried. */
interface FinishedRow extends StateRow {
  /** JSON of the uuid, or of whatever a task has set there. */
  readonly next_attempt: string | null;
}

function selectFinished(db: Connection, uuid: JobUuid): FinishedRow | undefined {
  return db.row<FinishedRow>(
    `SELECT ${STATE_COLUMNS}, props -> '$.next_attempt' AS next_attempt
       FROM jobs WHERE uuid = ?`,
    uuid,
  );
}

/** Retries a finished job, once; the two jobs refer to each other. */
function retryJob(
  db: Connection,
  uuid: JobUuid,
  successor: NewJob,
  ready: PreparedWrite,
  now: Instant,
): RetryOutcome | StaleLocks {
  const row = selectFinished(db, uuid);
  if (row === undefined) return { kind: "not_found" };
  const { id, execution, next_attempt } = row;
  if (next_attempt === JSON.stringify(successor.uuid)) {
    const made = writtenBefore(db, successor.uuid);
    if (made !== undefined) return made;
  }
  const decision = decide(standingOf(row), { kind: "retry", retried: next_attempt !== null });
  if (decision.kind === "denied") {
    if (next_attempt === null || decision.reason !== "retried") {
      return { kind: "denied", reason: "unfinished", job: { uuid, execution } };
    }
    const named = JSON.parse(next_attempt) as JsonValue;
    return { kind: "denied", reason: "retried", next_attempt: named };
  }
  const outcome = placeJob(db, successor, ready, now);
  if (outcome.kind === "created") nameNextAttempt(db, id, outcome.job.uuid, now);
  return outcome;
}

function countLocks(db: Connection): number {
  return selectLocks(db).length;
}

function selectLocks(db: Connection): HeldLock[] {
  return db.rows(
    `SELECT locks, uuid FROM jobs INDEXED BY jobs_locks
      WHERE locks IS NOT NULL AND ${HOLDS_TARGET} ORDER BY id`,
  );
}
