// Creating jobs. One transaction checks whether the request came before, whether there is room and
// whether the target is locked, and writes the row. What a transaction cannot wait for is done before
// it: the digest of the params, and matching the target against every lock.

import type { JobUuid } from "../../../domain/id.ts";
import type { Idempotency, NewJob } from "../../../domain/job/job.ts";
import { decide } from "../../../domain/job/state.ts";
import { canonicalJson, type JsonValue } from "../../../domain/json.ts";
import { type LockPattern, parseLockPattern } from "../../../domain/job/lock_pattern.ts";
import type {
  CreateJobOutcome,
  EarlierOutcome,
  JobOrder,
  JobStore,
  OrderOutcome,
  OrderRules,
  PlaceJobOutcome,
  RetryOutcome,
} from "../../job_store.ts";
import { type Connection, otherWork } from "../connection.ts";
import { HOLDS_TARGET } from "../schema.ts";
import { recordTask } from "./changes.ts";
import { countUnfinished, insertJob, nameNextAttempt, writtenBefore } from "./jobs.ts";
import { standingOf, STATE_COLUMNS, type StateRow } from "./moves.ts";
import { sha256Hex } from "../../../domain/digest.ts";
import type { Showing, StoredText } from "../../stored_text.ts";
import { jobText } from "./texts.ts";
import { selectWorkflow, workflowBytes } from "../workflows.ts";

/** Locks that may be held at a time: each is tried on every new target. */
const LOCKS_MAX = 256;
/** Times that a target is matched again because a lock was written meanwhile. */
const JUDGEMENTS_MAX = 100;

/** What was done before the write. */
interface Prepared {
  /** Digest of the canonical params, when the job has a target. */
  readonly paramsSha256: string | null;
  readonly verdicts: LockVerdicts;
  readonly unfinishedMax: number;
}

/** A lock is newer than the judgement of a target: it is judged again. */
type Unread = Extract<LockAnswer, { kind: "unread" }>;

/** The methods of the store that make jobs. */
export function openJobCreation(
  db: Connection,
): Pick<JobStore, "create" | "order" | "retry" | "recordTask"> {
  const patterns: LockPatterns = new Map();
  const judged = async <T>(
    job: NewJob | JobOrder,
    unfinishedMax: number,
    write: (ready: Prepared) => Promise<T | Unread>,
  ): Promise<T> => {
    const paramsSha256 = await paramsDigest(job);
    // A lock that cannot be read would block every later target.
    if (typeof job.locks === "string") await parseLockPattern(job.locks);
    for (let judgement = 1; judgement <= JUDGEMENTS_MAX; judgement++) {
      const verdicts = job.target === null
        ? new Map()
        : await judgeTarget(db, job.target, patterns);
      const outcome = await write({ paramsSha256, verdicts, unfinishedMax });
      if (!isUnread(outcome)) return outcome;
    }
    throw new Error(`Cannot write job ${job.uuid}: locks change faster than they are read`);
  };
  return {
    recordTask: (record) => {
      const { successor = null } = record;
      if (successor === null) return db.write("job_record", () => recordTask(db, record));
      const ends = record.job_uuid;
      return judged(successor, Number.MAX_SAFE_INTEGER, async ({ verdicts, paramsSha256 }) => {
        return await db.write("job_record", () => {
          const lock = successor.target === null ? FREE : lockOn(db, verdicts, ends);
          return lock.kind === "unread" ? lock : recordTask(db, record, { lock, paramsSha256 });
        });
      });
    },
    create: (job, unfinishedMax = Number.MAX_SAFE_INTEGER) =>
      judged(
        job,
        unfinishedMax,
        (ready) => db.write("job_create", () => createJob(db, job, ready)),
      ),
    order: async (order, rules) => {
      // A repeated request is answered from what was written, which a full disk does not prevent.
      const earlier = order.idempotency === undefined
        ? undefined
        : await db.durably(() => earlierOrder(db, order, rules.showing));
      if (earlier !== undefined) return earlier;
      return await judged(
        order,
        rules.unfinishedMax,
        (ready) => db.write("job_create", () => orderJob(db, order, rules, ready)),
      );
    },
    retry: (uuid, successor, unfinishedMax = Number.MAX_SAFE_INTEGER) =>
      judged(
        successor,
        unfinishedMax,
        (ready) => db.write("job_retry", () => retryJob(db, uuid, successor, ready)),
      ),
  };
}

function isUnread(outcome: unknown): outcome is Unread {
  return outcome === UNREAD;
}

function createJob(db: Connection, job: NewJob, ready: Prepared): CreateJobOutcome | Unread {
  const { idempotency } = job;
  const earlier = idempotency === undefined ? undefined : earlierJob(db, idempotency);
  if (earlier !== undefined) return writtenBefore(db, job.uuid) ?? earlier;
  const outcome = placeJob(db, job, ready);
  if (isUnread(outcome)) return outcome;
  if (outcome.kind !== "created") return writtenBefore(db, job.uuid) ?? outcome;
  if (idempotency !== undefined) insertKey(db, idempotency, job);
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

/** Makes a job of a stored workflow. */
function orderJob(
  db: Connection,
  whole: JobOrder,
  { workflowBytesMax, needsTasks, showing }: OrderRules,
  ready: Prepared,
): OrderOutcome | Unread {
  const { workflow_uuid, ...order } = whole;
  const earlier = earlierOrder(db, whole, showing);
  if (earlier !== undefined) return earlier;
  // Of a repeated call the job may be there while its workflow has gone or changed.
  const unlessMade = (refusal: OrderOutcome): OrderOutcome => {
    const text = jobText(db, order.uuid, showing);
    return text === undefined ? refusal : { kind: "created", job: { uuid: order.uuid }, text };
  };
  const bytes = workflowBytes(db, workflow_uuid) ?? 0;
  if (bytes > workflowBytesMax) return unlessMade({ kind: "large_workflow", bytes });
  const workflow = selectWorkflow(db, workflow_uuid)?.workflow;
  if (workflow === undefined) return unlessMade({ kind: "no_workflow" });
  if (needsTasks && workflow.chain.length === 0) return unlessMade({ kind: "no_tasks" });
  const outcome = createJob(db, { ...order, workflow }, ready);
  if (outcome.kind !== "created" && outcome.kind !== "repeated") return outcome;
  const { kind, job: { uuid } } = outcome;
  return { kind, job: { uuid }, text: shownJob(db, uuid, showing) };
}

function shownJob(db: Connection, uuid: JobUuid, showing: Showing): StoredText {
  const text = jobText(db, uuid, showing);
  if (text === undefined) throw new Error(`Cannot show job ${uuid}: its row is missing`);
  return text;
}

function placeJob(db: Connection, job: NewJob, ready: Prepared): PlaceJobOutcome | Unread {
  const { unfinishedMax, verdicts, paramsSha256 } = ready;
  if (countUnfinished(db) >= unfinishedMax) {
    return { kind: "full", what: "unfinished jobs", limit: unfinishedMax };
  }
  if (typeof job.locks === "string" && countLocks(db) >= LOCKS_MAX) {
    return { kind: "full", what: "locks", limit: LOCKS_MAX };
  }
  const lock = job.target === null ? FREE : lockOn(db, verdicts);
  return lock.kind === "free" ? insertJob(db, job, paramsSha256) : lock;
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
  return { kind: "repeated", job: { uuid: used.uuid } };
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

/** A job that is to be made again. */
interface FinishedRow extends StateRow {
  /** JSON of the uuid, or of what a task has written there. */
  readonly next_attempt: string | null;
}

function selectFinished(db: Connection, uuid: JobUuid): FinishedRow | undefined {
  return db.row<FinishedRow>(
    `SELECT ${STATE_COLUMNS}, props -> '$.next_attempt' AS next_attempt
       FROM jobs WHERE uuid = ?`,
    uuid,
  );
}

/** Makes a finished job again, once: both jobs name each other. */
function retryJob(
  db: Connection,
  uuid: JobUuid,
  successor: NewJob,
  ready: Prepared,
): RetryOutcome | Unread {
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
  const outcome = placeJob(db, successor, ready);
  if (outcome.kind === "created") nameNextAttempt(db, id, outcome.job.uuid);
  return outcome;
}

// Locks: patterns of unfinished jobs on the targets of others. A pattern may take milliseconds on a
// long target, so that the targets of new jobs are judged before their write, one pattern at a time
// with other work let through in between; the write itself only looks the verdicts up.

/** Whether patterns, by their texts, match one target. */
type LockVerdicts = ReadonlyMap<string, boolean>;

/** What locks say of a target: free, held by a job, or not known, since a lock is newer. */
type LockAnswer =
  | { readonly kind: "free" }
  | { readonly kind: "locked"; readonly job_uuid: JobUuid }
  | { readonly kind: "unread" };
const FREE = { kind: "free" } as const;
const UNREAD = { kind: "unread" } as const;

/** Patterns that were read, kept while some job holds them. */
type LockPatterns = Map<string, LockPattern>;

/** Matches a target against every lock. */
async function judgeTarget(
  db: Connection,
  target: string,
  patterns: LockPatterns,
): Promise<LockVerdicts> {
  const texts = new Set(selectLocks(db).map(({ locks }) => locks));
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

/**
 * What the locks that there are now say of the target that was judged.
 * @param ends a job that ends with the write, and its lock with it
 */
function lockOn(db: Connection, verdicts: LockVerdicts, ends?: JobUuid): LockAnswer {
  for (const { locks, uuid } of selectLocks(db)) {
    if (uuid === ends) continue;
    const verdict = verdicts.get(locks);
    if (verdict === undefined) return UNREAD;
    if (verdict) return { kind: "locked", job_uuid: uuid };
  }
  return FREE;
}

function countLocks(db: Connection): number {
  return selectLocks(db).length;
}

function selectLocks(db: Connection): { locks: string; uuid: JobUuid }[] {
  return db.rows(
    `SELECT locks, uuid FROM jobs INDEXED BY jobs_locks
      WHERE locks IS NOT NULL AND ${HOLDS_TARGET} ORDER BY id`,
  );
}

// The digest by which the params of jobs with a target are compared, key order apart.

/** Lower-case hex SHA-256 of the canonical params that were asked for; null without a target. */
async function paramsDigest(
  { target, params, requested_params = params }: NewJob | JobOrder,
): Promise<string | null> {
  if (target === null) return null;
  return await sha256Hex(new TextEncoder().encode(canonicalJson(requested_params)));
}
