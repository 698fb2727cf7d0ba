// Summaries of jobs as rows: columns of the job and a few related values. Every related lookup reads one row, or
// up to a named limit.

import type { JobUuid } from "../../../domain/id.ts";
import { type JobSummary, MACHINE_TARGET } from "../../../domain/job/summary.ts";
import { isJsonObject, type JsonObject } from "../../../domain/json.ts";
import {
  PROGRESS_BYTES_MAX,
  PROGRESS_LINES_MAX,
  runningTask,
  SUMMARY_PARAMS_BYTES_MAX,
  summaryFromRow,
  type SummaryRow,
} from "../../summary_rows.ts";
import type { JobHost } from "../../../domain/host.ts";
import type { Transaction } from "../connection.ts";
import { fieldOf, readable, secretsFrom, secretsOf } from "../statements.ts";
import { definitionOf, hostOf, type HostOfJob, hostOfJob } from "./rows.ts";
import type { JobDefinition } from "../../columns.ts";

/** A row, with the params of the first job of its machine. */
type SelectedRow = Omit<SummaryRow, "alias"> & HostOfJob & { readonly first_params: string | null };

const SMALL_PARAMS = (row: string) =>
  `CASE WHEN octet_length(${row}.params) <= ${SUMMARY_PARAMS_BYTES_MAX} THEN ${row}.params END`;

const COLUMNS = `j.id, j.definition_id, j.uuid, j.workflow_uuid, j.execution, j.phase,
  j.claimable_at, j.target, j.created_at, j.started_at, j.finished_at, j.elapsed_ms, j.phases_ms,
  j.elapsed_at, j.failures, j.retry_at, j.runner_id, j.starts, j.error,
  (SELECT count(*) FROM task_results WHERE job_id = j.id AND phase = 'chain') AS chain_ended,
  (SELECT count(*) FROM task_results WHERE job_id = j.id AND phase = j.phase) AS phase_ended,
  octet_length(j.params) AS params_bytes,
  ${SMALL_PARAMS("j")} AS params,
  ${secretsOf("j.props")} AS secrets,
  ${fieldOf("j.props", "placement")} AS placement, ${hostOf("j")},
  ${fieldOf("j.props", "prev_attempt")} AS prev_attempt,
  ${fieldOf("j.props", "next_attempt")} AS next_attempt,
  CASE WHEN starts_with(j.target, '${MACHINE_TARGET}') THEN (
    SELECT ${SMALL_PARAMS("p")} FROM jobs AS p WHERE p.target = j.target ORDER BY p.id LIMIT 1
  ) END AS first_params`;

/** Summaries of these jobs by id, in their order; those that are missing are left out. Ids must be distinct. */
export async function summariesById(
  tx: Transaction,
  ids: readonly number[],
): Promise<ReadonlyMap<number, JobSummary>> {
  const summaries = new Map<number, JobSummary>();
  if (ids.length === 0) return summaries;
  const rows = await tx.rows<SelectedRow>(
    `SELECT ${COLUMNS} FROM unnest($1::bigint[]) WITH ORDINALITY AS listed (id, place)
       JOIN jobs AS j ON j.id = listed.id ORDER BY listed.place`,
    ids,
  );
  const read: {
    readonly row: SummaryRow;
    readonly definition: JobDefinition;
    readonly host: JobHost | undefined;
  }[] = [];
  for (const row of rows) {
    const definition = await definitionOf(tx, row.definition_id);
    read.push({ row: readRow(row), definition, host: hostOfJob(row, tx.now) });
  }
  const progress = await selectProgress(
    tx,
    read.flatMap(({ row, definition }) => {
      const task = runningTask(row, definition);
      return task === null ? [] : [{ id: row.id, task: task.name }];
    }),
  );
  for (const { row, definition, host } of read) {
    summaries.set(row.id, summaryFromRow(row, definition, progress.get(row.id) ?? null, host));
  }
  return summaries;
}

function readRow({ first_params, host_facts: _, ...row }: SelectedRow): SummaryRow {
  const isOfMachine = row.target?.startsWith(MACHINE_TARGET) === true;
  const alias = isOfMachine ? aliasIn(row.params) ?? aliasIn(first_params) : null;
  return {
    ...row,
    secrets: secretsFrom(row.secrets),
    prev_attempt: uuidFrom(row.prev_attempt),
    next_attempt: uuidFrom(row.next_attempt),
    alias: alias ?? null,
  };
}

/** The name of the machine that a job makes, by its params. */
function aliasIn(params: string | null): string | undefined {
  if (params === null || !params.includes('"alias"')) return undefined;
  const { machine } = JSON.parse(params) as JsonObject;
  const alias = isJsonObject(machine) ? machine.alias : undefined;
  return typeof alias === "string" ? alias : undefined;
}

/** The uuid in the JSON of a field. */
function uuidFrom(json: string | null): JobUuid | null {
  // The field was made by this store from a uuid.
  return json === null ? null : JSON.parse(json) as JobUuid | null;
}

/** The latest progress reports of the present tasks of jobs, if recent. */
async function selectProgress(
  tx: Transaction,
  tasks: readonly { readonly id: number; readonly task: string }[],
): Promise<ReadonlyMap<number, JsonObject>> {
  if (tasks.length === 0) return new Map();
  const rows = await tx.rows<{ id: number; progress: string }>(
    `SELECT listed.id, latest.progress
       FROM unnest($1::bigint[], $2::text[]) AS listed (id, task) CROSS JOIN LATERAL (
         SELECT progress FROM (
           SELECT seq, ${fieldOf("entry", "task")} AS task,
                  ${fieldOf("entry", "progress")} AS progress
             FROM (SELECT seq, entry FROM job_log WHERE job_id = listed.id
                    ORDER BY seq DESC LIMIT ${PROGRESS_LINES_MAX}) AS newest) AS lines
          WHERE lines.task = listed.task AND starts_with(progress, '{')
          ORDER BY seq DESC LIMIT 1) AS latest
      WHERE octet_length(latest.progress) <= ${PROGRESS_BYTES_MAX}`,
    tasks.map(({ id }) => id),
    tasks.map(({ task }) => readable(JSON.stringify(task))),
  );
  // The text was made by this store from an object.
  return new Map(rows.map(({ id, progress }) => [id, JSON.parse(progress) as JsonObject]));
}
