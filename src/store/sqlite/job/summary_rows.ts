// Job summaries as rows: columns of the job and a few related values. Every related lookup reads one row, or
// up to a named limit.

import type { JobSummary } from "../../../domain/job/summary.ts";
import type { JsonObject } from "../../../domain/json.ts";
import {
  PROGRESS_BYTES_MAX,
  PROGRESS_LINES_MAX,
  runningTask,
  SUMMARY_PARAMS_BYTES_MAX,
  summaryFromRow,
  type SummaryRow,
} from "../../summary_rows.ts";
import type { Connection } from "../connection.ts";
import { ownHost } from "../host_rows.ts";
import { definitionOf } from "./rows.ts";

const COLUMNS = `j.id, j.definition_id, j.uuid, j.workflow_uuid, j.execution, j.phase,
  j.claimable_at, j.target, j.created_at, j.started_at, j.finished_at, j.elapsed_ms, j.phases_ms,
  j.elapsed_at, j.failures, j.retry_at, j.runner_id, j.starts, j.error,
  (SELECT count(*) FROM task_results WHERE job_id = j.id AND phase = 'chain') AS chain_ended,
  (SELECT count(*) FROM task_results WHERE job_id = j.id AND phase = j.phase) AS phase_ended,
  octet_length(j.params) AS params_bytes,
  CASE WHEN octet_length(j.params) <= ${SUMMARY_PARAMS_BYTES_MAX} THEN j.params END AS params,
  j.props -> '$.secret_params' AS secrets, j.props -> '$.placement' AS placement,
  j.props ->> '$.prev_attempt' AS prev_attempt, j.props ->> '$.next_attempt' AS next_attempt`;

/** The name of its machine, from this job or from the first one with its target. */
const ALIAS = `CASE WHEN j.target GLOB '/machines/*' THEN coalesce(
    CASE WHEN octet_length(j.params) <= ${SUMMARY_PARAMS_BYTES_MAX}
      THEN j.params ->> '$.machine.alias' END,
    (SELECT CASE WHEN octet_length(p.params) <= ${SUMMARY_PARAMS_BYTES_MAX}
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
  return new Map(rows.map((row) => {
    const definition = definitionOf(db, row.definition_id);
    const task = runningTask(row, definition);
    const progress = task === null ? null : selectProgress(db, row.id, task.name);
    return [row.id, summaryFromRow(row, definition, progress, ownHost(db))];
  }));
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
