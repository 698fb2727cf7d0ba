// What is removed: finished jobs that are old or too many, with their results and callbacks, and
// after them their info and what nobody refers to any more.

import { type Instant, instantAfter } from "../../../domain/instant.ts";
import type { Retention } from "../../job_store.ts";
import type { Connection } from "../connection.ts";
import { jobRow } from "./texts.ts";
import { deleteUnusedDefinitions } from "./rows.ts";
import { deleteGoneRunners } from "./leases.ts";
import { keepEnds } from "../machine_claims.ts";
import { FINISHED } from "./moves.ts";
import { REMOVABLE } from "../schema.ts";

/** How long a repeated request is known by its idempotency key, milliseconds: a day. */
const IDEMPOTENCY_MS = 86_400_000;

/** Removes info of the jobs that are gone, which may be much. @returns the entries */
export function pruneInfo(db: Connection, entries: number): number {
  let left = entries;
  for (const id of selectRemovedJobs(db, entries)) {
    left -= deleteInfo(db, id, left);
    if (left <= 0) break;
    db.run("DELETE FROM removed_jobs WHERE job_id = ?", id);
  }
  return entries - left;
}

/** The oldest removed jobs with info left: each has one entry at least. */
function selectRemovedJobs(db: Connection, limit: number): number[] {
  return db.rows<{ job_id: number }>(
    "SELECT job_id FROM removed_jobs ORDER BY job_id LIMIT ?",
    limit,
  ).map(({ job_id }) => job_id);
}

/**
 * Forgets the oldest idempotency keys that are over, so many at the most: their jobs may go then.
 * @returns how many keys
 */
export function pruneKeys(db: Connection, now: Instant, limit: number): number {
  return db.run(
    `DELETE FROM idempotency_keys WHERE key IN (
       SELECT key FROM idempotency_keys WHERE created_at < ? ORDER BY created_at LIMIT ?)`,
    instantAfter(now, -IDEMPOTENCY_MS),
    limit,
  );
}

/** Removes what may go. @returns the number of jobs */
export function prune(db: Connection, retention: Retention, now: Instant): number {
  const jobs = jobsToGo(db, retention);
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

/** Those that are too old, and then the oldest while there are too many. */
function jobsToGo(db: Connection, retention: Retention): number[] {
  const { finished_before, finished_max, limit } = retention;
  const old = selectOldJobs(db, finished_before, limit);
  const excess = Math.min(excessOf(db, finished_max), limit);
  // Both begin with the oldest: the longer list holds the other.
  return excess > old.length ? selectOldestJobs(db, excess) : old;
}

function selectOldJobs(db: Connection, before: Instant, limit: number): number[] {
  return db.rows<{ id: number }>(
    `SELECT id FROM jobs INDEXED BY jobs_removable
      WHERE ${REMOVABLE} AND finished_at < ? ORDER BY finished_at LIMIT ?`,
    before,
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

/** Finished jobs beyond so many. */
function excessOf(db: Connection, finishedMax: number): number {
  const row = db.row<{ jobs: number | null }>(
    `SELECT sum(jobs) AS jobs FROM job_counts
      WHERE minute = '' AND execution IN ${FINISHED}`,
  );
  return Math.max((row?.jobs ?? 0) - finishedMax, 0);
}

function deleteInfo(db: Connection, job: number, limit: number): number {
  return db.run(
    `DELETE FROM job_log WHERE seq IN (
       SELECT seq FROM job_log WHERE job_id = ?1 ORDER BY seq LIMIT ?2)`,
    job,
    limit,
  );
}

/** The info of a job is removed after it, when there is any. */
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
