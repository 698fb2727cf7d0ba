// Changes of claimed jobs, and changes that callers request. domain/job/state.ts decides each event. Every write about
// a claimed job names its claim, so a runner that has lost the job changes nothing.

import type { JobUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import { errorLine, type NewJob } from "../../../domain/job/job.ts";
import type { Resume } from "../../../domain/job/request.ts";
import {
  CREATED,
  decide,
  executionOf,
  heldIn,
  isClaimable,
  isHeld,
  type JobEvent,
  type Move,
  moveOf,
} from "../../../domain/job/state.ts";
import { ANY_HOST } from "../../../domain/job/workflow.ts";
import { standingOf } from "../../sql.ts";
import { valueWeight } from "../../../domain/json.ts";
import type { ChangedJob, ChangeOutcome } from "../../job_store.ts";
import type { Hold, TaskRecord } from "../../run_store.ts";
import type { Showing } from "../../stored_text.ts";
import {
  nextAttemptOf,
  type ReadySuccessor,
  type RecordedRow,
  showsRecord,
  taskEnd,
} from "../../task_end.ts";
import type { Transaction } from "../connection.ts";
import { canceledNotice } from "../notices.ts";
import { type ByLife, type ColumnTypes, isLatest, tableOf, Values } from "../statements.ts";
import { insertAttempt, insertInterrupted } from "./log.ts";
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
import { insertResults, isEntry, isResumedBy, secretNamesOf, updateWaitingResult } from "./rows.ts";
import { jobText } from "./texts.ts";
import type { PlaceHosts } from "./host_queue.ts";
import { giveTurns } from "./turns.ts";

/** What is known of the job that replaces another, and which jobs the host runs. */
type PlacedSuccessor = ReadySuccessor & Pick<PlaceHosts, "taken">;

/** Records the end of a task and the job's next state, unless the runner has lost the job. */
export async function recordTask(
  tx: Transaction,
  record: TaskRecord & ByLife,
  ready?: PlacedSuccessor,
): Promise<boolean> {
  const [recorded = false] = await recordTasks(tx, [record], ready);
  return recorded;
}

/** Approximate bytes that the end of a task adds to a statement. */
export function bytesOfEnd({ params, props, entry }: TaskRecord): number {
  return valueWeight(params) + valueWeight(props) + valueWeight(entry?.result);
}

/** The end of a task. */
export interface EndedTask extends TaskRecord, ByLife {
  /** When the job was first started, if one statement writes its claim and its end; see run_writes.ts. */
  readonly began?: Instant | null;
}

/**
 * Records ends of tasks.
 * @param records at most one of each job
 * @param ready for the one record that has a successor
 * @returns whether the runner still held each job
 */
export async function recordTasks(
  tx: Transaction,
  records: readonly EndedTask[],
  ready?: PlacedSuccessor,
): Promise<boolean[]> {
  if (records.length === 0) return [];
  const rows = await writeTasks(tx, records);
  const written = records.flatMap((record) => {
    const row = rows.get(record.job_uuid);
    return row === undefined ? [] : { record, row, move: moveAfter(record) };
  });
  await insertResults(
    tx,
    written.flatMap(({ record: { entry, ...at }, row: { id } }) =>
      entry === undefined ? [] : { ...at, id, entry }
    ),
  );
  await giveTurns(tx, written.flatMap(({ row, move }) => isClaimable(move.to) ? row : []));
  for (const { record, row, move } of written) {
    noteMove(tx, { uuid: record.job_uuid, queue: row.queue }, move);
    for (const attempt of record.attempts ?? []) {
      await insertAttempt(tx, row.id, record.phase, attempt);
    }
    const { successor = null, runner_id: runner } = record;
    const goesOn = move.to === "retried" && successor !== null && ready !== undefined &&
      await goesOnAs(tx, row, successor, { ...ready, runner });
    if (move.ends && !goesOn) await insertCallback(tx, row, row.queue);
  }
  const recorded: boolean[] = [];
  for (const record of records) {
    recorded.push(rows.has(record.job_uuid) || await isRecorded(tx, record));
  }
  return recorded;
}

/** The state into which the end of a task moves its job. @throws {AgentError} `internal` if that is denied */
export function moveAfter({ phase, event }: TaskRecord): Move {
  return moveOf(heldIn(phase), event);
}

/**
 * Creates the job that replaces one that ended as retried, and may take over its target.
 * @returns whether the callback passes on to the new job: not without one, nor to an existing job of another requester
 */
async function goesOnAs(
  tx: Transaction,
  { id, queue }: SharedRecordedRow,
  successor: NewJob,
  { lock, paramsSha256, runner, taken }: PlacedSuccessor & { readonly runner: string },
): Promise<boolean> {
  // The workflow of a free job may no longer be free: then its next attempt goes to the host that ran the job.
  const own = queue === ANY_HOST ? runner : queue;
  // A lock that was accepted meanwhile guarantees that no new job gets the target.
  const outcome = lock.kind === "locked"
    ? lock
    : await insertJob(tx, { job: successor, hosts: { own, before: queue, taken }, paramsSha256 });
  const next = nextAttemptOf(outcome);
  if (next.kind === "refused") {
    await nameRefusedAttempt(tx, id, next.reason);
    return false;
  }
  await nameNextAttempt(tx, id, next.uuid);
  return next.takesCallback;
}

/** Whether an earlier call, whose answer was lost, wrote the same record. */
async function isRecorded(tx: Transaction, record: TaskRecord): Promise<boolean> {
  const move = moveAfter(record);
  const row = await lockState(tx, record.job_uuid);
  if (row === undefined || !showsRecord(row, record, move)) return false;
  const { entry, phase, position } = record;
  return entry === undefined || await isEntry(tx, row.id, phase, position, entry);
}

interface SharedRecordedRow extends RecordedRow {
  readonly queue: string;
}

const TASK_TYPES: ColumnTypes<ReturnType<typeof endOf>> = {
  uuid: "text",
  runner: "text",
  life: "text",
  began: "text",
  claim: "bigint",
  position: "bigint",
  was: "text",
  was_in: "text",
  execution: "text",
  phase: "text",
  held: "boolean",
  claimable: "boolean",
  ends: "boolean",
  starts: "bigint",
  params: "text",
  props: "text",
  elapsed_ms: "bigint",
  ended_ms: "bigint",
  error: "text",
};

function endOf(record: EndedTask) {
  const { life = null, began = null } = record;
  return { ...taskEnd(record, moveAfter(record)), life, began };
}

/** Writes ends of tasks, at most one of each job. @returns the rows of the jobs that their runner still held */
async function writeTasks(
  tx: Transaction,
  records: readonly EndedTask[],
): Promise<ReadonlyMap<JobUuid, SharedRecordedRow>> {
  const values = new Values();
  const now = `${values.add(tx.now)}::text`;
  const rows = await tx.rows<SharedRecordedRow & { readonly uuid: JobUuid }>(
    `UPDATE jobs
        SET execution = new.execution, phase = new.phase,
            runner_id = CASE WHEN held THEN runner_id END,
            lease = claim, started_at = coalesce(began, started_at), turn = NULL,
            claimable_at = CASE WHEN claimable THEN ${now} END, starts = new.starts,
            params = new.params, props = new.props,
            requested_params = coalesce(requested_params,
              CASE WHEN jobs.params <> new.params THEN jobs.params END),
            elapsed_ms = new.elapsed_ms, phases_ms = phases_ms + ended_ms,
            elapsed_at = CASE WHEN held THEN ${now} END, failures = 0, retry_at = NULL,
            error = coalesce(jobs.error, new.error),
            finished_at = CASE WHEN ends THEN greatest(${now} COLLATE "C", began, started_at)
                          ELSE finished_at END
       FROM ${tableOf(TASK_TYPES, records.map(endOf), values)}
      WHERE jobs.uuid = new.uuid AND jobs.phase = was_in
        AND CASE WHEN began IS NULL
          THEN runner_id = runner AND lease = claim AND jobs.execution = was
          ELSE claimable_at IS NOT NULL AND lease = claim - 1
            AND jobs.execution = '${executionOf(CREATED.state)}' END
        AND new.position = (SELECT count(*) FROM task_results
                             WHERE job_id = jobs.id AND task_results.phase = was_in)
        AND ${isLatest("new.life")}
     RETURNING id, jobs.uuid, queue, workflow_uuid, callback_host`,
    ...values.all,
  );
  return new Map(rows.map(({ uuid, ...row }) => [uuid, row]));
}

/** Makes a claimed job claimable again and counts its start, unless the claim no longer holds. */
export async function abandonJob(tx: Transaction, hold: Hold & ByLife): Promise<boolean> {
  const row = await lockHeld(tx, hold);
  if (row === undefined) return false;
  const standing = standingOf(row);
  // The task of a stopping job was canceled, so it does not count as an attempt.
  if (standing.state !== "stopping") await insertInterrupted(tx, row.id);
  await writeMove(tx, row, moveOf(standing, { kind: "abandon" }));
  return true;
}

/** As abandonJob(), for a job whose current task has not failed: its start is not counted. */
export async function releaseJob(
  tx: Transaction,
  hold: Hold & ByLife,
  elapsedMs: number,
): Promise<boolean> {
  const row = await lockHeld(tx, hold);
  if (row === undefined) return false;
  // After a cancel the job is in another phase, which has not run yet.
  const ran = row.phase === hold.phase ? elapsedMs : null;
  await writeMove(tx, row, moveOf(standingOf(row), { kind: "release" }), ran);
  return true;
}

/** Locks a job if the claim still holds; a cancel may have changed its phase. */
function lockHeld(
  tx: Transaction,
  { job_uuid, runner_id, lease, life = null }: Hold & { readonly life?: string | null | undefined },
): Promise<SharedStateRow | undefined> {
  return tx.row<SharedStateRow>(
    `SELECT ${STATE_COLUMNS} FROM jobs
      WHERE uuid = $1 AND runner_id = $2 AND lease = $3 AND ${isLatest("$4")} FOR UPDATE`,
    job_uuid,
    runner_id,
    lease,
    life,
  );
}

/**
 * Cancels an unfinished job; its runner, or the next one, continues with the oncancel chain.
 * @param own the runner of this agent, which aborts the task immediately
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
 * Records the result of the waiting task, and queues the job again or fails it. A call that is repeated with the same
 * id does not end a later wait.
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
 * Applies an event that a caller requests, or returns why it is denied.
 * @param also further writes about the job as it was read; returns the error of a failed task
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
  // From here on the runner can write nothing about the interrupted task.
  const ran = ranMs(row, tx.now);
  const error = await also(row);
  await writeMove(tx, row, decision, ran, error);
  if (row.runner_id !== null) tx.notify(canceledNotice(uuid));
  if (decision.ends) await insertCallback(tx, row, row.queue);
  const held = event.kind === "cancel" && event.elsewhere && isHeld(decision.to);
  const changed = { uuid, execution: executionOf(decision.to) };
  return await changedOf(tx, held ? { ...changed, held } : changed, showing);
}

/** The outcome of a change: the job's new state, and its text if requested. */
async function changedOf(
  tx: Transaction,
  job: ChangedJob,
  showing: Showing | undefined,
): Promise<ChangeOutcome> {
  const text = showing === undefined ? undefined : await jobText(tx, job.uuid, showing);
  return { kind: "changed", job, ...(text === undefined ? {} : { text }) };
}
