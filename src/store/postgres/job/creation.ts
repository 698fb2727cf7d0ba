// Creates jobs. One transaction checks for a repeated request, the limits and locks on the target, and writes the
// row. What two agents must not judge at the same time, they judge one after the other.

import type { JobUuid } from "../../../domain/id.ts";
import type { Idempotency, NewJob } from "../../../domain/job/job.ts";
import { decide } from "../../../domain/job/state.ts";
import type { JsonObject } from "../../../domain/json.ts";
import {
  FREE,
  type HeldLock,
  isUnread,
  type JudgedWrite,
  lockOn,
  LOCKS_MAX,
  openJudgedWrite,
  type PreparedWrite,
  standingOf,
  type Unread,
} from "../../rules.ts";
import type {
  CreateJobOutcome,
  EarlierOutcome,
  JobOrder,
  OrderOutcome,
  OrderRules,
  PlaceJobOutcome,
  RetryOutcome,
} from "../../job_store.ts";
import type { Showing, StoredText } from "../../stored_text.ts";
import type { SharedDatabase, Transaction } from "../connection.ts";
import { HOLDS_TARGET } from "../../words.ts";
import { workflowToRun } from "../workflows.ts";
import { recordTask } from "./changes.ts";
import { countUnfinished } from "./counts.ts";
import { insertJob, nameNextAttempt, writtenBefore } from "./jobs.ts";
import { lockState } from "./moves.ts";
import type { PlaceHosts } from "./place.ts";
import { jobText } from "./texts.ts";
import type { JobCreation } from "../../columns.ts";

/** Where locks and targets are judged, among the advisory locks of the database. */
const JUDGING = 8_780_002;

/** The methods of the store that create jobs. @param host the uuid of this host */
export function openJobCreation(
  db: SharedDatabase,
  host: string,
): JobCreation {
  const judged = openJudgedWrite(() => db.read(selectLocks));
  let creating = 0;
  const created: JudgedWrite = async (job, unfinishedMax, write) => {
    creating += 1;
    try {
      return await judged(job, unfinishedMax, write);
    } finally {
      creating -= 1;
    }
  };
  return {
    creating: () => creating,
    recordTask: (record) => {
      const { successor = null } = record;
      if (successor === null) return db.write((tx) => recordTask(tx, record));
      return judged(
        successor,
        Number.MAX_SAFE_INTEGER,
        ({ verdicts, paramsSha256 }) =>
          db.write(async (tx) => {
            await judgeAlone(tx, successor);
            const lock = successor.target === null
              ? FREE
              : lockOn(await selectLocks(tx), verdicts, record.job_uuid);
            return lock.kind === "unread"
              ? lock
              : await recordTask(tx, record, { lock, paramsSha256 });
          }),
      );
    },
    create: (job, unfinishedMax = Number.MAX_SAFE_INTEGER) =>
      created(
        job,
        unfinishedMax,
        (ready) => db.write((tx) => createJob(tx, job, { own: host }, ready)),
      ),
    order: (order, rules) =>
      created(
        order,
        rules.unfinishedMax,
        (ready) => db.write((tx) => orderJob(tx, order, rules, { own: host }, ready)),
      ),
    retry: (uuid, successor, unfinishedMax = Number.MAX_SAFE_INTEGER) =>
      created(
        successor,
        unfinishedMax,
        (ready) => db.write((tx) => retryJob(tx, uuid, successor, host, ready)),
      ),
  };
}

async function createJob(
  tx: Transaction,
  job: NewJob,
  hosts: PlaceHosts,
  ready: PreparedWrite,
): Promise<CreateJobOutcome | Unread> {
  const { idempotency } = job;
  const earlier = idempotency === undefined ? undefined : await earlierJob(tx, idempotency);
  if (earlier !== undefined) return await writtenBefore(tx, job.uuid) ?? earlier;
  const outcome = await placeJob(tx, job, hosts, ready);
  if (isUnread(outcome)) return outcome;
  if (outcome.kind !== "created") return await writtenBefore(tx, job.uuid) ?? outcome;
  if (idempotency !== undefined) await insertKey(tx, idempotency, job.uuid);
  return outcome;
}

/** The answer to a repeated request; its workflow may have been deleted since. */
async function earlierOrder(
  tx: Transaction,
  { idempotency, uuid }: JobOrder,
  showing: Showing,
): Promise<OrderOutcome | undefined> {
  const earlier = idempotency === undefined ? undefined : await earlierJob(tx, idempotency);
  if (earlier === undefined || earlier.kind === "key_reused") return earlier;
  const kind = earlier.job.uuid === uuid ? "created" : "repeated";
  return { kind, job: earlier.job, text: await shownJob(tx, earlier.job.uuid, showing) };
}

/** Makes a job of a stored workflow. */
async function orderJob(
  tx: Transaction,
  whole: JobOrder,
  { workflowBytesMax, needsTasks, showing }: OrderRules,
  hosts: PlaceHosts,
  ready: PreparedWrite,
): Promise<OrderOutcome | Unread> {
  const { workflow_uuid, ...order } = whole;
  const earlier = await earlierOrder(tx, whole, showing);
  if (earlier !== undefined) return earlier;
  // A repeated call finds its job even when the workflow was changed or deleted.
  const unlessMade = async (refusal: OrderOutcome): Promise<OrderOutcome> => {
    const text = await jobText(tx, order.uuid, showing);
    return text === undefined ? refusal : { kind: "created", job: { uuid: order.uuid }, text };
  };
  const found = await workflowToRun(tx, workflow_uuid, workflowBytesMax);
  if (found.kind === "large") {
    return await unlessMade({ kind: "large_workflow", bytes: found.bytes });
  }
  if (found.kind === "missing") return await unlessMade({ kind: "no_workflow" });
  const { workflow } = found;
  if (needsTasks && workflow.chain.length === 0) return await unlessMade({ kind: "no_tasks" });
  const outcome = await createJob(tx, { ...order, workflow }, hosts, ready);
  if (outcome.kind !== "created" && outcome.kind !== "repeated") return outcome;
  const { kind, job: { uuid } } = outcome;
  return { kind, job: { uuid }, text: await shownJob(tx, uuid, showing) };
}

async function shownJob(tx: Transaction, uuid: JobUuid, showing: Showing): Promise<StoredText> {
  const text = await jobText(tx, uuid, showing);
  if (text === undefined) throw new Error(`Cannot show job ${uuid}: its row is missing`);
  return text;
}

async function placeJob(
  tx: Transaction,
  job: NewJob,
  hosts: PlaceHosts,
  { unfinishedMax, verdicts, paramsSha256 }: PreparedWrite,
): Promise<PlaceJobOutcome | Unread> {
  if (await countUnfinished(tx) >= unfinishedMax) {
    return { kind: "full", what: "unfinished jobs", limit: unfinishedMax };
  }
  await judgeAlone(tx, job);
  const held = job.target === null && typeof job.locks !== "string" ? [] : await selectLocks(tx);
  if (typeof job.locks === "string" && held.length >= LOCKS_MAX) {
    return { kind: "full", what: "locks", limit: LOCKS_MAX };
  }
  const lock = job.target === null ? FREE : lockOn(held, verdicts);
  return lock.kind === "free" ? await insertJob(tx, job, hosts, paramsSha256) : lock;
}

/** Of a new lock and new targets, one is written and seen before the other is judged. */
async function judgeAlone(tx: Transaction, { target, locks }: NewJob): Promise<void> {
  if (typeof locks === "string") await tx.run(`SELECT pg_advisory_xact_lock(${JUDGING})`);
  else if (target !== null) await tx.run(`SELECT pg_advisory_xact_lock_shared(${JUDGING})`);
}

/** Outcome of an earlier request with the key. */
export async function earlierJob(
  tx: Transaction,
  { key, request_sha256 }: Idempotency,
): Promise<EarlierOutcome | undefined> {
  const used = await tx.row<{ request_sha256: string; uuid: JobUuid }>(
    `SELECT request_sha256, uuid FROM idempotency_keys JOIN jobs ON jobs.id = job_id
      WHERE key = $1`,
    key,
  );
  if (used === undefined) return undefined;
  if (used.request_sha256 !== request_sha256) return { kind: "key_reused", job_uuid: used.uuid };
  return { kind: "repeated", job: { uuid: used.uuid } };
}

async function insertKey(
  tx: Transaction,
  { key, request_sha256 }: Idempotency,
  job: JobUuid,
): Promise<void> {
  await tx.run(
    `INSERT INTO idempotency_keys (key, request_sha256, job_id, created_at)
     SELECT $1, $2, id, $4 FROM jobs WHERE uuid = $3`,
    key,
    request_sha256,
    job,
    tx.now,
  );
}

/** Retries a finished job, once, on its host; the two jobs refer to each other. */
async function retryJob(
  tx: Transaction,
  uuid: JobUuid,
  successor: NewJob,
  own: string,
  ready: PreparedWrite,
): Promise<RetryOutcome | Unread> {
  const row = await lockState(tx, uuid);
  if (row === undefined) return { kind: "not_found" };
  const next = await nextAttemptOf(tx, row.id);
  if (next === successor.uuid) {
    const made = await writtenBefore(tx, successor.uuid);
    if (made !== undefined) return made;
  }
  const decision = decide(standingOf(row), { kind: "retry", retried: next !== undefined });
  if (decision.kind === "denied") {
    if (next === undefined || decision.reason !== "retried") {
      const { execution } = row;
      return { kind: "denied", reason: "unfinished", job: { uuid, execution } };
    }
    return { kind: "denied", reason: "retried", next_attempt: next };
  }
  const outcome = await placeJob(tx, successor, { own, before: row.queue }, ready);
  if (!isUnread(outcome) && outcome.kind === "created") {
    await nameNextAttempt(tx, row.id, outcome.job.uuid);
  }
  return outcome;
}

/** The uuid of the next attempt, or whatever a task has set there. */
async function nextAttemptOf(tx: Transaction, id: number) {
  const row = await tx.row<{ props: string }>("SELECT props FROM jobs WHERE id = $1", id);
  // The text was made by this store from an object.
  return (JSON.parse(row?.props ?? "{}") as JsonObject).next_attempt;
}

function selectLocks(tx: Transaction): Promise<HeldLock[]> {
  return tx.rows<HeldLock>(
    `SELECT locks, uuid FROM jobs WHERE locks IS NOT NULL AND ${HOLDS_TARGET} ORDER BY id`,
  );
}
