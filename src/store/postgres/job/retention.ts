// Removes finished jobs that are too old or too many, with their results and callbacks, and afterwards their info and
// unreferenced definitions. Only one agent does so at a time. The rows to remove are selected first, as an ARRAY: a generic
// plan does not know how few they are, and would read the whole table for IN.

import { type Instant, instantAfter } from "../../../domain/instant.ts";
import { IDEMPOTENCY_MS } from "../../limits.ts";
import { REMOVABLE } from "../../sql.ts";
import type { Retention } from "../../job_store.ts";
import type { Transaction } from "../connection.ts";
import { keepEnds } from "./machine_claims.ts";
import { deleteUnusedDefinitions } from "./rows.ts";

/** The advisory lock that keeps two agents from removing jobs at the same time. */
const RETENTION_LOCK = 8_780_005;

/** Removes the info of removed jobs, in bounded writes. @returns the number of entries */
export async function pruneInfo(tx: Transaction, entries: number): Promise<number> {
  const ids = await lockRemoved(tx, entries);
  if (ids.length === 0) return 0;
  const gone = await deleteLines(tx, ids, entries);
  await deleteEmptied(tx, ids);
  return gone;
}

/** The removed jobs whose info goes next, locked until the end of the transaction. */
async function lockRemoved(tx: Transaction, limit: number): Promise<number[]> {
  const rows = await tx.rows<{ job_id: number }>(
    "SELECT job_id FROM removed_jobs ORDER BY job_id LIMIT $1 FOR UPDATE SKIP LOCKED",
    limit,
  );
  return rows.map(({ job_id }) => job_id);
}

function deleteLines(tx: Transaction, jobs: readonly number[], limit: number): Promise<number> {
  return tx.run(
    `DELETE FROM job_log WHERE seq = ANY(ARRAY(
       SELECT seq FROM job_log WHERE job_id = ANY($1::bigint[]) ORDER BY job_id, seq LIMIT $2))`,
    jobs,
    limit,
  );
}

/** Forgets the removed jobs that have no lines any more. */
async function deleteEmptied(tx: Transaction, jobs: readonly number[]): Promise<void> {
  await tx.run(
    `DELETE FROM removed_jobs
      WHERE job_id = ANY($1::bigint[])
        AND NOT EXISTS (SELECT 1 FROM job_log WHERE job_log.job_id = removed_jobs.job_id)`,
    jobs,
  );
}

/**
 * Forgets up to `limit` expired idempotency keys, so that their jobs can be removed.
 * @returns the number of keys
 */
export async function pruneKeys(tx: Transaction, limit: number): Promise<number> {
  return await tx.run(
    `UPDATE jobs SET idempotency_key = NULL, request_sha256 = NULL, kept = kept - 1
      WHERE id = ANY(ARRAY(
       SELECT id FROM jobs WHERE request_sha256 IS NOT NULL AND created_at < $1
        ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))`,
    instantAfter(tx.now, -IDEMPOTENCY_MS),
    limit,
  );
}

/** Removes jobs that are due for removal. @returns the number of jobs */
export async function prune(tx: Transaction, retention: Retention): Promise<number> {
  if (!await isOnlyRetention(tx)) return 0;
  const jobs = await jobsToGo(tx, retention);
  if (jobs.length === 0) return 0;
  await keepEnds(tx, jobs);
  await insertRemoved(tx, jobs);
  const definitions = await deleteJobs(tx, jobs);
  await deleteDefinitions(tx, new Set(definitions));
  await deleteGoneRunners(tx);
  return definitions.length;
}

/** Takes the lock until the end of the transaction, unless another agent has it. */
async function isOnlyRetention(tx: Transaction): Promise<boolean> {
  const sql = `SELECT pg_try_advisory_xact_lock(${RETENTION_LOCK}) AS mine`;
  return (await tx.row<{ mine: boolean }>(sql))?.mine === true;
}

/** Notes the jobs whose lines are to be removed later. */
async function insertRemoved(tx: Transaction, jobs: readonly number[]): Promise<void> {
  await tx.run(
    `INSERT INTO removed_jobs
     SELECT gone.id FROM unnest($1::bigint[]) AS gone (id)
      WHERE EXISTS (SELECT 1 FROM job_log WHERE job_id = gone.id)`,
    jobs,
  );
}

/** @returns the definition of each */
async function deleteJobs(tx: Transaction, jobs: readonly number[]): Promise<number[]> {
  const rows = await tx.rows<{ definition_id: number }>(
    "DELETE FROM jobs WHERE id = ANY($1::bigint[]) RETURNING definition_id",
    jobs,
  );
  return rows.map(({ definition_id }) => definition_id);
}

/** The oldest of the jobs that are too old or beyond the limit. A job that another agent has locked is skipped. */
async function jobsToGo(
  tx: Transaction,
  { age_ms, finished_max, limit }: Retention,
): Promise<number[]> {
  const until: Instant | null = age_ms === null ? null : instantAfter(tx.now, -age_ms);
  const excess = Math.min(await excessOf(tx, finished_max), limit);
  const rows = await tx.rows<{ id: number }>(
    // Both lists start with the oldest job, so the longer one contains the other.
    `SELECT id FROM jobs WHERE id = ANY(ARRAY(
       (SELECT id FROM jobs WHERE ${REMOVABLE} ORDER BY finished_at, id LIMIT $1)
       UNION ALL
       (SELECT id FROM jobs WHERE ${REMOVABLE} AND finished_at <= $2
         ORDER BY finished_at, id LIMIT $3)))
        AND ${REMOVABLE}
      ORDER BY id FOR UPDATE SKIP LOCKED`,
    excess,
    until,
    limit,
  );
  return rows.map(({ id }) => id);
}

/**
 * The number of removable jobs beyond the limit. Other jobs do not count: otherwise each job kept for its idempotency
 * key would make a newer job go.
 */
async function excessOf(tx: Transaction, finishedMax: number): Promise<number> {
  const row = await tx.row<{ jobs: number }>(
    `SELECT count(*) AS jobs FROM jobs WHERE ${REMOVABLE}`,
  );
  return Math.max((row?.jobs ?? 0) - finishedMax, 0);
}

/**
 * Deletes definitions that no job uses, after locking them: a new job may be about to use one, and only a later
 * statement sees its row.
 */
async function deleteDefinitions(tx: Transaction, ids: ReadonlySet<number>): Promise<void> {
  const rows = await tx.rows<{ id: number }>(
    "SELECT id FROM definitions WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED",
    [...ids],
  );
  await deleteUnusedDefinitions(tx, rows.map(({ id }) => id));
}

/** Removes the leases of runners that have ended and hold no job. */
async function deleteGoneRunners(tx: Transaction): Promise<void> {
  await tx.run(
    `DELETE FROM runners
      WHERE leased_until <= $1
        AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.runner_id = runners.runner_id)`,
    tx.now,
  );
}
