// A job as a row, and back. The results of its tasks are rows of their own; the job's copy of its
// workflow is read once for all jobs that share it.

import type { JobUuid, MachineUuid, RunnerId, WorkflowUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import { type Job, secretNames, type TaskResult, timeoutOf } from "../../../domain/job/job.ts";
import type { Execution, Phase } from "../../../domain/job/state.ts";
import type { JsonObject } from "../../../domain/json.ts";
import type { Connection } from "../connection.ts";
import type { Task, Workflow } from "../../../domain/job/workflow.ts";

/** The columns of a job, for SELECT and RETURNING on `jobs`. */
export const JOB_COLUMNS = `
  id, uuid, workflow_uuid, definition_id, execution, phase, exec_after, claimable_at, target, locks,
  callback_url, machine_uuid, params, props, requested_params, created_at, started_at, finished_at,
  elapsed_ms, phases_ms, elapsed_at, failures, retry_at, runner_id, lease, starts`;

/** What a statement with JOB_COLUMNS answers; the schema's CHECKs make the unions true. */
export interface JobRow {
  readonly id: number;
  readonly uuid: JobUuid;
  readonly workflow_uuid: WorkflowUuid;
  readonly definition_id: number;
  readonly execution: Execution;
  readonly phase: Phase;
  readonly exec_after: Instant;
  readonly claimable_at: Instant | null;
  readonly target: string | null;
  readonly locks: string | null;
  readonly callback_url: string | null;
  readonly machine_uuid: MachineUuid | null;
  readonly params: string;
  readonly props: string;
  readonly requested_params: string | null;
  readonly created_at: Instant;
  readonly started_at: Instant | null;
  readonly finished_at: Instant | null;
  readonly elapsed_ms: number;
  readonly phases_ms: number;
  readonly elapsed_at: Instant | null;
  readonly failures: number;
  readonly retry_at: Instant | null;
  readonly runner_id: RunnerId | null;
  readonly lease: number;
  readonly starts: number;
}

/** The job that a row stands for. */
export function jobFromRow(db: Connection, row: JobRow): Job {
  const { id, definition_id, ...columns } = row;
  const results = selectResults(db, id);
  const resultsOf = (phase: Phase) =>
    results.filter((result) => result.phase === phase).map(({ entry }) => entry);
  // Texts of JSON columns were made by this store from values of these types.
  const params = JSON.parse(row.params) as JsonObject;
  return {
    ...columns,
    ...definitionOf(db, definition_id),
    params,
    requested_params: row.requested_params === null
      ? params
      : JSON.parse(row.requested_params) as JsonObject,
    props: JSON.parse(row.props) as JsonObject,
    chain_results: resultsOf("chain"),
    onerror_results: resultsOf("onerror"),
    oncancel_results: resultsOf("oncancel"),
  };
}

// What a job keeps of its workflow, as it was when the job was made. Jobs of an unchanged workflow
// share one row, so that a job costs its own data only. Rows never change and their ids are never
// used again: what was read of one is kept.

/** What a job keeps of its workflow. */
export interface JobDefinition {
  readonly name: string;
  readonly chain: readonly Task[];
  readonly onerror: readonly Task[];
  readonly oncancel: readonly Task[];
  readonly timeout: number;
}

interface DefinitionRow {
  readonly name: string;
  readonly chars: number;
  readonly chain: string;
  readonly onerror: string;
  readonly oncancel: string;
  readonly timeout: number;
}

/** The names that the workflow of a job called secret when the job was made. */
export function secretNamesOf(db: Connection, id: number): ReadonlySet<string> {
  const row = db.row<{ props: string }>("SELECT props FROM jobs WHERE id = ?", id);
  return secretNames(row === undefined ? {} : JSON.parse(row.props) as JsonObject);
}

/** The definition of a job. */
export function definitionOf(db: Connection, id: number): JobDefinition {
  return db.kept("definition", id, () => {
    const row = db.row<DefinitionRow>(
      "SELECT name, chars, chain, onerror, oncancel, timeout FROM definitions WHERE id = ?",
      id,
    );
    if (row === undefined) throw new Error(`Cannot read definition ${id}: its row is missing`);
    // The texts were made by this store from tasks.
    const value = {
      name: row.name,
      chain: JSON.parse(row.chain) as Task[],
      onerror: JSON.parse(row.onerror) as Task[],
      oncancel: JSON.parse(row.oncancel) as Task[],
      timeout: row.timeout,
    };
    return { value, chars: row.chars };
  });
}

/** What a new job of a workflow keeps of it: what the row of `definitionFor()` holds. */
export function definitionAt(workflow: Workflow): JobDefinition {
  const { name, chain, onerror, oncancel = [] } = workflow;
  return { name, chain, onerror, oncancel, timeout: timeoutOf(workflow) };
}

/** The row of the workflow as it is: the one of an earlier job, or a new one. */
export function definitionFor(db: Connection, workflow: Workflow): number {
  const [chain, onerror, oncancel] = [workflow.chain, workflow.onerror, workflow.oncancel ?? []]
    .map((tasks) => JSON.stringify(tasks)) as [string, string, string];
  const columns: Columns = [
    workflow.uuid,
    workflow.name,
    chain.length + onerror.length + oncancel.length,
    chain,
    onerror,
    oncancel,
    timeoutOf(workflow),
  ];
  return findDefinition(db, columns) ?? insertDefinition(db, columns);
}

type Columns = readonly [WorkflowUuid, string, number, string, string, string, number];

function findDefinition(db: Connection, columns: Columns): number | undefined {
  const row = db.row<{ id: number }>(
    `SELECT id FROM definitions
      WHERE workflow_uuid = ?1 AND chars = ?3 AND name = ?2 AND chain = ?4 AND onerror = ?5
        AND oncancel = ?6 AND timeout = ?7
      ORDER BY id DESC LIMIT 1`,
    ...columns,
  );
  return row?.id;
}

function insertDefinition(db: Connection, columns: Columns): number {
  const row = db.row<{ id: number }>(
    `INSERT INTO definitions (workflow_uuid, name, chars, chain, onerror, oncancel, timeout)
     VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id`,
    ...columns,
  );
  if (row === undefined) throw new Error(`Cannot write a definition of ${columns[0]}: no row came`);
  return row.id;
}

/** Removes those of the definitions that no job has any more. */
export function deleteUnusedDefinitions(db: Connection, ids: Iterable<number>): void {
  for (const id of ids) {
    db.run(
      `DELETE FROM definitions
        WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE definition_id = ?1)`,
      id,
    );
  }
}

// The results of tasks: rows that are written once, but for the result of a task that waited.

/** The results of a job, in the order of each phase. */
function selectResults(
  db: Connection,
  id: number,
): { readonly phase: Phase; readonly entry: TaskResult }[] {
  const rows = db.rows<{ phase: Phase; entry: string }>(
    "SELECT phase, entry FROM task_results WHERE job_id = ? ORDER BY phase, position",
    id,
  );
  // The text was made by this store from a result.
  return rows.map(({ phase, entry }) => ({ phase, entry: JSON.parse(entry) as TaskResult }));
}

/** Adds a result behind those that the phase has, which are as many as `position` says. */
export function insertResult(
  db: Connection,
  id: number,
  phase: Phase,
  position: number,
  entry: TaskResult,
): void {
  db.run(
    "INSERT INTO task_results (job_id, phase, position, entry) VALUES (?, ?, ?, ?)",
    id,
    phase,
    position,
    JSON.stringify(entry),
  );
}

/** Whether this is the result at a position. */
export function isEntry(
  db: Connection,
  id: number,
  phase: Phase,
  position: number,
  entry: TaskResult,
): boolean {
  return db.row(
    "SELECT 1 FROM task_results WHERE job_id = ? AND phase = ? AND position = ? AND entry = ?",
    id,
    phase,
    position,
    JSON.stringify(entry),
  ) !== undefined;
}

/** Whether a call has ended a wait of the job. */
export function isResumedBy(db: Connection, id: number, call: string): boolean {
  return db.row(
    "SELECT 1 FROM task_results WHERE job_id = ? AND resumed_by = ?",
    id,
    call,
  ) !== undefined;
}

/** Writes what became of the task that set its job to waiting. */
export function updateWaitingResult(
  db: Connection,
  id: number,
  phase: Phase,
  outcome: Pick<TaskResult, "result" | "error" | "finished_at">,
  call: string | null,
): void {
  db.run(
    `UPDATE task_results
        SET resumed_by = ?6, entry = json_set(entry, '$.result', json(?3), '$.error', json(?4),
                             '$.finished_at', ?5)
      WHERE job_id = ?1 AND phase = ?2
        AND position = (SELECT max(position) FROM task_results WHERE job_id = ?1 AND phase = ?2)`,
    id,
    phase,
    JSON.stringify(outcome.result),
    JSON.stringify(outcome.error),
    outcome.finished_at,
    call,
  );
}
