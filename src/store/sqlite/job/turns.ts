// Turns: the order in which ready jobs are claimed, fair between workflows (start-time fair queueing). A job that
// becomes ready gets the turn after the last one of its own workflow; if its workflow has none, it gets the turn after
// the one that is claimed next. A workflow with a thousand ready jobs has a thousand successive turns, and a job of
// another workflow gets the same turn as the second of them instead of a later one than the last. Claiming follows one
// index, however many jobs and workflows there are.
//
// A ready job is claimed whatever the clock says later, so a clock that is set back delays nothing.

import type { WorkflowUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import { READY_MAX } from "../../limits.ts";
import type { Connection } from "../connection.ts";
import { discardClaimable } from "./claimable_jobs.ts";

/** SQL for the turn of a job that becomes ready; see nextTurn(). @param workflow the parameter of its workflow */
export const nextTurnSql = (workflow: string) =>
  `coalesce(
     (SELECT max(turn) + 1 FROM jobs WHERE workflow_uuid = ${workflow} AND turn IS NOT NULL),
     (SELECT min(turn) + 1 FROM jobs WHERE turn IS NOT NULL),
     0)`;
const NEXT_TURN = `SELECT ${nextTurnSql("?")} AS turn`;

/**
 * The turn of a job of this workflow that becomes ready now. It is never the very first turn: jobs that are queued
 * again as fast as they are claimed would starve the jobs that wait there.
 */
export function nextTurn(db: Connection, workflow: WorkflowUuid): number {
  discardClaimable(db, "turns");
  db.becameClaimable();
  return db.row<{ turn: number }>(NEXT_TURN, workflow)?.turn ?? 0;
}

const CACHED_OVERDUE = "overdue";

/** Call when a delayed job starts without a turn: jobs after it may have none either. */
export function noteOverdue(db: Connection): void {
  db.cached(CACHED_OVERDUE, "", () => ({ value: true, chars: 0 }));
}

/** Assigns turns to overdue jobs that have none. */
export function readyOverdueJobs(db: Connection, now: Instant): void {
  if (db.keptAlready<true>(CACHED_OVERDUE, "") === undefined) return;
  db.forget(CACHED_OVERDUE, "");
  readyDelayedJobs(db, now);
}

/** Assigns turns to delayed jobs that have become due, longest overdue first. */
export function readyDelayedJobs(db: Connection, now: Instant): void {
  const due = db.rows<{ id: number; workflow_uuid: WorkflowUuid }>(
    `SELECT id, workflow_uuid FROM jobs
      WHERE claimable_at <= ? AND turn IS NULL ORDER BY claimable_at, id LIMIT ${READY_MAX}`,
    now,
  );
  if (due.length > 0) discardClaimable(db, "delayed");
  const next = new Map<WorkflowUuid, number>();
  for (const { id, workflow_uuid } of due) {
    const turn = next.get(workflow_uuid) ?? nextTurn(db, workflow_uuid);
    writeTurn(db, id, turn);
    next.set(workflow_uuid, turn + 1);
  }
}

/**
 * Assigns a claimable job its turn.
 * @throws {Error} when the job is not claimable, or already has a turn
 */
export function giveTurn(db: Connection, id: number, workflow: WorkflowUuid): void {
  writeTurn(db, id, nextTurn(db, workflow));
}

function writeTurn(db: Connection, id: number, turn: number): void {
  const given = db.run(
    "UPDATE jobs SET turn = ? WHERE id = ? AND claimable_at IS NOT NULL AND turn IS NULL",
    turn,
    id,
  );
  if (given !== 1) throw new Error(`Cannot give job ${id} a turn: it changed after it was read`);
}
