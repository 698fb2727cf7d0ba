// Lists of job summaries, newest first, and the number of jobs in them. Conditions without an index are checked job by
// job, in parts that yield to the event loop, up to a number of jobs and bytes. At that limit the page ends early, and
// the next page continues after the last examined job; a count reports whether it examined all jobs.

import type { JobUuid } from "../../../domain/id.ts";
import { type Execution, EXECUTIONS } from "../../../domain/job/state.ts";
import type { JobSummary, SummaryFilter, SummaryPlace } from "../../../domain/job/summary.ts";
import type { SummaryCounts, SummaryPage, SummaryPart } from "../../job_store.ts";
import { SUMMARIES_LOOKED_AT_MAX, yieldTurn } from "../../limits.ts";
import {
  PROGRESS_BYTES_MAX,
  PROGRESS_LINES_MAX,
  runningTask,
  SUMMARY_PARAMS_BYTES_MAX,
  summaryFromRow,
  type SummaryRow,
} from "../../summary_rows.ts";
import type { Connection } from "../connection.ts";
import { isOtherHost, ownHost } from "../host_rows.ts";
import { lookAt, PART_BYTES, walkOf } from "./summary_walk.ts";
import type { JsonObject } from "../../../domain/json.ts";
import { definitionOf } from "./rows.ts";

/** Jobs that are examined in one part, without yielding. */
const PART_JOBS = 250;
/** Bytes of params that are searched for one page. */
const PAGE_BYTES = 32 * PART_BYTES;

/** A page of summaries, and where the next one begins. */
export async function listSummaries(
  db: Connection,
  filter: SummaryFilter,
  { limit, after }: SummaryPage,
): Promise<SummaryPart> {
  if (isOtherHost(db, filter.host)) return { summaries: [] };
  const walk = await db.durably(() => walkOf(db, filter, after?.order));
  const found: number[] = [];
  let place = after;
  let jobs = 0;
  let bytes = 0;
  for (;;) {
    const part = lookAt(db, walk, {
      place,
      jobs: Math.min(SUMMARIES_LOOKED_AT_MAX - jobs, PART_JOBS),
      found: limit - found.length,
    });
    found.push(...part.found);
    place = part.place ?? place;
    jobs += part.jobs;
    bytes += part.bytes;
    if (
      part.last || found.length >= limit || jobs >= SUMMARIES_LOOKED_AT_MAX || bytes >= PAGE_BYTES
    ) {
      const next = part.last ? undefined : place;
      const summaries = await db.durably(() => selectSummaries(db, found));
      return { summaries, ...(next === undefined ? {} : { next }) };
    }
    await yieldTurn();
  }
}

/** Reads one summary; undefined when the job does not exist. */
export function selectSummary(db: Connection, uuid: JobUuid): JobSummary | undefined {
  const row = db.row<{ id: number }>("SELECT id FROM jobs WHERE uuid = ?", uuid);
  return row === undefined ? undefined : selectSummaries(db, [row.id])[0];
}

/** Counts the matching jobs by execution, in parts that yield to other work. */
export async function countSummaries(
  db: Connection,
  filter: SummaryFilter,
): Promise<SummaryCounts> {
  const walk = await db.durably(() => walkOf(db, filter, undefined));
  const counts = new Map<Execution, number>(EXECUTIONS.map((execution) => [execution, 0]));
  if (isOtherHost(db, filter.host)) return { counts, whole: true };
  let place: SummaryPlace | undefined;
  let jobs = 0;
  let bytes = 0;
  for (;;) {
    const left = Math.min(SUMMARIES_LOOKED_AT_MAX - jobs, PART_JOBS);
    const part = lookAt(db, walk, { place, jobs: left, found: left });
    for (const { execution, count } of executionsOf(db, part.found)) {
      counts.set(execution, (counts.get(execution) ?? 0) + count);
    }
    place = part.place ?? place;
    jobs += part.jobs;
    bytes += part.bytes;
    if (part.last || jobs >= SUMMARIES_LOOKED_AT_MAX || bytes >= PAGE_BYTES) {
      return { counts, whole: part.last };
    }
    await yieldTurn();
  }
}

function executionsOf(
  db: Connection,
  ids: readonly number[],
): readonly { readonly execution: Execution; readonly count: number }[] {
  return db.rows(
    `SELECT execution, count(*) AS count FROM json_each(?) CROSS JOIN jobs ON jobs.id = value
      GROUP BY execution`,
    JSON.stringify(ids),
  );
}

/**
 * A summary: columns of the job, and a few related values. Each related lookup reads one row, or rows up to a named limit.
 */
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
function selectSummaries(db: Connection, ids: readonly number[]): JobSummary[] {
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
    return [
      row.id,
      summaryFromRow(row, definition, { progress, host: ownHost(db), read_at: null }),
    ];
  }));
}

/** The latest progress report of the task, if it is among the newest lines. */
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
