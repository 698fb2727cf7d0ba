// The state of a job as columns, read for a decision of domain/job/state.ts and written as decided. Every write
// is conditional on the state that was read, so it never changes a job that has moved since.

import type { JobUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import {
  executionOf,
  isClaimable,
  isHeld,
  type Move,
  startsAfter,
} from "../../../domain/job/state.ts";
import { standingOf, type StateRow } from "../../sql.ts";
import type { Connection } from "../connection.ts";
import { TRACED_COLUMNS, type TracedRow, traceMove } from "./traces.ts";
import { nextTurn } from "./turns.ts";

/** The columns of StateRow, for SELECT on `jobs`. */
export const STATE_COLUMNS = `id, uuid, workflow_uuid, execution, phase, undoable, claimable_at,
  started_at, elapsed_ms, elapsed_at, runner_id, lease, starts, callback_host`;

/** Reads the columns that a decision needs; undefined when the job is missing. */
export function selectState(db: Connection, uuid: JobUuid): StateRow | undefined {
  return db.row<StateRow>(`SELECT ${STATE_COLUMNS} FROM jobs WHERE uuid = ?`, uuid);
}

/**
 * Writes the move of a job that was read in the same transaction; a job that becomes claimable gets its
 * turn.
 * @param elapsed_ms milliseconds the phase has run, when they have changed
 * @param error why a task failed with this move; the first error of a job stays
 * @throws {Error} when the job changed after it was read
 */
export function writeMove(
  db: Connection,
  row: StateRow,
  move: Move,
  now: Instant,
  elapsed_ms: number | null = null,
  error: string | null = null,
): void {
  const claimable = isClaimable(move.to);
  db.fresh.delete(row.uuid);
  const written = db.row<TracedRow>(
    `UPDATE jobs
        SET execution = ?6, phase = ?7, runner_id = CASE WHEN ?8 THEN runner_id END,
            claimable_at = CASE WHEN ?9 THEN ?10 END, turn = ?11, starts = ?12,
            finished_at = CASE WHEN ?13 THEN max(?10, coalesce(started_at, ?10))
                          ELSE finished_at END,
            phases_ms = phases_ms + CASE phase WHEN ?7 THEN 0 ELSE coalesce(?14, elapsed_ms) END,
            elapsed_ms = CASE phase WHEN ?7 THEN coalesce(?14, elapsed_ms) ELSE 0 END,
            elapsed_at = CASE WHEN ?8 THEN ?10 END,
            failures = CASE phase WHEN ?7 THEN failures ELSE 0 END,
            retry_at = CASE phase WHEN ?7 THEN retry_at END,
            error = coalesce(error, ?15)
      WHERE id = ?1 AND execution = ?2 AND phase = ?3 AND runner_id IS ?4 AND lease = ?5
     RETURNING ${TRACED_COLUMNS}`,
    row.id,
    row.execution,
    row.phase,
    row.runner_id,
    row.lease,
    executionOf(move.to),
    move.phase,
    Number(isHeld(move.to)),
    Number(claimable),
    now,
    claimable ? nextTurn(db, row.workflow_uuid) : null,
    startsAfter(move, row.starts),
    Number(move.ends),
    elapsed_ms === null ? null : Math.round(elapsed_ms),
    error,
  );
  if (written === undefined) {
    throw new Error(`Cannot move job ${row.uuid}: it changed after it was read`);
  }
  traceMove(db, written, standingOf(row), move, now);
  noteMove(db, row.uuid, move);
}

/** Notifies requests that wait for the job. */
export function noteMove(db: Connection, uuid: JobUuid, move: Move): void {
  if (move.ends || move.to === "waiting") db.notify({ kind: "changed", job_uuid: uuid });
}
