// A job as a row, and back. The results of all phases come along as one column, so that a list of
// jobs is one statement.

import type { JobUuid, RunnerId, WorkflowUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { Job, Phase, TaskResult } from "../../domain/job.ts";
import type { Execution } from "../../domain/job_state.ts";
import type { JsonObject } from "../../domain/json.ts";
import type { Task } from "../../domain/workflow.ts";

/** The columns of a job, for SELECT and RETURNING on `jobs`. */
export const JOB_COLUMNS = `
  uuid, workflow_uuid, name, execution, phase, chain, onerror, oncancel, timeout, exec_after,
  target, params, props, created_at, started_at, finished_at, elapsed_ms, runner_id, starts,
  (SELECT json_group_array(json_array(phase, json(entry)))
     FROM (SELECT phase, entry FROM task_results WHERE job_id = jobs.id
            ORDER BY phase, position)) AS results`;

/** What a statement with JOB_COLUMNS answers; the schema's CHECKs make the unions true. */
export interface JobRow {
  readonly uuid: JobUuid;
  readonly workflow_uuid: WorkflowUuid;
  readonly name: string;
  readonly execution: Execution;
  readonly phase: Phase;
  readonly chain: string;
  readonly onerror: string;
  readonly oncancel: string;
  readonly timeout: number;
  readonly exec_after: Instant;
  readonly target: string | null;
  readonly params: string;
  readonly props: string;
  readonly created_at: Instant;
  readonly started_at: Instant | null;
  readonly finished_at: Instant | null;
  readonly elapsed_ms: number;
  readonly runner_id: RunnerId | null;
  readonly starts: number;
  readonly results: string;
}

export function jobFromRow(row: JobRow): Job {
  const { results, ...columns } = row;
  // Texts of JSON columns were made by this store from values of these types.
  const entries = JSON.parse(results) as [Phase, TaskResult][];
  const resultsOf = (phase: Phase) =>
    entries.filter(([of]) => of === phase).map(([, entry]) => entry);
  return {
    ...columns,
    chain: JSON.parse(row.chain) as Task[],
    onerror: JSON.parse(row.onerror) as Task[],
    oncancel: JSON.parse(row.oncancel) as Task[],
    params: JSON.parse(row.params) as JsonObject,
    props: JSON.parse(row.props) as JsonObject,
    chain_results: resultsOf("chain"),
    onerror_results: resultsOf("onerror"),
    oncancel_results: resultsOf("oncancel"),
  };
}
