// Attempts of tasks that failed: lines of the job's log that are no entries of its info. Of each task
// the first ones and the last ones are kept, so that a task may fail any number of times.

import {
  ATTEMPTS_KEPT,
  type FailedAttempt,
  INTERRUPTED,
  keptError,
} from "../../../domain/job/job.ts";
import { type Instant, msBetween } from "../../../domain/instant.ts";
import { executionOf, heldIn, type Phase } from "../../../domain/job/state.ts";
import type { AttemptRecord } from "../../job_store.ts";
import type { Connection } from "../connection.ts";
import { definitionOf, secretNamesOf } from "./rows.ts";
import { changingJob } from "./texts.ts";

/**
 * Records an attempt after which another one follows, unless the runner has lost the job. A record
 * that was written before is not written again. @returns whether the claim held
 */
export function recordAttempt(db: Connection, record: AttemptRecord): boolean {
  const { attempt, failures, phase, elapsed_ms, retry_at, now } = record;
  changingJob(db, record.job_uuid);
  const { state } = heldIn(phase);
  const hold = [record.job_uuid, record.runner_id, record.lease, executionOf(state), phase];
  const row = db.row<{ id: number }>(
    `UPDATE jobs SET failures = ?6 + 1, retry_at = ?7, elapsed_ms = ?8, elapsed_at = ?9
      WHERE uuid = ?1 AND runner_id = ?2 AND lease = ?3 AND execution = ?4 AND phase = ?5
        AND failures = ?6
     RETURNING id`,
    ...hold,
    failures,
    retry_at,
    Math.round(elapsed_ms),
    now,
  );
  if (row === undefined) return isRecorded(db, hold, failures + 1);
  insertAttempt(db, row.id, phase, attempt);
  return true;
}

function isRecorded(
  db: Connection,
  hold: readonly (string | number)[],
  failures: number,
): boolean {
  return db.row(
    `SELECT 1 FROM jobs
      WHERE uuid = ? AND runner_id = ? AND lease = ? AND execution = ? AND phase = ?
        AND failures = ?`,
    ...hold,
    failures,
  ) !== undefined;
}

/** Adds an attempt to the log of its job, and removes the one of its task that is kept no longer. */
export function insertAttempt(
  db: Connection,
  id: number,
  phase: Phase,
  attempt: FailedAttempt,
): void {
  const { index, attempt: number, fallback, finished_at, ...shown } = attempt;
  db.run(
    `INSERT INTO job_log (job_id, phase, task, attempt, entry, created_at)
     VALUES (?, ?, ?, ?, ?, ?)`,
    id,
    phase,
    index,
    number,
    JSON.stringify({
      ...shown,
      ...(fallback ? { fallback } : {}),
      error: keptError(attempt.error, () => secretNamesOf(db, id)),
    }),
    finished_at,
  );
  db.run(
    `DELETE FROM job_log
      WHERE job_id = ?1 AND phase = ?2 AND task = ?3 AND attempt > ?4 AND attempt <= ?5`,
    id,
    phase,
    index,
    ATTEMPTS_KEPT.first,
    number - ATTEMPTS_KEPT.last,
  );
}

/** The columns of a job whose present attempt ended with its runner. */
interface BrokenOff {
  readonly id: number;
  readonly phase: Phase;
  readonly definition_id: number;
  readonly starts: number;
  readonly failures: number;
  readonly elapsed_at: Instant;
  readonly retry_at: Instant | null;
}

/**
 * Records the attempt of a held job that ended with its runner, if there was one.
 * @returns false when the job was waiting for its next attempt
 */
export function insertInterrupted(db: Connection, id: number, now: Instant): boolean {
  const row = db.row<BrokenOff & { readonly index: number }>(
    `SELECT id, phase, definition_id, starts, failures, elapsed_at, retry_at,
            (SELECT count(*) FROM task_results
              WHERE job_id = jobs.id AND phase = jobs.phase) AS "index"
       FROM jobs WHERE id = ? AND runner_id IS NOT NULL`,
    id,
  );
  if (row === undefined) return true;
  const task = definitionOf(db, row.definition_id)[row.phase][row.index];
  // The phase had come to its end, which was not recorded yet.
  if (task === undefined) return true;
  const leftMs = row.retry_at === null ? 0 : msBetween(now, row.retry_at);
  // More than the whole delay is left only by a clock that was set back.
  if (leftMs > 0 && leftMs <= (task.retry_delay ?? 0) * 1000) return false;
  const { retry_at, elapsed_at } = row;
  const started_at = retry_at !== null && retry_at > elapsed_at ? retry_at : elapsed_at;
  insertAttempt(db, id, row.phase, {
    task: task.name ?? task.uuid,
    index: row.index,
    attempt: row.starts + row.failures,
    fallback: false,
    error: INTERRUPTED,
    started_at,
    // The clock may have been set back.
    finished_at: now < started_at ? started_at : now,
    wait_seconds: 0,
  });
  return true;
}
