// Lists and counts of jobs, newest first.

import type { JobUuid } from "../../../domain/id.ts";
import type { Job } from "../../../domain/job/job.ts";
import { PARAM_LOOKED_AT_MAX } from "../../limits.ts";
import type { JobFilter, JobKey, JobPage, ListedJob } from "../../job_store.ts";
import type { Transaction } from "../connection.ts";
import { fieldOf, isText, paramNamed, readable, Values, whereOf } from "../statements.ts";
import { countsOfAll } from "./counts.ts";
import { jobsFromRows, SHARED_COLUMNS, type SharedJobRow } from "./rows.ts";

/** Jobs whose results are read by one statement. */
const READ_AT_ONCE = 100;

/** Lists the matching jobs, newest first. */
export async function listJobs(
  tx: Transaction,
  filter: JobFilter,
  page: JobPage,
): Promise<ListedJob[]> {
  const rows = await listRows<SharedJobRow>(tx, SHARED_COLUMNS, filter, page);
  const listed: ListedJob[] = [];
  for (let at = 0; at < rows.length; at += READ_AT_ONCE) {
    const part = rows.slice(at, at + READ_AT_ONCE);
    const jobs = await jobsFromRows(tx, part);
    // There is a job for each row, in the same order.
    part.forEach(({ id }, index) => listed.push({ job: jobs[index] as Job, place: id }));
  }
  return listed;
}

/** As listJobs(), without the contents of the jobs. */
export async function listKeys(
  tx: Transaction,
  filter: JobFilter,
  page: JobPage,
): Promise<JobKey[]> {
  const retried = `coalesce(${fieldOf("props", "next_attempt")}, 'null') <> 'null'`;
  const columns = `id, uuid, ${retried} AS retried`;
  const rows = await listRows<{ id: number; uuid: JobUuid; retried: boolean }>(
    tx,
    columns,
    filter,
    page,
  );
  return rows.map(({ id, uuid, retried }) => ({ uuid, place: id, retried }));
}

/** The newest jobs of one target. */
export async function selectJobsOfTarget(
  tx: Transaction,
  target: string,
  limit: number,
): Promise<Job[]> {
  const listed = await listJobs(tx, { target }, { limit });
  return listed.map(({ job }) => job);
}

/** Counts the matching jobs, with the counters if the filter allows it. */
export async function countJobs(tx: Transaction, filter: JobFilter): Promise<number> {
  const { execution, ...others } = filter;
  if (Object.values(others).every((value) => value === undefined)) {
    const counts = await countsOfAll(tx);
    if (execution !== undefined) return counts[execution];
    return Object.values(counts).reduce((sum, jobs) => sum + jobs, 0);
  }
  const values = new Values();
  const where = whereOf(conditionsOf(filter, values));
  const row = await tx.row<{ jobs: number }>(
    `SELECT count(*) AS jobs FROM jobs ${where}`,
    ...values.all,
  );
  return row?.jobs ?? 0;
}

/** Whether one of the newest jobs has a param with this name. */
export async function hasParam(tx: Transaction, name: string): Promise<boolean> {
  const values = new Values();
  const field = paramNamed(name, values);
  const row = await tx.row<{ found: boolean }>(
    `SELECT EXISTS (SELECT 1 FROM
        (SELECT params FROM jobs ORDER BY id DESC LIMIT ${PARAM_LOOKED_AT_MAX}) AS newest
      WHERE ${field} IS NOT NULL) AS found`,
    ...values.all,
  );
  return row?.found === true;
}

/** Reads columns of a page of jobs, newest first. */
export async function listRows<Row extends object>(
  tx: Transaction,
  columns: string,
  filter: JobFilter,
  { limit, offset = 0, before }: JobPage,
): Promise<Row[]> {
  const values = new Values();
  const conditions = conditionsOf(filter, values);
  if (before !== undefined) conditions.push(`id < ${values.add(before)}`);
  const where = whereOf(conditions);
  const [most, skipped] = [values.add(limit ?? null), values.add(offset)];
  return await tx.rows<Row>(
    `SELECT ${columns} FROM jobs ${where} ORDER BY id DESC LIMIT ${most} OFFSET ${skipped}`,
    ...values.all,
  );
}

/** The conditions of a filter; their values are added to those of the statement. */
export function conditionsOf(filter: JobFilter, values: Values): string[] {
  const { execution, target, name, workflow_uuid, host, since, until, params = {} } = filter;
  const ofDefinition = (column: string, text: string) =>
    `definition_id IN (SELECT id FROM definitions WHERE ${isText(column, text, values)})`;
  const conditions: string[] = [];
  if (execution !== undefined) conditions.push(isText("execution", execution, values));
  if (target !== undefined) conditions.push(isText("target", target, values));
  if (name !== undefined) conditions.push(ofDefinition("name", name));
  if (workflow_uuid !== undefined) conditions.push(ofDefinition("workflow_uuid", workflow_uuid));
  if (host !== undefined) conditions.push(isText("host", host, values));
  if (since !== undefined) conditions.push(`created_at >= ${values.add(since)}`);
  if (until !== undefined) conditions.push(`created_at < ${values.add(until)}`);
  for (const [key, value] of Object.entries(params)) {
    conditions.push(paramCondition(key, value, values));
  }
  return conditions;
}

/** Compares with the JSON of the value: a string has quotes in it, any other value is as it was sent. */
function paramCondition(key: string, value: string, values: Values): string {
  const text = JSON.stringify(value);
  // A value that begins with a quote can only match a string.
  const wanted = [text, value.startsWith('"') ? text : value].map(readable);
  const field = paramNamed(key, values);
  return `coalesce(${field} = ANY(${values.add(wanted)}::text[]), false)`;
}
