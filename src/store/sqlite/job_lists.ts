// Lists of jobs, newest first, and how many there are. Where no index answers a filter, jobs are
// looked at some thousand at a time, with other work let through in between: a list of a million
// jobs must not hold up the agent.

import type { Job } from "../../domain/job.ts";
import type { JobFilter, JobPage, ListedJob } from "../job_store.ts";
import type { Connection } from "./connection.ts";
import { conditionsOf, isScan, whereOf } from "./job_filter.ts";
import { JOB_COLUMNS, jobFromRow, type JobRow } from "./job_rows.ts";

/** Jobs that are looked at before other work is let through: a few milliseconds. */
const SCAN_ROWS = 5_000;

/** Newest first. */
export async function listJobs(
  db: Connection,
  filter: JobFilter,
  page: JobPage,
): Promise<ListedJob[]> {
  const { limit = Number.MAX_SAFE_INTEGER, offset = 0 } = page;
  if (!isScan(filter)) return await db.durably(() => selectJobs(db, filter, page, {}));
  const found: ListedJob[] = [];
  let skip = offset;
  for (let below = topOf(db, page); below > 1 && found.length < limit; below -= SCAN_ROWS) {
    const window = { from: below - SCAN_ROWS, below };
    if (skip > 0) {
      const here = countIn(db, filter, window);
      if (here <= skip) {
        skip -= here;
        continue;
      }
    }
    const wanted = { limit: Math.min(limit - found.length, SCAN_ROWS), offset: skip };
    found.push(...selectJobs(db, filter, wanted, window));
    skip = 0;
    await otherWork();
  }
  return await db.durably(() => found);
}

/** How many jobs fit. */
export async function countJobs(db: Connection, filter: JobFilter): Promise<number> {
  const { execution, ...others } = filter;
  const counted = Object.values(others).every((value) => value === undefined);
  if (counted) return await db.durably(() => countByExecution(db, execution ?? null));
  if (!isScan(filter)) return await db.durably(() => countIn(db, filter, {}));
  let jobs = 0;
  for (let below = topOf(db, {}); below > 1; below -= SCAN_ROWS) {
    jobs += countIn(db, filter, { from: below - SCAN_ROWS, below });
    await otherWork();
  }
  return await db.durably(() => jobs);
}

/** The newest jobs of one target, found through their index. */
export function selectJobsOfTarget(db: Connection, target: string, limit: number): Job[] {
  return selectJobs(db, { target }, { limit }, {}).map(({ job }) => job);
}

/** Part of the jobs by their ids. */
interface Window {
  readonly from?: number;
  readonly below?: number;
}

function windowOf({ from, below }: Window) {
  return [
    ...(from === undefined ? [] : [{ sql: "id >= ?", values: [from] }]),
    ...(below === undefined ? [] : [{ sql: "id < ?", values: [below] }]),
  ];
}

function selectJobs(
  db: Connection,
  filter: JobFilter,
  { before, limit = -1, offset = 0 }: JobPage,
  window: Window,
): ListedJob[] {
  const { from, below = before } = window;
  const where = whereOf([
    ...conditionsOf(filter),
    ...windowOf({
      ...(from === undefined ? {} : { from }),
      ...(below === undefined ? {} : { below }),
    }),
  ]);
  const rows = db.rows<JobRow>(
    `SELECT ${JOB_COLUMNS} FROM jobs ${where.sql} ORDER BY id DESC LIMIT ? OFFSET ?`,
    ...where.values,
    limit,
    offset,
  );
  return rows.map((row) => ({ job: jobFromRow(db, row), place: row.id }));
}

function countIn(db: Connection, filter: JobFilter, window: Window): number {
  const where = whereOf([...conditionsOf(filter), ...windowOf(window)]);
  const row = db.row<{ jobs: number }>(
    `SELECT count(*) AS jobs FROM jobs ${where.sql}`,
    ...where.values,
  );
  return row?.jobs ?? 0;
}

/** Told by the counters, which stand for every job there is. */
function countByExecution(db: Connection, execution: string | null): number {
  const row = db.row<{ jobs: number | null }>(
    "SELECT sum(jobs) AS jobs FROM job_counts WHERE minute = '' AND (?1 IS NULL OR execution = ?1)",
    execution,
  );
  return row?.jobs ?? 0;
}

/** The id above which a list holds nothing. */
function topOf(db: Connection, { before }: JobPage): number {
  if (before !== undefined) return before;
  return (db.row<{ id: number | null }>("SELECT max(id) AS id FROM jobs")?.id ?? 0) + 1;
}

/** One turn of the event loop. */
function otherWork(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
