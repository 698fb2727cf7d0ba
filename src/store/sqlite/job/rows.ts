// Converts between jobs and rows. Results of tasks are rows of their own, written once, except for the result of a waiting
// task; a job's copy of its workflow is read once for all jobs that share it.

import type { JobUuid, WorkflowUuid } from "../../../domain/id.ts";
import { type Job, secretNames, type TaskResult, timeoutOf } from "../../../domain/job/job.ts";
import type { Phase } from "../../../domain/job/state.ts";
import type { JsonObject } from "../../../domain/json.ts";
import type { Connection } from "../connection.ts";
import { ownHost } from "../host_rows.ts";
import type { Task, Workflow } from "../../../domain/job/workflow.ts";
import type { JobDefinition, JobRow } from "../../sql.ts";

/** Facts about a job that its row does not contain. */
interface KnownOfJob {
  /** Columns as a claim will write them. */
  readonly claim?: Pick<
    Job,
    | "execution"
    | "runner_id"
    | "lease"
    | "claimable_at"
    | "starts"
    | "started_at"
    | "elapsed_at"
  >;
  /** Whether no task of the job has a result. */
  readonly fresh?: boolean;
}

/**
 * Parses a row into a job. Every field is named: a row has the form of a dictionary, and each copy of a
 * dictionary by `...` takes as long as its statement.
 */
export function jobFromRow(
  db: Connection,
  row: JobRow,
  { claim = row, fresh = false }: KnownOfJob = {},
): Job {
  const results = fresh ? [] : selectResults(db, row.id);
  const resultsOf = (phase: Phase) =>
    results.filter((result) => result.phase === phase).map(({ entry }) => entry);
  const { name, chain, onerror, oncancel, timeout } = definitionOf(db, row.definition_id);
  // This store made the texts of JSON columns from values of these types.
  const params = JSON.parse(row.params) as JsonObject;
  return {
    uuid: row.uuid,
    workflow_uuid: row.workflow_uuid,
    name,
    execution: claim.execution,
    phase: row.phase,
    chain,
    onerror,
    oncancel,
    timeout,
    exec_after: row.exec_after,
    claimable_at: claim.claimable_at,
    target: row.target,
    locks: row.locks,
    callback_url: row.callback_url,
    machine_uuid: row.machine_uuid,
    host: ownHost(db)?.uuid ?? null,
    params,
    requested_params: row.requested_params === null
      ? params
      : JSON.parse(row.requested_params) as JsonObject,
    props: JSON.parse(row.props) as JsonObject,
    chain_results: resultsOf("chain"),
    onerror_results: resultsOf("onerror"),
    oncancel_results: resultsOf("oncancel"),
    created_at: row.created_at,
    started_at: claim.started_at,
    finished_at: row.finished_at,
    elapsed_ms: row.elapsed_ms,
    phases_ms: row.phases_ms,
    elapsed_at: claim.elapsed_at,
    failures: row.failures,
    retry_at: row.retry_at,
    runner_id: claim.runner_id,
    lease: claim.lease,
    starts: claim.starts,
  };
}

interface DefinitionRow {
  readonly name: string;
  readonly chars: number;
  readonly chain: string;
  readonly onerror: string;
  readonly oncancel: string;
  readonly timeout: number;
}

/** A job whose log is read, with the names of its secrets as a JSON list. */
interface JobOfLog {
  readonly id: number;
  readonly secrets: string | null;
}

/** The job of a log or an info list; undefined when it is missing. */
export function selectJobOfLog(db: Connection, uuid: JobUuid): JobOfLog | undefined {
  return db.row<JobOfLog>(
    "SELECT id, props -> '$.secret_params' AS secrets FROM jobs WHERE uuid = ?",
    uuid,
  );
}

/** The secret names of a job's workflow at the time of the job's creation. */
export function secretNamesOf(db: Connection, id: number): ReadonlySet<string> {
  const row = db.row<{ props: string }>("SELECT props FROM jobs WHERE id = ?", id);
  return secretNames(row === undefined ? {} : JSON.parse(row.props) as JsonObject);
}

const CACHED_DEFINITION = "definition";

/** The definition of a job, if a job of it was read lately. */
export function keptDefinition(db: Connection, id: number): JobDefinition | undefined {
  return db.keptAlready(CACHED_DEFINITION, id);
}

/**
 * The definition of a job: its workflow as of the job's creation. Jobs of an unchanged workflow share one row, so a job
 * costs only its own data. Rows never change and ids are never reused, so definitions are cached.
 */
export function definitionOf(db: Connection, id: number): JobDefinition {
  return db.cached(CACHED_DEFINITION, id, () => {
    const row = selectDefinition(db, id);
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

function selectDefinition(db: Connection, id: number): DefinitionRow | undefined {
  return db.row<DefinitionRow>(
    "SELECT name, chars, chain, onerror, oncancel, timeout FROM definitions WHERE id = ?",
    id,
  );
}

/** The definition for a new job of a workflow: the contents of the row of `definitionFor()`. */
export function definitionAt(workflow: Workflow): JobDefinition {
  const { name, chain, onerror, oncancel = [] } = workflow;
  return { name, chain, onerror, oncancel, timeout: timeoutOf(workflow) };
}

/** Cache key of the row of a workflow. */
const CURRENT_DEFINITION = "definition of";

/** The row of the current workflow: that of an earlier job, or a new one. */
export function definitionFor(db: Connection, workflow: Workflow): number {
  const current = () =>
    db.cached(CURRENT_DEFINITION, workflow.uuid, () => {
      const columns = columnsOf(workflow);
      const id = findDefinition(db, columns) ?? insertDefinition(db, columns);
      return { value: { workflow, id }, chars: columns[2] };
    });
  const found = current();
  if (found.workflow === workflow) return found.id;
  // The row was cached before the workflow changed.
  db.forget(CURRENT_DEFINITION, workflow.uuid);
  return current().id;
}

function columnsOf(workflow: Workflow): Columns {
  const [chain, onerror, oncancel] = [workflow.chain, workflow.onerror, workflow.oncancel ?? []]
    .map((tasks) => JSON.stringify(tasks)) as [string, string, string];
  return [
    workflow.uuid,
    workflow.name,
    chain.length + onerror.length + oncancel.length,
    chain,
    onerror,
    oncancel,
    timeoutOf(workflow),
  ];
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
  if (row === undefined) {
    throw new Error(`Cannot write a definition of ${columns[0]}: the database returned no row`);
  }
  return row.id;
}

/** Removes the definitions that no job uses any more. */
export function deleteUnusedDefinitions(db: Connection, ids: Iterable<number>): void {
  for (const id of ids) {
    const removed = deleteIfUnused(db, id);
    if (removed !== undefined) db.forget(CURRENT_DEFINITION, removed.workflow_uuid);
  }
}

function deleteIfUnused(
  db: Connection,
  id: number,
): { workflow_uuid: WorkflowUuid } | undefined {
  return db.row(
    `DELETE FROM definitions
      WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE definition_id = ?1)
     RETURNING workflow_uuid`,
    id,
  );
}

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

/** Appends a result to a phase that has `position` results. */
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

/** Whether a call with this id has ended a wait of the job. */
export function isResumedBy(db: Connection, id: number, call: string): boolean {
  return db.row(
    "SELECT 1 FROM task_results WHERE job_id = ? AND resumed_by = ?",
    id,
    call,
  ) !== undefined;
}

/**
 * Writes the result of the task for which a job waits.
 * @throws {Error} when the task has no entry
 */
export function updateWaitingResult(
  db: Connection,
  id: number,
  phase: Phase,
  outcome: Pick<TaskResult, "result" | "error" | "finished_at">,
  call: string | null,
): void {
  const written = db.run(
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
  if (written !== 1) throw new Error(`Cannot resume job ${id}: its waiting task has no entry`);
}
