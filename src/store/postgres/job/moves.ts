// The columns of a job's state: locked for a decision of domain/job/state.ts, and written as decided.

import type { JobUuid } from "../../../domain/id.ts";
import { type Instant, msBetween } from "../../../domain/instant.ts";
import {
  executionOf,
  isClaimable,
  isHeld,
  type Move,
  startsAfter,
} from "../../../domain/job/state.ts";
import type { Transaction } from "../connection.ts";
import { RowChanged } from "../errors.ts";
import { standingOf, type StateRow } from "../../sql.ts";
import { changedNotice, queuedNotice } from "../notices.ts";
import { nextTurn } from "./turns.ts";

/** The columns of SharedStateRow, for SELECT on `jobs`. */
export const STATE_COLUMNS =
  `id, uuid, queue, workflow_uuid, execution, phase, undoable, claimable_at,
  started_at, elapsed_ms, elapsed_at, runner_id, lease, starts, callback_host`;

/** A job before a decision, with its queue. */
export interface SharedStateRow extends Omit<StateRow, "undoable"> {
  readonly queue: string;
  readonly undoable: boolean;
}

/** Locks the state of a job for a decision; undefined when the job does not exist. */
export function lockState(tx: Transaction, uuid: JobUuid): Promise<SharedStateRow | undefined> {
  return tx.row<SharedStateRow>(
    `SELECT ${STATE_COLUMNS} FROM jobs WHERE uuid = $1 FOR UPDATE`,
    uuid,
  );
}

/**
 * Writes the move of a job. A job that becomes claimable gets its turn.
 * @param elapsed_ms milliseconds that the phase has run, if they have changed
 * @param error why a task failed with this move; a job keeps its first error
 * @throws {RowChanged} when the job changed after it was read
 */
export async function writeMove(
  tx: Transaction,
  row: SharedStateRow,
  move: Move,
  elapsed_ms: number | null = null,
  error: string | null = null,
): Promise<void> {
  const claimable = isClaimable(move.to);
  const written = await tx.run(
    `UPDATE jobs
        SET execution = $6, phase = $7, runner_id = CASE WHEN $8 THEN runner_id END,
            claimable_at = CASE WHEN $9 THEN $10::text END, turn = $11, starts = $12,
            finished_at = CASE WHEN $13 THEN greatest($10::text COLLATE "C", started_at)
                          ELSE finished_at END,
            phases_ms = phases_ms +
              CASE WHEN phase = $7 THEN 0 ELSE coalesce($14::bigint, elapsed_ms) END,
            elapsed_ms = CASE WHEN phase = $7 THEN coalesce($14::bigint, elapsed_ms) ELSE 0 END,
            elapsed_at = CASE WHEN $8 THEN $10::text END,
            failures = CASE WHEN phase = $7 THEN failures ELSE 0 END,
            retry_at = CASE WHEN phase = $7 THEN retry_at END,
            error = coalesce(error, $15)
      WHERE id = $1 AND execution = $2 AND phase = $3 AND runner_id IS NOT DISTINCT FROM $4
        AND lease = $5`,
    row.id,
    row.execution,
    row.phase,
    row.runner_id,
    row.lease,
    executionOf(move.to),
    move.phase,
    isHeld(move.to),
    claimable,
    tx.now,
    claimable ? await nextTurn(tx, row.queue, row.workflow_uuid) : null,
    startsAfter(move, row.starts),
    move.ends,
    elapsed_ms === null ? null : Math.round(elapsed_ms),
    error,
  );
  if (written !== 1) {
    throw new RowChanged(`Cannot move job ${row.uuid}: it changed after it was read`);
  }
  noteMove(tx, row, move);
  // The request that canceled the job waits until it has stopped.
  if (standingOf(row).state === "stopping") tx.notify(changedNotice(row.uuid));
}

/** Milliseconds that the phase of a held job has run; null if no runner holds it. */
export function ranMs(
  { elapsed_at, elapsed_ms }: Pick<SharedStateRow, "elapsed_at" | "elapsed_ms">,
  now: Instant,
): number | null {
  return elapsed_at === null ? null : elapsed_ms + Math.max(msBetween(elapsed_at, now), 0);
}

/** Notifies other agents of a move: those that may claim the job, and those with requests that wait for it. */
export function noteMove(
  tx: Transaction,
  { uuid, queue }: Pick<SharedStateRow, "uuid" | "queue">,
  move: Move,
): void {
  if (isClaimable(move.to)) tx.notify(queuedNotice(queue));
  if (move.ends || move.to === "waiting") tx.notify(changedNotice(uuid));
}
