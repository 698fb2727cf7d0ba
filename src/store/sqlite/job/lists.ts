// Lists and counts of jobs, newest first. A list that one index answers is a single statement. Every other list, and
// every count, walks the jobs in parts (see counted_walk.ts), so that a million jobs, or jobs with large params, do not block
// the agent.

import type { JobUuid } from "../../../domain/id.ts";
import type { Job } from "../../../domain/job/job.ts";
import type { Execution } from "../../../domain/job/state.ts";
import { PARAM_LOOKED_AT_MAX } from "../../limits.ts";
import type { JobFilter, JobKey, JobPage, ListedJob } from "../../job_store.ts";
import type { Connection } from "../connection.ts";
import { isOtherHost } from "../host_rows.ts";
import { countsOfAll } from "./counts.ts";
import { type Stretch, walkPlaces } from "./counted_walk.ts";
import { jobFromRow } from "./rows.ts";
import { JOB_COLUMNS, type JobRow } from "../../sql.ts";

/** Jobs that one statement may skip; more are skipped in parts. */
const OFFSET_AT_ONCE_MAX = 1000;
/** The matching jobs, newest first. */
export async function listJobs(
  db: Connection,
  filter: JobFilter,
  page: JobPage,
): Promise<ListedJob[]> {
  const rows = await listRows<JobRow>(db, JOB_COLUMNS, filter, page);
  return await db.durably(() => rows.map((row) => ({ job: jobFromRow(db, row), place: row.id })));
}

/** As listJobs(), without the contents of the jobs. */
export async function listKeys(
  db: Connection,
  filter: JobFilter,
  page: JobPage,
): Promise<JobKey[]> {
  const columns = "id, uuid, props ->> 'next_attempt' IS NOT NULL AS retried";
  const rows = await listRows<{ id: number; uuid: JobUuid; retried: number }>(
    db,
    columns,
    filter,
    page,
  );
  return await db.durably(() =>
    rows.map(({ id, uuid, retried }) => ({ uuid, place: id, retried: retried === 1 }))
  );
}

/** The newest jobs of one target, found through their index. */
export function selectJobsOfTarget(db: Connection, target: string, limit: number): Job[] {
  return selectRows<JobRow>(db, JOB_COLUMNS, conditionsOf({ target }), limit, 0)
    .map((row) => jobFromRow(db, row));
}

/** Counts the matching jobs, with the counters if the filter allows it. */
export async function countJobs(db: Connection, asked: JobFilter): Promise<number> {
  const { host, ...filter } = asked;
  if (isOtherHost(db, host)) return 0;
  const { execution, ...others } = filter;
  if (Object.values(others).every((value) => value === undefined)) {
    return await db.durably(() => countByExecution(db, execution));
  }
  const conditions = conditionsOf(filter);
  let jobs = 0;
  await walkPlaces(db, { filter }, (stretch) => {
    jobs += stretch.jobs ?? countRows(db, [...conditions, within(stretch)]);
    return "more";
  });
  return await db.durably(() => jobs);
}

/** Whether one of the newest jobs has a param of this name. */
export async function hasParam(db: Connection, name: string): Promise<boolean> {
  // SQLite would parse a bare name as a path if it begins with `$` or contains a quote.
  const has: Condition = {
    sql: "(params -> ?) IS NOT NULL",
    values: [`$.${JSON.stringify(name)}`],
  };
  let found = false;
  let looked = 0;
  await walkPlaces(db, { filter: {}, looks: true }, (stretch) => {
    found = countRows(db, [has, within(stretch)]) > 0;
    looked += stretch.below - stretch.from;
    return found || looked >= PARAM_LOOKED_AT_MAX ? "enough" : "more";
  });
  return await db.durably(() => found);
}

/** The rows of a page, newest first, with the columns asked for; `id` must be one of them. */
export async function listRows<Row extends { readonly id: number }>(
  db: Connection,
  columns: string,
  { host, ...filter }: JobFilter,
  { limit, offset = 0, before }: JobPage,
): Promise<Row[]> {
  if (isOtherHost(db, host)) return [];
  const conditions = conditionsOf(filter);
  if (isOneIndex(filter) && offset <= OFFSET_AT_ONCE_MAX) {
    const all = before === undefined ? conditions : [...conditions, below(before)];
    return selectRows<Row>(db, columns, all, limit ?? -1, offset);
  }
  const wanted = limit ?? Number.MAX_SAFE_INTEGER;
  const found: Row[] = [];
  let skip = offset;
  await walkPlaces(db, { filter, before }, (stretch) => {
    const here = [...conditions, within(stretch)];
    const fitting = skip > 0 ? stretch.jobs ?? countRows(db, here) : 0;
    if (fitting > skip || skip === 0) {
      found.push(...selectRows<Row>(db, columns, here, wanted - found.length, skip));
    }
    skip -= Math.min(fitting, skip);
    return found.length < wanted ? "more" : "enough";
  });
  return found;
}

/** Whether the index of one key, or the order of the jobs itself, answers a filter. */
function isOneIndex({ execution, target, ...others }: JobFilter): boolean {
  if (execution !== undefined && target !== undefined) return false;
  return conditionsOf(others).length === 0;
}

function within({ from, below }: Stretch): Condition {
  return { sql: "id >= ? AND id < ?", values: [from, below] };
}

function below(place: number): Condition {
  return { sql: "id < ?", values: [place] };
}

function selectRows<Row extends object>(
  db: Connection,
  columns: string,
  conditions: readonly Condition[],
  limit: number,
  offset: number,
): Row[] {
  const where = whereOf(conditions);
  const bound: SqlValue[] = [...where.values, limit, offset];
  return db.rows<Row>(
    `SELECT ${columns} FROM jobs ${where.sql} ORDER BY id DESC LIMIT ? OFFSET ?`,
    ...bound,
  );
}

function countRows(db: Connection, conditions: readonly Condition[]): number {
  const where = whereOf(conditions);
  const row = db.row<{ jobs: number }>(
    `SELECT count(*) AS jobs FROM jobs ${where.sql}`,
    ...where.values,
  );
  return row?.jobs ?? 0;
}

/** Counts with the counters, which cover every job. */
function countByExecution(db: Connection, execution: Execution | undefined): number {
  const counts = countsOfAll(db);
  return execution === undefined
    ? Object.values(counts).reduce((sum, jobs) => sum + jobs, 0)
    : counts[execution];
}

type SqlValue = string | number | null;

/** A condition and its bound values. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

/**
 * The conditions of the keys that are given. The statement is composed, because each filter needs its own index:
 * `execution` that of jobs_execution, `target` that of jobs_target, and so on. SQLite chooses an index by the text, so one
 * statement with `? IS NULL OR` for every key would read every job, and one statement per set of keys would be over a
 * hundred. Each condition is a fixed text in this file; values of callers are always bound.
 */
export function conditionsOf(filter: JobFilter): Condition[] {
  const { execution, target, name, workflow_uuid, since, until, params = {} } = filter;
  const given: (Condition | false)[] = [
    execution !== undefined && { sql: "execution = ?", values: [execution] },
    target !== undefined && { sql: "target = ?", values: [target] },
    name !== undefined && {
      sql: "definition_id IN (SELECT id FROM definitions WHERE name = ?)",
      values: [name],
    },
    workflow_uuid !== undefined && {
      sql: "definition_id IN (SELECT id FROM definitions WHERE workflow_uuid = ?)",
      values: [workflow_uuid],
    },
    // Not by their index, which each part of a list would walk again.
    since !== undefined && { sql: "+created_at >= ?", values: [since] },
    until !== undefined && { sql: "+created_at < ?", values: [until] },
    ...Object.entries(params).map(([key, value]) => paramCondition(key, value)),
  ];
  return given.filter((condition) => condition !== false);
}

/** Compares with the JSON of the value: a string has quotes in it, any other value is as it was sent. */
function paramCondition(key: string, value: string): Condition {
  const text = JSON.stringify(value);
  return {
    sql: "(params -> ?) IN (?, ?)",
    // SQLite would parse a bare key as a path if it begins with `$` or contains a quote. A value that begins with a
    // quote can only match a string.
    values: [`$.${JSON.stringify(key)}`, text, value.startsWith('"') ? text : value],
  };
}

/**
 * The conditions as the part of a statement that begins with WHERE, or nothing. Composed, so that a
 * statement has only the conditions that count, and the index that answers them.
 */
export function whereOf(conditions: readonly Condition[]): { sql: string; values: SqlValue[] } {
  if (conditions.length === 0) return { sql: "", values: [] };
  return {
    sql: `WHERE ${conditions.map(({ sql }) => sql).join(" AND ")}`,
    values: conditions.flatMap(({ values }) => values),
  };
}
