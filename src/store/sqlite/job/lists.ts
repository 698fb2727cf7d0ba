// Lists of jobs, newest first, and how many there are. Where no index answers a filter, and where many
// jobs are counted or passed over, they are looked at in parts of some milliseconds, with other work let through in between: a list of a
// million jobs, or of jobs with large params, must not hold up the agent.

import type { JobUuid } from "../../../domain/id.ts";
import type { Job } from "../../../domain/job/job.ts";
import {
  type JobFilter,
  type JobKey,
  type JobPage,
  type ListedJob,
  PARAM_LOOKED_AT_MAX,
} from "../../job_store.ts";
import { type Connection, otherWork } from "../connection.ts";
import { JOB_COLUMNS, jobFromRow, type JobRow } from "./rows.ts";

/** Jobs that are looked at in the first part of a scan, and in any. */
const PART_FIRST = 100;
const PART_MAX = 20_000;
/** Jobs that one statement passes over; more are passed over in parts. */
const OFFSET_AT_ONCE_MAX = 1000;
/** Milliseconds that a part should take; the next one is made longer or shorter to that end. */
const PART_MS = 4;

/** Newest first. */
export async function listJobs(
  db: Connection,
  filter: JobFilter,
  page: JobPage,
): Promise<ListedJob[]> {
  const rows = await listRows<JobRow>(db, JOB_COLUMNS, filter, page);
  return await db.durably(() => rows.map((row) => ({ job: jobFromRow(db, row), place: row.id })));
}

/** The same without what the jobs hold. */
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

/** How many jobs fit. */
export async function countJobs(db: Connection, filter: JobFilter): Promise<number> {
  const { execution, ...others } = filter;
  if (Object.values(others).every((value) => value === undefined)) {
    return await db.durably(() => countByExecution(db, execution ?? null));
  }
  // An index leads to the jobs that fit, but there may be a million of them.
  const conditions = conditionsOf(filter);
  let jobs = 0;
  await scan(db, undefined, (part) => {
    jobs += countRows(db, [...conditions, ...part]);
    return "more";
  });
  return await db.durably(() => jobs);
}

/** Whether one of the newest jobs has a param of this name. */
export async function hasParam(db: Connection, name: string): Promise<boolean> {
  // A bare name would be read as a path when it begins with `$` or holds a quote.
  const has: Condition = {
    sql: "(params -> ?) IS NOT NULL",
    values: [`$.${JSON.stringify(name)}`],
  };
  let found = false;
  let looked = 0;
  await scan(db, undefined, (part, jobs) => {
    found = countRows(db, [has, ...part]) > 0;
    looked += jobs;
    return found || looked >= PARAM_LOOKED_AT_MAX ? "enough" : "more";
  });
  return await db.durably(() => found);
}

/**
 * The rows of a page, newest first, with the columns asked for; `id` must be one of them. A filter
 * without an index is scanned in parts, between which other work runs.
 */
export async function listRows<Row extends { readonly id: number }>(
  db: Connection,
  columns: string,
  filter: JobFilter,
  { limit, offset = 0, before }: JobPage,
): Promise<Row[]> {
  const conditions = conditionsOf(filter);
  if (!isScan(filter) && offset <= OFFSET_AT_ONCE_MAX) {
    const all = before === undefined ? conditions : [...conditions, below(before)];
    return selectRows<Row>(db, columns, all, limit ?? -1, offset);
  }
  const wanted = limit ?? Number.MAX_SAFE_INTEGER;
  const found: Row[] = [];
  let skip = offset;
  await scan(db, before, (part) => {
    const here = [...conditions, ...part];
    const fitting = skip > 0 ? countRows(db, here) : 0;
    if (fitting > skip || skip === 0) {
      found.push(...selectRows<Row>(db, columns, here, wanted - found.length, skip));
    }
    skip -= Math.min(fitting, skip);
    return found.length < wanted ? "more" : "enough";
  });
  return found;
}

/** Goes through all jobs in parts, from the newest to the oldest, until it is enough. */
async function scan(
  db: Connection,
  before: number | undefined,
  look: (part: readonly Condition[], jobs: number) => "more" | "enough",
): Promise<void> {
  const { first, last } = bordersOf(db);
  let top = before ?? last + 1;
  let jobs = PART_FIRST;
  while (top > first) {
    const bottom = top - jobs;
    const beganMs = performance.now();
    const part = [below(top), { sql: "id >= ?", values: [bottom] }];
    if (look(part, jobs) === "enough") return;
    const inTime = performance.now() - beganMs < PART_MS;
    jobs = inTime ? Math.min(jobs * 2, PART_MAX) : Math.max(Math.floor(jobs / 2), 1);
    top = bottom;
    await otherWork();
  }
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

/** From the counters, which hold every job. */
function countByExecution(db: Connection, execution: string | null): number {
  const row = db.row<{ jobs: number | null }>(
    "SELECT sum(jobs) AS jobs FROM job_counts WHERE minute = '' AND (?1 IS NULL OR execution = ?1)",
    execution,
  );
  return row?.jobs ?? 0;
}

/** The places of the oldest job and of the newest one. */
function bordersOf(db: Connection): { first: number; last: number } {
  const row = db.row<{ first: number | null; last: number | null }>(
    "SELECT (SELECT min(id) FROM jobs) AS first, (SELECT max(id) FROM jobs) AS last",
  );
  return { first: row?.first ?? 0, last: row?.last ?? -1 };
}

// The filter of a list as conditions of a statement. The statement is composed, because each filter
// needs its own index: `execution` that of jobs_execution, `target` that of jobs_target, and so on.
// SQLite picks an index from the text, so that one statement with `? IS NULL OR` for every key would
// read every job, and a statement for every set of keys would be over a hundred. Each condition is a
// fixed text of this file; what a caller sent is only ever bound.

/** What is bound to a question mark. */
export type SqlValue = string | number | null;

/** A condition, and what is bound to its question marks. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

/** The conditions of the keys that are given. */
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
    since !== undefined && { sql: "created_at >= ?", values: [since] },
    until !== undefined && { sql: "created_at < ?", values: [until] },
    ...Object.entries(params).map(([key, value]) => paramCondition(key, value)),
  ];
  return given.filter((condition) => condition !== false);
}

/** The JSON of the value is compared: a text stands in it with quotes, all else as it was sent. */
function paramCondition(key: string, value: string): Condition {
  const text = JSON.stringify(value);
  return {
    sql: "(params -> ?) IN (?, ?)",
    // A bare key would be read as a path when it begins with `$` or holds a quote. What begins with
    // a quote is the JSON of a text, never of anything else.
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

/** Whether some condition has no index, so that jobs must be looked at one by one. */
function isScan({ since, until, params = {}, target }: JobFilter): boolean {
  if (target !== undefined) return false;
  return since !== undefined || until !== undefined || Object.keys(params).length > 0;
}
