// A job as a row, and back. The results of its tasks are rows of their own; the job's copy of its
// workflow is read once for all jobs that share it.

import type { JobUuid, RunnerId, WorkflowUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { Job, Phase } from "../../../domain/job/job.ts";
import type { Execution } from "../../../domain/job/state.ts";
import type { JsonObject } from "../../../domain/json.ts";
import type { Connection } from "../connection.ts";
import { definitionOf } from "./definitions.ts";
import { selectResults } from "./task_results.ts";

/** The columns of a job, for SELECT and RETURNING on `jobs`. */
export const JOB_COLUMNS = `
  id, uuid, workflow_uuid, definition_id, execution, phase, exec_after, claimable_at, target, locks,
  callback_url, params, props, created_at, started_at, finished_at, elapsed_ms, phases_ms, runner_id, lease,
  starts`;

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
  readonly params: string;
  readonly props: string;
  readonly created_at: Instant;
  readonly started_at: Instant | null;
  readonly finished_at: Instant | null;
  readonly elapsed_ms: number;
  readonly phases_ms: number;
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
  return {
    ...columns,
    ...definitionOf(db, definition_id),
    // Texts of JSON columns were made by this store from values of these types.
    params: JSON.parse(row.params) as JsonObject,
    props: JSON.parse(row.props) as JsonObject,
    chain_results: resultsOf("chain"),
    onerror_results: resultsOf("onerror"),
    oncancel_results: resultsOf("oncancel"),
  };
}
