// Failed attempts of tasks: lines of the job's log that are not in its info. Only the first and the last
// attempts of each task are kept, so that a task may fail any number of times.

import { ATTEMPTS_KEPT, type FailedAttempt } from "../../../domain/job/job.ts";
import { type Instant, instantAfter, MS_PER_SECOND } from "../../../domain/instant.ts";
import { executionOf, heldIn, type Phase } from "../../../domain/job/state.ts";
import type { AttemptRecord } from "../../job_store.ts";
import type { Connection } from "../connection.ts";
import { definitionOf, secretNamesOf } from "./rows.ts";
import { changingJob } from "./texts.ts";
import { traceAttempt } from "./traces.ts";
import type { BrokenOff } from "../../columns.ts";
import { attemptText, interruptedAttempt } from "../../rules.ts";

/**
 * Records a failed attempt that will be repeated, unless the runner has lost the job. Writing the same
 * record again has no effect. @returns whether the claim held
 */
export function recordAttempt(db: Connection, record: AttemptRecord, now: Instant): boolean {
  const { attempt, failures, phase, elapsed_ms } = record;
  changingJob(db, record.job_uuid);
  const { state } = heldIn(phase);
  const hold = [record.job_uuid, record.runner_id, record.lease, executionOf(state), phase];
  const row = db.row<{ id: number }>(
    `UPDATE jobs SET failures = ?6 + 1, retry_at = ?7, elapsed_ms = ?8, elapsed_at = ?9,
            params = ?10, props = ?11,
            requested_params = coalesce(requested_params, CASE WHEN params <> ?10 THEN params END)
      WHERE uuid = ?1 AND runner_id = ?2 AND lease = ?3 AND execution = ?4 AND phase = ?5
        AND failures = ?6
     RETURNING id`,
    ...hold,
    failures,
    instantAfter(now, attempt.wait_seconds * MS_PER_SECOND),
    Math.round(elapsed_ms),
    now,
    JSON.stringify(record.params),
    JSON.stringify(record.props),
  );
  if (row === undefined) return isRecorded(db, hold, failures + 1);
  traceAttempt(db, row.id, executionOf(state), phase, now);
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

/** Adds an attempt to the log of its job, and drops an older one beyond the limit. */
export function insertAttempt(
  db: Connection,
  id: number,
  phase: Phase,
  attempt: FailedAttempt,
): void {
  db.run(
    `INSERT INTO job_log (job_id, phase, task, attempt, entry, created_at)
     VALUES (?, ?, ?, ?, ?, ?)`,
    id,
    phase,
    attempt.index,
    attempt.attempt,
    attemptText(attempt, () => secretNamesOf(db, id)),
    attempt.finished_at,
  );
  deleteMiddleAttempt(db, id, phase, attempt);
}

/** Keeps the first and the last attempts of a task: each new one displaces one in the middle. */
function deleteMiddleAttempt(
  db: Connection,
  id: number,
  phase: Phase,
  { index, attempt: number }: FailedAttempt,
): void {
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

/**
 * Records the attempt that was cut off with the runner of a held job, if any.
 * @returns false when the job was waiting for its next attempt
 */
export function insertInterrupted(db: Connection, id: number, now: Instant): boolean {
  const row = db.row<BrokenOff>(
    `SELECT id, phase, definition_id, starts, failures, elapsed_at, retry_at,
            (SELECT count(*) FROM task_results
              WHERE job_id = jobs.id AND phase = jobs.phase) AS "index"
       FROM jobs WHERE id = ? AND runner_id IS NOT NULL`,
    id,
  );
  if (row === undefined) return true;
  const task = definitionOf(db, row.definition_id)[row.phase][row.index];
  // The phase was complete, but its end not yet recorded.
  if (task === undefined) return true;
  const attempt = interruptedAttempt(row, task, now);
  if (attempt === undefined) return false;
  insertAttempt(db, id, row.phase, attempt);
  return true;
}
