// Changes of claimed jobs, and those that callers ask for. domain/job/state.ts decides each event; every write
// about a claimed job is conditional on its claim, so a runner that has lost the job changes nothing.

import { unreachable } from "../../../domain/error.ts";
import type { JobUuid } from "../../../domain/id.ts";
import { errorLine, type NewJob, secretNames } from "../../../domain/job/job.ts";
import type { Resume } from "../../../domain/job/request.ts";
import {
  decide,
  executionOf,
  heldIn,
  isClaimable,
  isHeld,
  isMade,
  type JobEvent,
  type Move,
  moveOf,
  startsAfter,
} from "../../../domain/job/state.ts";
import { ANY_HOST } from "../../../domain/job/workflow.ts";
import { standingOf } from "../../rules.ts";
import type { ChangedJob, ChangeOutcome, Hold, TaskRecord } from "../../job_store.ts";
import type { Showing } from "../../stored_text.ts";
import type { Transaction } from "../connection.ts";
import { canceledWord } from "../notices.ts";
import { insertAttempt, insertInterrupted } from "./attempts.ts";
import { insertCallback } from "./callbacks.ts";
import { insertJob, nameNextAttempt, nameRefusedAttempt } from "./jobs.ts";
import {
  lockState,
  noteMove,
  ranMs,
  type SharedStateRow,
  STATE_COLUMNS,
  writeMove,
} from "./moves.ts";
import { insertResult, isEntry, isResumedBy, secretNamesOf, updateWaitingResult } from "./rows.ts";
import { jobText } from "./texts.ts";
import { nextTurn, writeTurn } from "./turns.ts";
import type { ReadySuccessor, RecordedRow } from "../../columns.ts";

/** Records the end of a task and the next state of the job, unless the runner has lost the job. */
export async function recordTask(
  tx: Transaction,
  record: TaskRecord,
  ready?: ReadySuccessor,
): Promise<boolean> {
  const { entry, successor = null } = record;
  const move = moveOf(heldIn(record.phase), record.event);
  const row = await writeTask(tx, record, move);
  if (row === undefined) return await isRecorded(tx, record, move);
  const { id, queue } = row;
  noteMove(tx, { uuid: record.job_uuid, queue }, move);
  if (entry !== undefined) await insertResult(tx, id, record.phase, record.position, entry);
  for (const attempt of record.attempts ?? []) {
    await insertAttempt(tx, id, record.phase, attempt);
  }
  if (isClaimable(move.to)) {
    await writeTurn(tx, id, await nextTurn(tx, queue, row.workflow_uuid));
  }
  const goesOn = move.to === "retried" && successor !== null && ready !== undefined &&
    await goesOnAs(tx, row, successor, { ...ready, runner: record.runner_id });
  if (move.ends && !goesOn) await insertCallback(tx, row, row.queue);
  return true;
}

/**
 * Creates the job that replaces one that ended as retried, and may take over its target.
 * @returns whether the callback moves to that job: not when there is none, or when it has another requester
 */
async function goesOnAs(
  tx: Transaction,
  { id, queue }: SharedRecordedRow,
  successor: NewJob,
  { lock, paramsSha256, runner }: ReadySuccessor & { readonly runner: string },
): Promise<boolean> {
  // The workflow of a free job may have lost its placement: the host that ran the job gets the next one.
  const own = queue === ANY_HOST ? runner : queue;
  // A lock accepted in the meantime guarantees that no new job gets the target.
  const outcome = lock.kind === "locked"
    ? lock
    : await insertJob(tx, successor, { own, before: queue }, paramsSha256);
  switch (outcome.kind) {
    case "created":
      await nameNextAttempt(tx, id, outcome.job.uuid);
      return true;
    case "duplicate":
      await nameNextAttempt(tx, id, outcome.job_uuid);
      return false;
    case "locked":
      await nameRefusedAttempt(tx, id, `job ${outcome.job_uuid} locks the target`);
      return false;
    case "machine_taken":
      await nameRefusedAttempt(tx, id, `job ${outcome.job_uuid} has the machine`);
      return false;
    case "no_host":
      await nameRefusedAttempt(tx, id, `host ${outcome.host} is ${outcome.reason}`);
      return false;
    default:
      return unreachable(outcome);
  }
}

/**
 * Whether an earlier call, whose answer was lost, wrote the same record: the claim is still the latest, the
 * task has its entry, and the job is in the recorded state or a later one.
 */
async function isRecorded(tx: Transaction, record: TaskRecord, move: Move): Promise<boolean> {
  const row = await lockState(tx, record.job_uuid);
  if (row === undefined || row.lease !== record.lease) return false;
  if (row.runner_id !== null && row.runner_id !== record.runner_id) return false;
  if (!isMade(move, standingOf(row))) return false;
  return record.entry === undefined
    ? row.execution === executionOf(move.to) && row.phase === move.phase
    : await isEntry(tx, row.id, record.phase, record.position, record.entry);
}

interface SharedRecordedRow extends RecordedRow {
  readonly queue: string;
}

function writeTask(
  tx: Transaction,
  record: TaskRecord,
  move: Move,
): Promise<SharedRecordedRow | undefined> {
  const at = heldIn(record.phase);
  const ends = move.phase !== at.phase;
  const elapsedMs = Math.round(record.elapsed_ms);
  return tx.row<SharedRecordedRow>(
    `UPDATE jobs
        SET execution = $1, phase = $2, runner_id = CASE WHEN $3 THEN runner_id END,
            claimable_at = CASE WHEN $4 THEN $5::text END, starts = $6, params = $7, props = $8,
            requested_params = coalesce(requested_params, CASE WHEN params <> $7 THEN params END),
            elapsed_ms = $9, phases_ms = phases_ms + $10,
            elapsed_at = CASE WHEN $3 THEN $5::text END, failures = 0, retry_at = NULL,
            error = coalesce(error, $17),
            finished_at = CASE WHEN $11 THEN greatest($5::text COLLATE "C", started_at)
                          ELSE finished_at END
      WHERE uuid = $12 AND runner_id = $13 AND lease = $14 AND execution = $15 AND phase = $16
        AND $18 = (SELECT count(*) FROM task_results WHERE job_id = jobs.id AND phase = $16)
     RETURNING id, queue, workflow_uuid, callback_host`,
    executionOf(move.to),
    move.phase,
    isHeld(move.to),
    isClaimable(move.to),
    tx.now,
    // The end of a task sets the count; the previous value is not known here.
    startsAfter(move, 0),
    JSON.stringify(record.params),
    JSON.stringify(record.props),
    // The next phase starts with its full time.
    ends ? 0 : elapsedMs,
    ends ? elapsedMs : 0,
    move.ends,
    record.job_uuid,
    record.runner_id,
    record.lease,
    executionOf(at.state),
    at.phase,
    record.event.kind === "fail" && record.entry !== undefined
      ? errorLine(record.entry.error, secretNames(record.props))
      : null,
    record.position,
  );
}

/** Makes a claimed job claimable again, its start counted, unless the claim no longer holds. */
export async function abandonJob(tx: Transaction, hold: Hold): Promise<boolean> {
  const row = await lockHeld(tx, hold);
  if (row === undefined) return false;
  const standing = standingOf(row);
  // Its task was canceled, and counts as no attempt.
  if (standing.state !== "stopping") await insertInterrupted(tx, row.id);
  await writeMove(tx, row, moveOf(standing, { kind: "abandon" }));
  return true;
}

/** The same for a job whose current task has not failed: its start is not counted. */
export async function releaseJob(
  tx: Transaction,
  hold: Hold,
  elapsedMs: number,
): Promise<boolean> {
  const row = await lockHeld(tx, hold);
  if (row === undefined) return false;
  // After a cancel, the new phase has not run yet.
  const ran = row.phase === hold.phase ? elapsedMs : null;
  await writeMove(tx, row, moveOf(standingOf(row), { kind: "release" }), ran);
  return true;
}

/** The job while the claim holds; a cancel may have changed its phase. */
function lockHeld(
  tx: Transaction,
  { job_uuid, runner_id, lease }: Hold,
): Promise<SharedStateRow | undefined> {
  return tx.row<SharedStateRow>(
    `SELECT ${STATE_COLUMNS} FROM jobs WHERE uuid = $1 AND runner_id = $2 AND lease = $3 FOR UPDATE`,
    job_uuid,
    runner_id,
    lease,
  );
}

/**
 * Cancels an unfinished job; its runner, or the next one, continues with the oncancel chain.
 * @param own the runner of this agent, which stops the task at once
 */
export function cancelJob(
  tx: Transaction,
  own: string,
  uuid: JobUuid,
  showing: Showing | undefined,
): Promise<ChangeOutcome> {
  return change(tx, uuid, (row) => ({
    kind: "cancel",
    oncancel: row.undoable,
    begun: row.started_at !== null,
    elsewhere: row.runner_id !== own,
  }), showing);
}

/**
 * Records the result of the waiting task, and queues the job again or fails it. A repeated call with the
 * same id does not end a later wait.
 */
export async function resumeJob(
  tx: Transaction,
  uuid: JobUuid,
  resume: Resume,
  showing: Showing | undefined,
  call: string | null,
): Promise<ChangeOutcome> {
  const failed = resume.kind === "error";
  const row = call === null ? undefined : await lockState(tx, uuid);
  if (row !== undefined && call !== null && await isResumedBy(tx, row.id, call)) {
    return await changedOf(tx, { uuid, execution: row.execution }, showing);
  }
  return await change(
    tx,
    uuid,
    () => ({ kind: failed ? "resume_failed" : "resume" }),
    showing,
    async (row) => {
      await updateWaitingResult(tx, row.id, row.phase, {
        result: resume.result,
        error: failed ? resume.error : "",
        finished_at: tx.now,
      }, call);
      return failed ? errorLine(resume.error, await secretNamesOf(tx, row.id)) : null;
    },
  );
}

/**
 * Applies an event requested by a caller, or returns why it is denied.
 * @param also further writes about the job as read; returns the error of a failed task
 */
async function change(
  tx: Transaction,
  uuid: JobUuid,
  eventOf: (row: SharedStateRow) => JobEvent,
  showing: Showing | undefined,
  also: (row: SharedStateRow) => Promise<string | null> = () => Promise.resolve(null),
): Promise<ChangeOutcome> {
  const row = await lockState(tx, uuid);
  if (row === undefined) return { kind: "not_found" };
  const event = eventOf(row);
  const decision = decide(standingOf(row), event);
  if (decision.kind !== "move") {
    return { ...decision, job: { uuid, execution: row.execution } };
  }
  // From now on its runner can write nothing about the interrupted task.
  const ran = ranMs(row, tx.now);
  const error = await also(row);
  await writeMove(tx, row, decision, ran, error);
  if (row.runner_id !== null) tx.tell(canceledWord(uuid));
  if (decision.ends) await insertCallback(tx, row, row.queue);
  const held = event.kind === "cancel" && event.elsewhere && isHeld(decision.to);
  const changed = { uuid, execution: executionOf(decision.to) };
  return await changedOf(tx, held ? { ...changed, held } : changed, showing);
}

/** The outcome of a change: the job as it is now, and its text if requested. */
async function changedOf(
  tx: Transaction,
  job: ChangedJob,
  showing: Showing | undefined,
): Promise<ChangeOutcome> {
  const text = showing === undefined ? undefined : await jobText(tx, job.uuid, showing);
  return { kind: "changed", job, ...(text === undefined ? {} : { text }) };
}
