// What is removed: finished jobs that are old or too many, with their results, info and callbacks,
// and after them what nobody refers to any more.

import { type Instant, instantAfter } from "../../domain/instant.ts";
import type { Retention } from "../job_store.ts";
import type { Connection } from "./connection.ts";
import { deleteUnusedDefinitions } from "./definitions.ts";
import { deleteGoneRunners } from "./rescue.ts";

/** How long a repeated request is known by its idempotency key, milliseconds: a day. */
const IDEMPOTENCY_MS = 86_400_000;

/** Removes what may go. @returns the number of jobs */
export function prune(db: Connection, retention: Retention, now: Instant): number {
  const removed = deleteFinishedJobs(db, retention);
  deleteOldKeys(db, instantAfter(now, -IDEMPOTENCY_MS));
  if (removed === 0) return 0;
  deleteEmptyCounts(db);
  deleteUnusedDefinitions(db);
  deleteGoneRunners(db, now);
  return removed;
}

/** Of finished jobs, those that undo nothing after a cancel any more, and whose callback was told. */
const AT_REST = `finished_at IS NOT NULL AND runner_id IS NULL AND claimable_at IS NULL
  AND id NOT IN (SELECT job_id FROM callbacks)`;

/** The oldest finished jobs first. */
function deleteFinishedJobs(db: Connection, retention: Retention): number {
  return db.run(
    `DELETE FROM jobs WHERE id IN (
       SELECT id FROM jobs WHERE ${AT_REST} ORDER BY finished_at
        LIMIT min(?3, max(?2, (SELECT count(*) FROM (
          SELECT 1 FROM jobs WHERE ${AT_REST} AND finished_at < ?1 LIMIT ?3)))))`,
    retention.finished_before,
    excessOf(db, retention.finished_max),
    retention.limit,
  );
}

/** Finished jobs beyond so many. */
function excessOf(db: Connection, finishedMax: number): number {
  const row = db.row<{ jobs: number | null }>(
    `SELECT sum(jobs) AS jobs FROM job_counts
      WHERE minute = '' AND execution IN ('succeeded', 'failed', 'canceled', 'retried')`,
  );
  return Math.max((row?.jobs ?? 0) - finishedMax, 0);
}

function deleteOldKeys(db: Connection, before: Instant): void {
  db.run("DELETE FROM idempotency_keys WHERE created_at < ?", before);
}

function deleteEmptyCounts(db: Connection): void {
  db.run("DELETE FROM job_counts WHERE jobs = 0 AND minute <> ''");
}
