// Removes finished jobs that are too old or too many, with their results and callbacks, and afterwards their
// info and unreferenced definitions.

import { type Instant, instantAfter } from "../../../domain/instant.ts";
import { IDEMPOTENCY_MS } from "../../limits.ts";
import { REMOVABLE } from "../../sql.ts";
import type { Retention } from "../../job_store.ts";
import type { Connection } from "../connection.ts";
import { countRemovable } from "./counts.ts";
import { jobRow } from "./texts.ts";
import { deleteUnusedDefinitions } from "./rows.ts";
import { deleteGoneRunners } from "./leases.ts";
import { keepEnds } from "./machine_claims.ts";

/** Removes info of removed jobs, in bounded writes. @returns the number of entries */
export function pruneInfo(db: Connection, entries: number): number {
  let left = entries;
  for (const id of selectRemovedJobs(db, entries)) {
    left -= deleteInfo(db, id, left);
    if (left <= 0) break;
    deleteRemovedJob(db, id);
  }
  return entries - left;
}

function deleteRemovedJob(db: Connection, id: number): void {
  db.run("DELETE FROM removed_jobs WHERE job_id = ?", id);
}

/** The oldest removed jobs with info left; each has at least one entry. */
function selectRemovedJobs(db: Connection, limit: number): number[] {
  return db.rows<{ job_id: number }>(
    "SELECT job_id FROM removed_jobs ORDER BY job_id LIMIT ?",
    limit,
  ).map(({ job_id }) => job_id);
}

/**
 * Forgets up to `limit` expired idempotency keys, so that their jobs can be removed.
 * @returns the number of keys
 */
export function pruneKeys(db: Connection, now: Instant, limit: number): number {
  return db.run(
    `DELETE FROM idempotency_keys WHERE key IN (
       SELECT key FROM idempotency_keys WHERE created_at < ? ORDER BY created_at LIMIT ?)`,
    instantAfter(now, -IDEMPOTENCY_MS),
    limit,
  );
}

/** Removes jobs that are due for removal. @returns the number of jobs */
export function prune(db: Connection, retention: Retention, now: Instant): number {
  // One counter is read, and triggers lower the others.
  db.counters.write();
  const jobs = jobsToGo(db, retention, now);
  if (jobs.length === 0) return 0;
  keepEnds(db, jobs);
  const definitions = new Set<number>();
  for (const id of jobs) {
    db.readers.changing(jobRow(id));
    noteInfoLeft(db, id);
    definitions.add(deleteJob(db, id));
  }
  deleteUnusedDefinitions(db, definitions);
  deleteGoneRunners(db, now);
  return jobs.length;
}

/** Jobs that are too old, then the oldest of those beyond the limit. */
function jobsToGo(
  db: Connection,
  { age_ms, finished_max, limit }: Retention,
  now: Instant,
): number[] {
  const old = age_ms === null ? [] : selectOldJobs(db, instantAfter(now, -age_ms), limit);
  const excess = Math.min(excessOf(db, finished_max), limit);
  // Both lists start with the oldest job, so the longer one contains the other.
  return excess > old.length ? selectOldestJobs(db, excess) : old;
}

function selectOldJobs(db: Connection, until: Instant, limit: number): number[] {
  return db.rows<{ id: number }>(
    `SELECT id FROM jobs INDEXED BY jobs_removable
      WHERE ${REMOVABLE} AND finished_at <= ? ORDER BY finished_at LIMIT ?`,
    until,
    limit,
  ).map(({ id }) => id);
}

function selectOldestJobs(db: Connection, limit: number): number[] {
  return db.rows<{ id: number }>(
    `SELECT id FROM jobs INDEXED BY jobs_removable WHERE ${REMOVABLE}
      ORDER BY finished_at LIMIT ?`,
    limit,
  ).map(({ id }) => id);
}

/**
 * The number of removable jobs beyond the limit. Other jobs do not count: otherwise each job kept for its idempotency
 * key would make a newer job go.
 */
function excessOf(db: Connection, finishedMax: number): number {
  return Math.max(countRemovable(db) - finishedMax, 0);
}

function deleteInfo(db: Connection, job: number, limit: number): number {
  return db.run(
    `DELETE FROM job_log WHERE seq IN (
       SELECT seq FROM job_log WHERE job_id = ?1 ORDER BY seq LIMIT ?2)`,
    job,
    limit,
  );
}

/** Marks the job's info, if any, for later removal. */
function noteInfoLeft(db: Connection, id: number): void {
  db.run(
    "INSERT INTO removed_jobs SELECT ?1 WHERE EXISTS (SELECT 1 FROM job_log WHERE job_id = ?1)",
    id,
  );
}

/** @returns the definition that the job had */
function deleteJob(db: Connection, id: number): number {
  const row = db.row<{ definition_id: number }>(
    "DELETE FROM jobs WHERE id = ? RETURNING definition_id",
    id,
  );
  if (row === undefined) throw new Error(`Cannot remove job ${id}: its row is missing`);
  return row.definition_id;
}
