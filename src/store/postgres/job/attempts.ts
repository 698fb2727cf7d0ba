// Failed attempts of tasks, as sqlite/job/attempts.ts keeps them.

import { instantAfter, MS_PER_SECOND } from "../../../domain/instant.ts";
import { ATTEMPTS_KEPT, type FailedAttempt } from "../../../domain/job/job.ts";
import { executionOf, heldIn, type Phase } from "../../../domain/job/state.ts";
import type { AttemptRecord } from "../../job_store.ts";
import type { Transaction } from "../connection.ts";
import type { BoundValue } from "../server.ts";
import { definitionOf, secretNamesOf } from "./rows.ts";
import type { BrokenOff } from "../../columns.ts";
import { attemptText, interruptedAttempt } from "../../rules.ts";

/**
 * Records a failed attempt that will be repeated, unless the runner has lost the job. Writing the same
 * record again has no effect. @returns whether the claim held
 */
export async function recordAttempt(tx: Transaction, record: AttemptRecord): Promise<boolean> {
  const { attempt, failures, phase, elapsed_ms } = record;
  const { state } = heldIn(phase);
  const hold = [record.job_uuid, record.runner_id, record.lease, executionOf(state), phase];
  const row = await tx.row<{ id: number }>(
    `UPDATE jobs SET failures = $6::bigint + 1, retry_at = $7, elapsed_ms = $8, elapsed_at = $9,
            params = $10, props = $11,
            requested_params = coalesce(requested_params, CASE WHEN params <> $10 THEN params END)
      WHERE uuid = $1 AND runner_id = $2 AND lease = $3 AND execution = $4 AND phase = $5
        AND failures = $6::bigint
     RETURNING id`,
    ...hold,
    failures,
    instantAfter(tx.now, attempt.wait_seconds * MS_PER_SECOND),
    Math.round(elapsed_ms),
    tx.now,
    JSON.stringify(record.params),
    JSON.stringify(record.props),
  );
  if (row === undefined) return await isRecorded(tx, hold, failures + 1);
  await insertAttempt(tx, row.id, phase, attempt);
  return true;
}

async function isRecorded(
  tx: Transaction,
  hold: readonly BoundValue[],
  failures: number,
): Promise<boolean> {
  const row = await tx.row(
    `SELECT 1 AS found FROM jobs
      WHERE uuid = $1 AND runner_id = $2 AND lease = $3 AND execution = $4 AND phase = $5
        AND failures = $6`,
    ...hold,
    failures,
  );
  return row !== undefined;
}

/** Adds an attempt to the log of its job, and drops an older one beyond the limit. */
export async function insertAttempt(
  tx: Transaction,
  id: number,
  phase: Phase,
  attempt: FailedAttempt,
): Promise<void> {
  const secrets = await secretNamesOf(tx, id);
  await tx.run(
    `INSERT INTO job_log (job_id, phase, task, attempt, entry, created_at)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    id,
    phase,
    attempt.index,
    attempt.attempt,
    attemptText(attempt, () => secrets),
    attempt.finished_at,
  );
  await deleteMiddleAttempt(tx, id, phase, attempt);
}

/** Keeps the first and the last attempts of a task: each new one displaces one in the middle. */
async function deleteMiddleAttempt(
  tx: Transaction,
  id: number,
  phase: Phase,
  { index, attempt: number }: FailedAttempt,
): Promise<void> {
  await tx.run(
    `DELETE FROM job_log
      WHERE job_id = $1 AND phase = $2 AND task = $3 AND attempt > $4 AND attempt <= $5`,
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
export async function insertInterrupted(tx: Transaction, id: number): Promise<boolean> {
  const row = await tx.row<BrokenOff>(
    `SELECT id, phase, definition_id, starts, failures, elapsed_at, retry_at,
            (SELECT count(*) FROM task_results
              WHERE job_id = jobs.id AND task_results.phase = jobs.phase) AS "index"
       FROM jobs WHERE id = $1 AND runner_id IS NOT NULL`,
    id,
  );
  if (row === undefined) return true;
  const task = (await definitionOf(tx, row.definition_id))[row.phase][row.index];
  // The phase was complete, but its end not yet recorded.
  if (task === undefined) return true;
  const attempt = interruptedAttempt(row, task, tx.now);
  if (attempt === undefined) return false;
  await insertAttempt(tx, id, row.phase, attempt);
  return true;
}
