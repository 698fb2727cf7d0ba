// Job summaries as rows: columns of the job and a few related values. Every related lookup reads one row, or
// up to a named limit.

import type { JobUuid } from "../../../domain/id.ts";
import type { Phase } from "../../../domain/job/state.ts";
import type { JobSummary, SummaryTask } from "../../../domain/job/summary.ts";
import { taskName } from "../../../domain/job/workflow.ts";
import type { JsonObject } from "../../../domain/json.ts";
import type { Connection } from "../connection.ts";
import { definitionOf, type JobDefinition } from "./rows.ts";

/** Bytes of params that a summary holds. */
const PARAMS_BYTES_MAX = 4096;
/** Bytes of progress that a summary holds: a page of events has one of each. */
const PROGRESS_BYTES_MAX = 4096;
/** Newest log lines searched for the latest progress. */
const PROGRESS_LINES_MAX = 20;

/** Columns that are not plain columns of the job. */
type SummaryRow =
  & Omit<
    JobSummary,
    "name" | "task" | "tasks_done" | "tasks_total" | "progress" | "params" | "secrets"
  >
  & {
    readonly id: number;
    readonly definition_id: number;
    readonly phase: Phase;
    /** Finished tasks of the chain and of the current phase. */
    readonly chain_ended: number;
    readonly phase_ended: number;
    readonly params: string | null;
    readonly secrets: string | null;
  };

const COLUMNS = `j.id, j.definition_id, j.uuid, j.workflow_uuid, j.execution, j.phase,
  j.claimable_at, j.target, j.created_at, j.started_at, j.finished_at, j.elapsed_ms, j.phases_ms,
  j.elapsed_at, j.failures, j.retry_at, j.runner_id, j.starts, j.error,
  (SELECT count(*) FROM task_results WHERE job_id = j.id AND phase = 'chain') AS chain_ended,
  (SELECT count(*) FROM task_results WHERE job_id = j.id AND phase = j.phase) AS phase_ended,
  octet_length(j.params) AS params_bytes,
  CASE WHEN octet_length(j.params) <= ${PARAMS_BYTES_MAX} THEN j.params END AS params,
  j.props -> '$.secret_params' AS secrets,
  j.props ->> '$.prev_attempt' AS prev_attempt, j.props ->> '$.next_attempt' AS next_attempt`;

/** The name of its machine, from this job or from the first one with its target. */
const ALIAS = `CASE WHEN j.target GLOB '/machines/*' THEN coalesce(
    CASE WHEN octet_length(j.params) <= ${PARAMS_BYTES_MAX}
      THEN j.params ->> '$.machine.alias' END,
    (SELECT CASE WHEN octet_length(p.params) <= ${PARAMS_BYTES_MAX}
        THEN p.params ->> '$.machine.alias' END
      FROM jobs AS p WHERE p.target = j.target ORDER BY p.id LIMIT 1)) END`;

/** Summaries of these jobs, in order; jobs removed in the meantime are left out. */
export function selectSummaries(db: Connection, ids: readonly number[]): JobSummary[] {
  return [...summariesById(db, ids).values()];
}

/** The same by id; ids must be distinct. */
export function summariesById(
  db: Connection,
  ids: readonly number[],
): ReadonlyMap<number, JobSummary> {
  const rows = db.rows<SummaryRow>(
    `SELECT ${COLUMNS}, ${ALIAS} AS alias
       FROM json_each(?) AS listed CROSS JOIN jobs AS j ON j.id = listed.value`,
    JSON.stringify(ids),
  );
  return new Map(rows.map((row) => [row.id, summaryFromRow(db, row)]));
}

function summaryFromRow(db: Connection, row: SummaryRow): JobSummary {
  const { id, definition_id, phase: _phase, chain_ended, phase_ended: _ended, ...columns } = row;
  const definition = definitionOf(db, definition_id);
  const task = taskOf(row, definition);
  const runs = row.runner_id !== null;
  return {
    ...columns,
    name: definition.name,
    task,
    // The task that waits has an entry already; it ends with its resume.
    tasks_done: chain_ended - Number(row.execution === "waiting" && row.phase === "chain"),
    tasks_total: definition.chain.length,
    progress: runs && task !== null ? selectProgress(db, id, task.name) : null,
    // The texts were made by this store from values of these types.
    params: row.params === null ? null : JSON.parse(row.params) as JsonObject,
    secrets: row.secrets === null ? [] : JSON.parse(row.secrets) as string[],
    alias: typeof row.alias === "string" ? row.alias : null,
    prev_attempt: row.prev_attempt as JobUuid | null,
    next_attempt: row.next_attempt as JobUuid | null,
  };
}

/** The task that runs, the one that waits, or the one of the chain that failed. */
function taskOf(row: SummaryRow, definition: JobDefinition): SummaryTask | null {
  const { execution, phase, phase_ended, chain_ended, runner_id } = row;
  const named = (phase: Phase, index: number): SummaryTask | null => {
    const task = definition[phase][index];
    return task === undefined ? null : { name: taskName(task), phase, index };
  };
  if (runner_id !== null) return named(phase, phase_ended);
  if (execution === "waiting") return named(phase, phase_ended - 1);
  return execution === "failed" ? named("chain", chain_ended - 1) : null;
}

/** The latest progress report of the task, if recent. */
function selectProgress(db: Connection, id: number, task: string): JsonObject | null {
  const row = db.row<{ progress: string | null }>(
    `SELECT CASE WHEN octet_length(entry -> '$.progress') <= ${PROGRESS_BYTES_MAX}
        THEN entry -> '$.progress' END AS progress FROM (
       SELECT entry FROM job_log WHERE job_id = ? ORDER BY seq DESC LIMIT ${PROGRESS_LINES_MAX})
      WHERE entry ->> '$.task' = ? AND json_type(entry, '$.progress') = 'object' LIMIT 1`,
    id,
    task,
  );
  // The text was made by this store from an object.
  return typeof row?.progress === "string" ? JSON.parse(row.progress) as JsonObject : null;
}
