// Lists of job summaries, newest first, and the number of jobs in them. Conditions that an index can answer select the
// jobs to examine, up to a number of jobs and bytes; params and texts, which no index covers, are searched in those. At
// that limit the page ends early, and the next page continues after the last examined job; a count reports whether it
// examined all jobs.

import type { JobUuid } from "../../../domain/id.ts";
import { type Execution, EXECUTIONS } from "../../../domain/job/state.ts";
import {
  type JobSummary,
  MACHINE_TARGET,
  machineTarget,
  type SummaryFilter,
  type SummaryPlace,
} from "../../../domain/job/summary.ts";
import type { SummaryCounts, SummaryPage, SummaryPart } from "../../job_store.ts";
import type { JobDefinition } from "../../sql.ts";
import { DEFINITIONS_MAX, SUMMARIES_LOOKED_AT_MAX } from "../../limits.ts";
import {
  folded,
  PROGRESS_BYTES_MAX,
  PROGRESS_LINES_MAX,
  runningTask,
  SUMMARY_PARAMS_BYTES_MAX,
  summaryFromRow,
  type SummaryRow,
} from "../../summary_rows.ts";
import type { Transaction } from "../connection.ts";
import {
  fieldOf,
  isText,
  readable,
  secretsFrom,
  secretsOf,
  uuidBegins,
  Values,
} from "../statements.ts";
import { conditionsOf } from "./lists.ts";
import { isJsonObject, type JsonObject } from "../../../domain/json.ts";
import type { JobHost } from "../../../domain/host.ts";
import { definitionOf, hostOf, type HostOfJob, hostOfJob } from "./rows.ts";

/** Bytes of params that are searched for one page. */
const SEARCHED_BYTES_MAX = 32 * 1024 * 1024;

/** A page of summaries, and where the next page begins. */
export async function listSummaries(
  tx: Transaction,
  filter: SummaryFilter,
  { limit, after }: SummaryPage,
): Promise<SummaryPart> {
  const order = after?.order ?? orderOf(filter);
  const values = new Values();
  const { looked, checks } = await walkOf(tx, filter, order, after, values);
  const found = await tx.rows<FoundRow>(
    `SELECT id, at FROM (${looked}) AS looked WHERE ${checks()}
      ORDER BY at DESC, id DESC LIMIT ${values.add(limit + 1)}`,
    ...values.all,
  );
  const page = found.slice(0, limit);
  // A full page ends with its last job, and the next page examines the jobs after it again.
  const end = found.length > limit ? page.at(-1) : await endOf(tx, filter, order, after);
  const summaries = await summariesById(tx, page.map(({ id }) => id));
  const next = end === undefined ? {} : { next: { order, at: end.at, id: end.id } };
  return { summaries: [...summaries.values()], ...next };
}

/** Counts the matching jobs by execution. */
export async function countSummaries(
  tx: Transaction,
  filter: SummaryFilter,
): Promise<SummaryCounts> {
  const order = orderOf(filter);
  const values = new Values();
  const { looked, checks } = await walkOf(tx, filter, order, undefined, values);
  const rows = await tx.rows<{ execution: Execution; jobs: number }>(
    `SELECT execution, count(*) AS jobs FROM (${looked}) AS looked WHERE ${checks()} GROUP BY execution`,
    ...values.all,
  );
  const counts = new Map<Execution, number>(EXECUTIONS.map((execution) => [execution, 0]));
  for (const { execution, jobs } of rows) counts.set(execution, jobs);
  return { counts, whole: await endOf(tx, filter, order, undefined) === undefined };
}

/** Reads one summary; undefined when the job does not exist. */
export async function selectSummary(
  tx: Transaction,
  uuid: JobUuid,
): Promise<JobSummary | undefined> {
  const row = await tx.row<{ id: number }>("SELECT id FROM jobs WHERE uuid = $1", uuid);
  return row === undefined ? undefined : (await summariesById(tx, [row.id])).get(row.id);
}

/** A job that was found, with its time in the order of the list. */
interface FoundRow {
  readonly id: number;
  /** Empty in the order of creation. */
  readonly at: string;
}

/** The last job that a page examines; undefined when it examines all remaining jobs. */
async function endOf(
  tx: Transaction,
  filter: SummaryFilter,
  order: SummaryPlace["order"],
  after: SummaryPlace | undefined,
): Promise<FoundRow | undefined> {
  const values = new Values();
  const { beyond } = await walkOf(tx, filter, order, after, values);
  return await tx.row<FoundRow>(
    `SELECT id, at FROM (${beyond}) AS walked
      WHERE is_examined AND EXISTS (SELECT 1 FROM (${beyond}) AS again WHERE NOT is_examined)
      ORDER BY at, id LIMIT 1`,
    ...values.all,
  );
}

function orderOf({ uuid, target, machine, since, until, finished_since }: SummaryFilter) {
  if (uuid !== undefined || target !== undefined || machine !== undefined) return "id";
  if (finished_since !== undefined) return "finished";
  return since === undefined && until === undefined ? "id" : "created";
}

/** The column of each order; the order of creation is that of ids. */
const TIMES = { id: undefined, created: "created_at", finished: "finished_at" } as const;

/** Pieces of the statements that read a list. */
interface SummaryWalk {
  /** Selects the jobs that a page examines. */
  readonly looked: string;
  /** The conditions that each of them must meet; their values are added to those of the statement. */
  readonly checks: () => string;
  /** Selects the same jobs and the one after them, with whether each is examined. */
  readonly beyond: string;
}

async function walkOf(
  tx: Transaction,
  filter: SummaryFilter,
  order: SummaryPlace["order"],
  after: SummaryPlace | undefined,
  values: Values,
): Promise<SummaryWalk> {
  const { params, search, searchesParams } = filter;
  const lane = await laneOf(tx, filter, order, after, values);
  const time = TIMES[order];
  const at = time ?? "''";
  const sorted = time === undefined ? "id DESC" : `${time} DESC, id DESC`;
  const isHeavy = params !== undefined || search !== undefined && searchesParams;
  // octet_length() knows the size of a large text without reading it.
  const bytes = isHeavy ? "octet_length(params)::bigint" : "0::bigint";
  const walked = `SELECT id, ${at} AS at, definition_id, target, error, params, execution,
      row_number() OVER walk AS place, sum(${bytes}) OVER walk - ${bytes} AS before
     FROM jobs WHERE ${lane} WINDOW walk AS (ORDER BY ${sorted} ROWS UNBOUNDED PRECEDING)
    ORDER BY ${sorted} LIMIT ${SUMMARIES_LOOKED_AT_MAX + 1}`;
  const examined = `place <= ${SUMMARIES_LOOKED_AT_MAX} AND before < ${SEARCHED_BYTES_MAX}`;
  return {
    looked: `SELECT * FROM (${walked}) AS walked WHERE ${examined}`,
    checks: () => checksOf(filter, values),
    beyond: `SELECT id, at, ${examined} AS is_examined FROM (${walked}) AS walked`,
  };
}

/** Conditions that indexes or short columns answer, and the position where the page begins. */
async function laneOf(
  tx: Transaction,
  filter: SummaryFilter,
  order: SummaryPlace["order"],
  after: SummaryPlace | undefined,
  values: Values,
): Promise<string> {
  const { uuid, states, target, machine, host, since, until, finished_since } = filter;
  const conditions = conditionsOf({
    ...(target === undefined ? {} : { target }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  }, values);
  conditions.push(...await ofDefinitions(tx, filter, values));
  if (host !== undefined) conditions.push(isText("host", host, values));
  if (machine !== undefined) conditions.push(isText("target", machineTarget(machine), values));
  if (uuid !== undefined) conditions.push(...uuidBegins(uuid, values));
  if (states !== undefined) conditions.push(`execution = ANY(${values.add(states)}::text[])`);
  if (finished_since !== undefined) conditions.push(`finished_at >= ${values.add(finished_since)}`);
  if (order === "finished") conditions.push("finished_at IS NOT NULL");
  const time = TIMES[order];
  if (after !== undefined && time === undefined) conditions.push(`id < ${values.add(after.id)}`);
  if (after !== undefined && time !== undefined) {
    conditions.push(`(${time}, id) < (${values.add(after.at)}, ${values.add(after.id)}::bigint)`);
  }
  return conditions.length === 0 ? "true" : conditions.join(" AND ");
}

/** Names the definitions by id if there are few, because the planner then knows how many jobs they have. */
async function ofDefinitions(
  tx: Transaction,
  { name, workflow_uuid }: SummaryFilter,
  values: Values,
): Promise<string[]> {
  if (name === undefined && workflow_uuid === undefined) return [];
  const named = {
    ...(name === undefined ? {} : { name }),
    ...(workflow_uuid === undefined ? {} : { workflow_uuid }),
  };
  const own = new Values();
  const conditions = Object.entries(named).map(([column, text]) => isText(column, text, own));
  const found = await tx.rows<{ id: number }>(
    `SELECT id FROM definitions WHERE ${conditions.join(" AND ")} LIMIT ${DEFINITIONS_MAX + 1}`,
    ...own.all,
  );
  if (found.length > DEFINITIONS_MAX) return conditionsOf(named, values);
  return [`definition_id = ANY(${values.add(found.map(({ id }) => id))}::bigint[])`];
}

/** Conditions that search in texts: values of params, and the search text. */
function checksOf({ params, search, searchesParams }: SummaryFilter, values: Values): string {
  const checks = params === undefined ? [] : conditionsOf({ params }, values);
  if (search !== undefined) checks.push(searchCondition(folded(search), searchesParams, values));
  return checks.length === 0 ? "true" : checks.join(" AND ");
}

/** Searches ASCII text in any case, as this collation folds it; strings in params appear as JSON escapes them. */
function searchCondition(text: string, searchesParams: boolean, values: Values): string {
  const found = (place: string, value: string) =>
    value.includes("\0")
      ? "false"
      : `coalesce(strpos(lower(${place}), ${values.add(value)}) > 0, false)`;
  const places = [
    found("(SELECT name FROM definitions WHERE definitions.id = definition_id)", text),
    found("target", text),
    found("error", text),
  ];
  if (searchesParams) places.push(found("params", JSON.stringify(text).slice(1, -1)));
  return `(${places.join(" OR ")})`;
}

/** A row, with the params of the first job on its machine. */
type SelectedRow = Omit<SummaryRow, "alias"> & HostOfJob & { readonly first_params: string | null };

const SMALL_PARAMS = (row: string) =>
  `CASE WHEN octet_length(${row}.params) <= ${SUMMARY_PARAMS_BYTES_MAX} THEN ${row}.params END`;

/**
 * A summary: columns of the job, and a few related values. Each related lookup reads one row, or rows up to a named limit.
 */
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

/** Reads the summaries of these distinct ids, in their order, without jobs that do not exist. */
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
    const reported = progress.get(row.id) ?? null;
    const shown = { progress: reported, host, read_at: tx.now };
    summaries.set(row.id, summaryFromRow(row, definition, shown));
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

/** The alias in the params of a job that creates a machine. */
function aliasIn(params: string | null): string | undefined {
  if (params === null || !params.includes('"alias"')) return undefined;
  const { machine } = JSON.parse(params) as JsonObject;
  const alias = isJsonObject(machine) ? machine.alias : undefined;
  return typeof alias === "string" ? alias : undefined;
}

/** The uuid in the JSON of a field. */
function uuidFrom(json: string | null): JobUuid | null {
  // This store made the field from a uuid.
  return json === null ? null : JSON.parse(json) as JobUuid | null;
}

/** The latest progress reports of the jobs' current tasks, if they are among the newest lines. */
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
  // This store made the text from an object.
  return new Map(rows.map(({ id, progress }) => [id, JSON.parse(progress) as JsonObject]));
}
