// What changes a job after it was created. Each is a conditional update that carries out one event
// of domain/job_state.ts; a write about a claimed job also names its owner (rule: a runner that
// lost its job changes nothing).

import { unreachable } from "../../../domain/error.ts";
import type { JobUuid, WorkflowUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { Phase } from "../../../domain/job/job.ts";
import type { Resume } from "../../../domain/job/request.ts";
import { decide, type JobEvent } from "../../../domain/job/state.ts";
import type { ChangedJob, ChangeOutcome, Hold, NextStep, TaskRecord } from "../../job_store.ts";
import type { Showing } from "../../stored_text.ts";
import { insertCallback } from "./callbacks.ts";
import type { Connection } from "../connection.ts";
import { changingJob, jobRow, jobText } from "./texts.ts";
import { insertJob, selectExecution } from "./jobs.ts";
import { insertResult, updateWaitingResult } from "./rows.ts";
import { giveTurn } from "./leases.ts";

/** Records the end of a task and the job's next state, or nothing when the runner lost the job. */
export function recordTask(
  db: Connection,
  record: TaskRecord,
  successorParamsSha256: string | null,
): boolean {
  const { next, entry, now } = record;
  changingJob(db, record.job_uuid);
  const row = advanceJob(db, record);
  if (row === undefined) return false;
  const { id } = row;
  if (entry !== undefined) insertResult(db, id, record.phase, entry);
  if (next.kind === "queued" && next.claimable_at <= now) giveTurn(db, id, row.workflow_uuid);
  if (next.kind === "retried" && next.successor !== null) {
    // The job is final by now, so that its successor may have its target.
    const outcome = insertJob(db, next.successor, successorParamsSha256);
    nameNextAttempt(db, id, outcome.kind === "created" ? outcome.job.uuid : outcome.job_uuid);
    // The job that goes on instead of a successor was another caller's wish.
    if (outcome.kind === "duplicate") insertCallback(db, id, now);
  } else if (endsJob(next)) insertCallback(db, id, now);
  return true;
}

/** Whether the job is final with this step, which it was not before. */
function endsJob(next: NextStep): boolean {
  return next.kind === "finished" || next.kind === "canceled" || next.kind === "retried";
}

/** The job that goes on: the successor, or the unfinished one that has its target and params. */
export function nameNextAttempt(db: Connection, id: number, next: JobUuid): void {
  db.readers.changing(jobRow(id));
  db.run("UPDATE jobs SET props = json_set(props, '$.next_attempt', ?2) WHERE id = ?1", id, next);
}

/** How a next step is written into the columns of the job. */
function columnsOf(next: NextStep, phase: Phase): {
  execution: string | null;
  phase: Phase;
  owned: boolean;
  claimable_at: Instant | null;
  starts: number;
} {
  switch (next.kind) {
    case "continue":
      // The next task starts at once, and its start is counted with the same commit.
      return { execution: null, phase, owned: true, claimable_at: null, starts: 1 };
    case "onerror":
      return { execution: null, phase: "onerror", owned: true, claimable_at: null, starts: 1 };
    case "queued":
      return {
        execution: "queued",
        phase,
        owned: false,
        claimable_at: next.claimable_at,
        starts: 0,
      };
    case "waiting":
      return { execution: "waiting", phase, owned: false, claimable_at: null, starts: 0 };
    case "finished":
      return { execution: next.execution, phase, owned: false, claimable_at: null, starts: 0 };
    case "retried":
      return { execution: "retried", phase, owned: false, claimable_at: null, starts: 0 };
    case "canceled":
      return {
        execution: "canceled",
        phase: next.oncancel ? "oncancel" : phase,
        owned: next.oncancel,
        claimable_at: null,
        starts: next.oncancel ? 1 : 0,
      };
    case "cancel_done":
      return { execution: null, phase, owned: false, claimable_at: null, starts: 0 };
    default:
      return unreachable(next);
  }
}

interface JobKey {
  readonly id: number;
  readonly workflow_uuid: WorkflowUuid;
}

function advanceJob(db: Connection, record: TaskRecord): JobKey | undefined {
  const columns = columnsOf(record.next, record.phase);
  const ends = columns.phase !== record.phase;
  const elapsedMs = Math.round(record.elapsed_ms);
  return db.row<JobKey>(
    `UPDATE jobs
        SET execution = coalesce(?1, execution), phase = ?2,
            runner_id = CASE ?3 WHEN 1 THEN runner_id END,
            claimable_at = ?4, starts = ?5, params = ?6, props = ?7, elapsed_ms = ?8,
            phases_ms = phases_ms + ?14,
            finished_at = CASE WHEN ?1 IN ('succeeded', 'failed', 'retried', 'canceled')
                          THEN max(?9, coalesce(started_at, ?9)) ELSE finished_at END
      WHERE uuid = ?10 AND runner_id = ?11 AND lease = ?12 AND phase = ?13
        AND (execution = 'running' OR (execution = 'canceled' AND phase = 'oncancel'))
     RETURNING id, workflow_uuid`,
    columns.execution,
    columns.phase,
    columns.owned ? 1 : 0,
    columns.claimable_at,
    columns.starts,
    JSON.stringify(record.params),
    JSON.stringify(record.props),
    // A phase that follows begins with a budget of its own.
    ends ? 0 : elapsedMs,
    record.now,
    record.job_uuid,
    record.runner_id,
    record.lease,
    record.phase,
    ends ? elapsedMs : 0,
  );
}

/** Makes a claimed job claimable again, its start counted, unless the claim no longer holds. */
export function abandonJob(db: Connection, hold: Hold, now: Instant): boolean {
  return giveBack(
    db,
    db.row<JobKey>(
      `UPDATE jobs
          SET execution = CASE execution WHEN 'running' THEN 'queued' ELSE execution END,
              runner_id = NULL, claimable_at = ?4
        WHERE uuid = ?1 AND runner_id = ?2 AND lease = ?3
       RETURNING id, workflow_uuid`,
      hold.job_uuid,
      hold.runner_id,
      hold.lease,
      now,
    ),
  );
}

/** The same for a job whose present task is to start anew as if it had not: its start is taken off. */
export function releaseJob(db: Connection, hold: Hold, elapsedMs: number, now: Instant): boolean {
  return giveBack(
    db,
    db.row<JobKey>(
      `UPDATE jobs
          SET execution = CASE execution WHEN 'running' THEN 'queued' ELSE execution END,
              runner_id = NULL, claimable_at = ?4, starts = max(starts - 1, 0),
              elapsed_ms = CASE phase WHEN ?6 THEN ?5 ELSE elapsed_ms END
        WHERE uuid = ?1 AND runner_id = ?2 AND lease = ?3
       RETURNING id, workflow_uuid`,
      hold.job_uuid,
      hold.runner_id,
      hold.lease,
      now,
      Math.round(elapsedMs),
      hold.phase,
    ),
  );
}

function giveBack(db: Connection, row: JobKey | undefined): boolean {
  if (row === undefined) return false;
  giveTurn(db, row.id, row.workflow_uuid);
  return true;
}

/**
 * Cancels an unfinished job. When it has an oncancel chain and has begun, that chain follows: its
 * present owner goes on to it, or it becomes claimable.
 */
export function cancelJob(
  db: Connection,
  uuid: JobUuid,
  now: Instant,
  showing?: Showing,
): ChangeOutcome {
  const row = db.row<JobKey & { claimable_at: Instant | null }>(
    `UPDATE jobs
        SET execution = 'canceled', finished_at = max(?2, coalesce(started_at, ?2)),
            phases_ms = phases_ms + elapsed_ms, elapsed_ms = 0,
            starts = CASE WHEN runner_id IS NULL THEN 0 ELSE 1 END,
            phase = CASE WHEN undoable AND started_at IS NOT NULL THEN 'oncancel' ELSE phase END,
            runner_id = CASE WHEN undoable THEN runner_id END, turn = NULL,
            claimable_at = CASE WHEN undoable AND started_at IS NOT NULL
                                 AND runner_id IS NULL THEN ?2 END
      WHERE uuid = ?1 AND execution IN ('queued', 'running', 'waiting')
     RETURNING id, workflow_uuid, claimable_at`,
    uuid,
    now,
  );
  if (row === undefined) return refusal(db, uuid, "cancel");
  insertCallback(db, row.id, now);
  if (row.claimable_at !== null) giveTurn(db, row.id, row.workflow_uuid);
  return changed(db, { uuid, execution: "canceled" }, showing);
}

/** Records what became of the waiting task, and queues the job again or ends it as failed. */
export function resumeJob(
  db: Connection,
  uuid: JobUuid,
  resume: Resume,
  now: Instant,
  showing?: Showing,
): ChangeOutcome {
  changingJob(db, uuid);
  const failed = resume.kind === "error";
  const row = db.row<JobKey & { phase: Phase }>(
    `UPDATE jobs
        SET execution = ?2,
            claimable_at = CASE ?2 WHEN 'queued' THEN ?3 END,
            finished_at = CASE ?2 WHEN 'failed' THEN max(?3, coalesce(started_at, ?3)) END
      WHERE uuid = ?1 AND execution = 'waiting'
     RETURNING id, workflow_uuid, phase`,
    uuid,
    failed ? "failed" : "queued",
    now,
  );
  if (row === undefined) return refusal(db, uuid, failed ? "resume_failed" : "resume");
  if (failed) insertCallback(db, row.id, now);
  else giveTurn(db, row.id, row.workflow_uuid);
  updateWaitingResult(db, row.id, row.phase, {
    result: resume.result,
    error: failed ? resume.error : "",
    finished_at: now,
  });
  return changed(db, { uuid, execution: failed ? "failed" : "queued" }, showing);
}

function changed(db: Connection, job: ChangedJob, showing: Showing | undefined): ChangeOutcome {
  const text = showing === undefined ? undefined : jobText(db, job.uuid, showing);
  return { kind: "changed", job, ...(text === undefined ? {} : { text }) };
}

/** Why the conditional update changed nothing, told from the row as it is. */
function refusal(db: Connection, uuid: JobUuid, event: JobEvent): ChangeOutcome {
  const execution = selectExecution(db, uuid);
  if (execution === undefined) return { kind: "not_found" };
  const decision = decide(execution, event);
  if (decision.kind === "move") {
    throw new Error(`The store refused ${event} in ${execution}, job_state.ts does not`);
  }
  return { kind: "denied", reason: decision.reason, job: { uuid, execution } };
}
