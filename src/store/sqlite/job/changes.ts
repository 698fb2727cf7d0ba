// Changes of claimed jobs. domain/job/state.ts decides each event; every write about a claimed job is
// conditional on its claim, so a runner that has lost the job changes nothing.

import type { BindValue } from "@db/sqlite";
import type { JobUuid } from "../../../domain/id.ts";
import { type Instant, msBetween } from "../../../domain/instant.ts";
import { errorLine, type NewJob } from "../../../domain/job/job.ts";
import type { Resume } from "../../../domain/job/request.ts";
import {
  decide,
  executionOf,
  heldIn,
  isClaimable,
  type JobEvent,
  type Move,
  moveOf,
} from "../../../domain/job/state.ts";
import type { ChangedJob, ChangeOutcome } from "../../job_store.ts";
import type { Hold, TaskRecord } from "../../run_store.ts";
import { standingOf, type StateRow } from "../../sql.ts";
import type { Showing } from "../../stored_text.ts";
import {
  nextAttemptOf,
  type ReadySuccessor,
  type RecordedRow,
  showsRecord,
  taskEnd,
} from "../../task_end.ts";
import { insertAttempt, insertInterrupted } from "./log.ts";
import type { WaitingClaim } from "./waiting_claims.ts";
import { insertCallback } from "./callbacks.ts";
import { mayClaim, traceClaim } from "./claims.ts";
import type { Connection } from "../connection.ts";
import { changingJob, jobRow, jobText } from "./texts.ts";
import { insertJob, nameNextAttempt, nameRefusedAttempt } from "./jobs.ts";
import { noteMove, selectState, STATE_COLUMNS, writeMove } from "./moves.ts";
import { insertResult, isEntry, isResumedBy, secretNamesOf, updateWaitingResult } from "./rows.ts";
import { TRACED_COLUMNS, type TracedRow, traceMove } from "./traces.ts";
import { giveTurn, readyOverdueJobs } from "./turns.ts";

/**
 * Records the end of a task and the next state of the job, unless the runner has lost the job. Needs no
 * read: the hold names the expected state, and the statement is conditional on it.
 */
export function recordTask(
  db: Connection,
  record: TaskRecord,
  now: Instant,
  { begun, ready }: { readonly begun?: WaitingClaim | undefined; readonly ready?: ReadySuccessor } =
    {},
): boolean {
  const { entry, successor = null } = record;
  changingJob(db, record.job_uuid);
  const move = moveOf(heldIn(record.phase), record.event);
  const row = (begun && claimAndWriteTask(db, record, begun, move, now)) ??
    writeTask(db, record, move, now);
  if (row === undefined) return isRecorded(db, record, move);
  const { id } = row;
  traceMove(db, row, heldIn(record.phase), move, now, record.position);
  noteMove(db, record.job_uuid, move);
  if (entry !== undefined) insertResult(db, id, record.phase, record.position, entry);
  for (const attempt of record.attempts ?? []) insertAttempt(db, id, record.phase, attempt);
  if (isClaimable(move.to)) giveTurn(db, id, row.workflow_uuid);
  const goesOn = move.to === "retried" && successor !== null && ready !== undefined &&
    goesOnAs(db, id, successor, ready, now);
  if (move.ends && !goesOn) insertCallback(db, row, now);
  return true;
}

/**
 * Creates the job that replaces one that ended as retried, and may take over its target.
 * @returns whether the callback moves to that job: not when there is none, or when it has another requester
 */
function goesOnAs(
  db: Connection,
  id: number,
  successor: NewJob,
  { lock, paramsSha256 }: ReadySuccessor,
  now: Instant,
): boolean {
  // A lock accepted in the meantime guarantees that no new job gets the target.
  const outcome = lock.kind === "locked" ? lock : insertJob(db, successor, paramsSha256, now);
  const next = nextAttemptOf(outcome);
  if (next.kind === "refused") {
    nameRefusedAttempt(db, id, next.reason, now);
    return false;
  }
  nameNextAttempt(db, id, next.uuid, now);
  return next.takesCallback;
}

/** Whether an earlier call, whose answer was lost, wrote the same record. */
function isRecorded(db: Connection, record: TaskRecord, move: Move): boolean {
  const row = selectState(db, record.job_uuid);
  if (row === undefined || !showsRecord(row, record, move)) return false;
  const { entry, phase, position } = record;
  return entry === undefined || isEntry(db, row.id, phase, position, entry);
}

/** Records a task that ended while its claim held. */
function writeTask(
  db: Connection,
  record: TaskRecord,
  move: Move,
  now: Instant,
): (RecordedRow & TracedRow) | undefined {
  return db.row<RecordedRow & TracedRow>(RECORD, ...endedBy(record, move, null, now));
}

/** Records a task that ended before the claim under which it ran was written. */
function claimAndWriteTask(
  db: Connection,
  record: TaskRecord,
  { life, job }: WaitingClaim,
  move: Move,
  now: Instant,
): (RecordedRow & TracedRow) | undefined {
  if (!mayClaim(db, life)) return undefined;
  const values = endedBy(record, move, job.started_at, now);
  const row = db.row<RecordedRow & TracedRow>(CLAIM_AND_RECORD, ...values);
  if (row === undefined) return undefined;
  traceClaim(db, row, job, now);
  readyOverdueJobs(db, now);
  return row;
}

/** The values of taskEnd() and two more. By number: by name, SQLite would need 17 us more for each task. */
const ENDED = [
  "uuid",
  "runner",
  "claim",
  "position",
  "was",
  "was_in",
  "execution",
  "phase",
  "held",
  "claimable",
  "ends",
  "starts",
  "params",
  "props",
  "elapsed_ms",
  "ended_ms",
  "error",
  "now",
  "began",
] as const;

/** @param began when the job was first started, if its claim is written by the same statement */
function endedBy(
  record: TaskRecord,
  move: Move,
  began: Instant | null,
  now: Instant,
): BindValue[] {
  const values = { ...taskEnd(record, move), now, began };
  return ENDED.map((name) => {
    const value = values[name];
    return typeof value === "boolean" ? Number(value) : value;
  });
}

/** Replaces the names of ENDED by their numbers. @throws {Error} for another name */
function numbered(sql: string): string {
  return sql.replaceAll(/:(\w+)/g, (_, name) => {
    const at = ENDED.findIndex((one) => one === name);
    if (at === -1) throw new Error(`Cannot number the value ${name}, expected one of ${ENDED}`);
    return `?${at + 1}`;
  });
}

const SET_ENDED = `
         execution = :execution,
         phase = :phase,
         runner_id = CASE WHEN :held THEN :runner END,
         claimable_at = CASE WHEN :claimable THEN :now END,
         starts = :starts,
         params = :params,
         props = :props,
         requested_params =
           coalesce(requested_params, CASE WHEN params <> :params THEN params END),
         elapsed_ms = :elapsed_ms,
         phases_ms = phases_ms + :ended_ms,
         elapsed_at = CASE WHEN :held THEN :now END,
         failures = 0,
         retry_at = NULL,
         error = coalesce(error, :error),
         finished_at = CASE WHEN :ends THEN max(:now, coalesce(started_at, :began, :now))
                       ELSE finished_at END`;
const IN_PLACE =
  ":position = (SELECT count(*) FROM task_results WHERE job_id = jobs.id AND phase = :was_in)";

/** The end of a task. */
const RECORD = numbered(`
  UPDATE jobs
     SET ${SET_ENDED}
   WHERE uuid = :uuid AND runner_id = :runner AND lease = :claim AND execution = :was
     AND phase = :was_in AND ${IN_PLACE}
  RETURNING ${TRACED_COLUMNS}, workflow_uuid, callback_host`);

/** The same together with its claim. Only a job that can be claimed has a claimable_at. */
const CLAIM_AND_RECORD = numbered(`
  UPDATE jobs
     SET lease = :claim,
         turn = NULL,
         started_at = :began,${SET_ENDED}
   WHERE uuid = :uuid AND lease = :claim - 1 AND claimable_at IS NOT NULL
     AND phase = :was_in AND ${IN_PLACE}
  RETURNING ${TRACED_COLUMNS}, workflow_uuid, callback_host`);

/** Makes a claimed job claimable again and counts its start, unless the claim no longer holds. */
export function abandonJob(db: Connection, hold: Hold, now: Instant): boolean {
  const row = selectHeld(db, hold);
  if (row === undefined) return false;
  insertInterrupted(db, row.id, now);
  writeMove(db, row, moveOf(standingOf(row), { kind: "abandon" }), now);
  return true;
}

/** As abandonJob(), for a job whose current task has not failed: its start is not counted. */
export function releaseJob(db: Connection, hold: Hold, elapsedMs: number, now: Instant): boolean {
  const row = selectHeld(db, hold);
  if (row === undefined) return false;
  // After a cancel, the new phase has not run yet.
  const elapsed = row.phase === hold.phase ? elapsedMs : null;
  writeMove(db, row, moveOf(standingOf(row), { kind: "release" }), now, elapsed);
  return true;
}

/** Reads a job if the claim still holds; a cancel may have changed its phase. */
function selectHeld(db: Connection, { job_uuid, runner_id, lease }: Hold): StateRow | undefined {
  return db.row<StateRow>(
    `SELECT ${STATE_COLUMNS} FROM jobs WHERE uuid = ? AND runner_id = ? AND lease = ?`,
    job_uuid,
    runner_id,
    lease,
  );
}

/** Cancels an unfinished job; its runner, or the next one, continues with the oncancel chain. */
export function cancelJob(
  db: Connection,
  uuid: JobUuid,
  now: Instant,
  showing?: Showing,
): ChangeOutcome {
  const outcome = change(db, uuid, now, (row) => ({
    kind: "cancel",
    oncancel: row.undoable === 1,
    begun: row.started_at !== null,
    elsewhere: false,
  }), showing);
  if (outcome.kind === "changed") db.notify({ kind: "canceled", job_uuid: uuid });
  return outcome;
}

/**
 * Records the result of the waiting task, and queues the job again or fails it. A repeated call with the
 * same id does not end a later wait.
 */
export function resumeJob(
  db: Connection,
  uuid: JobUuid,
  resume: Resume,
  now: Instant,
  showing: Showing | undefined,
  call: string | null,
): ChangeOutcome {
  const failed = resume.kind === "error";
  const row = call === null ? undefined : selectState(db, uuid);
  if (row !== undefined && call !== null && isResumedBy(db, row.id, call)) {
    return changedOf(db, row, showing);
  }
  return change(
    db,
    uuid,
    now,
    () => ({ kind: failed ? "resume_failed" : "resume" }),
    showing,
    (row) => {
      updateWaitingResult(db, row.id, row.phase, {
        result: resume.result,
        error: failed ? resume.error : "",
        finished_at: now,
      }, call);
      return failed ? errorLine(resume.error, secretNamesOf(db, row.id)) : null;
    },
  );
}

/**
 * Applies an event requested by a caller, or returns why it is denied.
 * @param also further writes about the job as read; returns the error of a failed task
 */
function change(
  db: Connection,
  uuid: JobUuid,
  now: Instant,
  eventOf: (row: StateRow) => JobEvent,
  showing: Showing | undefined,
  also: (row: StateRow) => string | null = () => null,
): ChangeOutcome {
  const row = selectState(db, uuid);
  if (row === undefined) return { kind: "not_found" };
  const decision = decide(standingOf(row), eventOf(row));
  if (decision.kind !== "move") {
    return { ...decision, job: { uuid, execution: row.execution } };
  }
  db.readers.changing(jobRow(row.id));
  // From here on the runner can write nothing about the interrupted task.
  const ranMs = row.elapsed_at === null
    ? null
    : row.elapsed_ms + Math.max(msBetween(row.elapsed_at, now), 0);
  const error = also(row);
  writeMove(db, row, decision, now, ranMs, error);
  if (decision.ends) insertCallback(db, row, now);
  // The job may have become due since the request came.
  const shown = showing === undefined ? undefined : { ...showing, now };
  return changedOf(db, { uuid, execution: executionOf(decision.to) }, shown);
}

/** The outcome of a change: the job's new state, and its text if requested. */
function changedOf(
  db: Connection,
  { uuid, execution }: ChangedJob,
  showing: Showing | undefined,
): ChangeOutcome {
  const text = showing === undefined ? undefined : jobText(db, uuid, showing);
  return { kind: "changed", job: { uuid, execution }, ...(text === undefined ? {} : { text }) };
}
