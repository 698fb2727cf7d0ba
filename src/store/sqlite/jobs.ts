// Jobs: written, read, listed and claimed. What changes a job afterwards stands in job_changes.ts.

import type { JobUuid, RunnerId } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import { type Job, type NewJob, timeoutOf } from "../../domain/job.ts";
import type { CreateJobOutcome, JobFilter } from "../store.ts";
import type { Connection } from "./connection.ts";
import { JOB_COLUMNS, jobFromRow, type JobRow } from "./job_rows.ts";

/** Writes a queued job, unless an unfinished one has the same target and params. */
export function insertJob(
  db: Connection,
  job: NewJob,
  paramsSha256: string | null,
): CreateJobOutcome {
  const row = db.row<JobRow>(
    `INSERT INTO jobs (
       uuid, workflow_uuid, name, execution, phase, chain, onerror, oncancel, timeout, exec_after,
       claimable_at, target, params, params_sha256, props, created_at, elapsed_ms, starts)
     VALUES (?1, ?2, ?3, 'queued', 'chain', ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12, ?13, 0, 0)
     ON CONFLICT (target, params_sha256)
       WHERE target IS NOT NULL AND execution IN ('queued', 'running', 'waiting')
       DO NOTHING
     RETURNING ${JOB_COLUMNS}`,
    job.uuid,
    job.workflow.uuid,
    job.workflow.name,
    JSON.stringify(job.workflow.chain),
    JSON.stringify(job.workflow.onerror),
    JSON.stringify(job.workflow.oncancel ?? []),
    timeoutOf(job.workflow),
    job.exec_after,
    job.target,
    JSON.stringify(job.params),
    paramsSha256,
    JSON.stringify(job.props ?? {}),
    job.created_at,
  );
  if (row !== undefined) return { kind: "created", job: jobFromRow(row) };
  return { kind: "duplicate", job_uuid: holderOf(db, job.target, paramsSha256) };
}

function holderOf(db: Connection, target: string | null, paramsSha256: string | null): JobUuid {
  const row = db.row<{ uuid: JobUuid }>(
    `SELECT uuid FROM jobs
      WHERE target = ? AND params_sha256 = ? AND execution IN ('queued', 'running', 'waiting')`,
    target,
    paramsSha256,
  );
  if (row === undefined) throw new Error("The job that holds the target is not there");
  return row.uuid;
}

export function selectJob(db: Connection, uuid: JobUuid): Job | undefined {
  const row = db.row<JobRow>(`SELECT ${JOB_COLUMNS} FROM jobs WHERE uuid = ?`, uuid);
  return row === undefined ? undefined : jobFromRow(row);
}

const FILTER = `
  (?1 IS NULL OR execution = ?1)
  AND (?2 IS NULL OR target = ?2)
  AND (?3 IS NULL OR name = ?3)
  AND (?4 IS NULL OR workflow_uuid = ?4)
  AND (?5 IS NULL OR created_at >= ?5)
  AND (?6 IS NULL OR created_at < ?6)`;

function filterParams(filter: JobFilter): (string | null)[] {
  return [
    filter.execution ?? null,
    filter.target ?? null,
    filter.name ?? null,
    filter.workflow_uuid ?? null,
    filter.since ?? null,
    filter.until ?? null,
  ];
}

/** Newest first. */
export function selectJobs(db: Connection, filter: JobFilter): Job[] {
  const rows = db.rows<JobRow>(
    `SELECT ${JOB_COLUMNS} FROM jobs WHERE ${FILTER} ORDER BY id DESC LIMIT ?7 OFFSET ?8`,
    ...filterParams(filter),
    filter.limit ?? -1,
    filter.offset ?? 0,
  );
  return rows.map(jobFromRow);
}

/** The newest jobs of one target, found through their index. */
export function selectJobsOfTarget(db: Connection, target: string, limit: number): Job[] {
  const rows = db.rows<JobRow>(
    `SELECT ${JOB_COLUMNS} FROM jobs WHERE target = ? ORDER BY id DESC LIMIT ?`,
    target,
    limit,
  );
  return rows.map(jobFromRow);
}

export function countJobs(db: Connection, filter: JobFilter): number {
  const row = db.row<{ jobs: number }>(
    `SELECT count(*) AS jobs FROM jobs WHERE ${FILTER}`,
    ...filterParams(filter),
  );
  return row?.jobs ?? 0;
}

/**
 * Takes the jobs that have been due for longest. A canceled job whose oncancel chain is due stays
 * canceled; every other one becomes running.
 */
export function claimJobs(db: Connection, runner: RunnerId, limit: number, now: Instant): Job[] {
  const rows = db.rows<JobRow>(
    `UPDATE jobs
        SET execution = CASE execution WHEN 'queued' THEN 'running' ELSE execution END,
            runner_id = ?1, claimable_at = NULL, starts = starts + 1,
            started_at = coalesce(started_at, ?3)
      WHERE id IN (SELECT id FROM jobs WHERE claimable_at <= ?3
                    ORDER BY claimable_at, id LIMIT ?2)
        AND claimable_at IS NOT NULL
     RETURNING ${JOB_COLUMNS}`,
    runner,
    limit,
    now,
  );
  return rows.map(jobFromRow);
}

/** When the first job becomes claimable. */
export function selectNextDue(db: Connection): Instant | undefined {
  const row = db.row<{ due: Instant | null }>(
    "SELECT min(claimable_at) AS due FROM jobs WHERE claimable_at IS NOT NULL",
  );
  return row?.due ?? undefined;
}
