// Runners and what they leave behind. A runner that holds jobs renews its lease; when it does not,
// its jobs may be taken by another, and nothing that it writes afterwards counts.

import type { RunnerId, WorkflowUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { Connection } from "../connection.ts";

/** Says that a runner lives, and until when nobody else takes its jobs. */
export function renewLease(db: Connection, runner: RunnerId, until: Instant): void {
  db.run(
    `INSERT INTO runners (runner_id, leased_until) VALUES (?1, ?2)
     ON CONFLICT (runner_id) DO UPDATE SET leased_until = ?2`,
    runner,
    until,
  );
}

/**
 * Makes claimable again what runners without a lease hold and, with `own`, what this one held in an
 * earlier life. Their starts stay counted. @returns how many jobs
 */
export function rescueJobs(db: Connection, runner: RunnerId, now: Instant, own: boolean): number {
  const left = db.rows<{ id: number; workflow_uuid: WorkflowUuid }>(
    `UPDATE jobs
        SET execution = CASE execution WHEN 'running' THEN 'queued' ELSE execution END,
            runner_id = NULL, claimable_at = ?2
      WHERE runner_id IS NOT NULL
        AND CASE runner_id WHEN ?1 THEN ?3
              ELSE runner_id NOT IN (SELECT runner_id FROM runners WHERE leased_until > ?2) END
     RETURNING id, workflow_uuid`,
    runner,
    now,
    own ? 1 : 0,
  );
  // The order of their creation, which RETURNING does not promise.
  left.sort((a, b) => a.id - b.id);
  for (const { id, workflow_uuid } of left) giveTurn(db, id, workflow_uuid);
  return left.length;
}

/** Forgets runners whose lease is over and which hold nothing. */
export function deleteGoneRunners(db: Connection, now: Instant): number {
  return db.run(
    `DELETE FROM runners WHERE leased_until <= ?
        AND runner_id NOT IN (SELECT runner_id FROM jobs WHERE runner_id IS NOT NULL)`,
    now,
  );
}

// Turns: the order in which ready jobs are claimed, fair between workflows (start-time fair
// queueing). A job that becomes ready takes the turn after the last one of its own workflow, or the
// one after the turn that is next to be claimed when its workflow has none. A workflow with a
// thousand ready jobs holds a thousand turns in a row; a job of another one stands beside the second
// of them, not behind the last. Claiming is then a walk along one index, however many jobs and workflows there are.
//
// A ready job is claimed whatever the clock says later: a clock that is set back delays nothing.

/** Delayed jobs that become ready in one write; more are left for the next. */
const READY_MAX = 1000;

/**
 * The turn of a job of this workflow that becomes ready now. Never the first one itself: those who
 * stand there would be kept waiting by jobs that come back as fast as they are claimed.
 */
export function nextTurn(db: Connection, workflow: WorkflowUuid): number {
  const row = db.row<{ turn: number }>(
    `SELECT coalesce(
       (SELECT max(turn) + 1 FROM jobs WHERE workflow_uuid = ? AND turn IS NOT NULL),
       (SELECT min(turn) + 1 FROM jobs WHERE turn IS NOT NULL),
       0) AS turn`,
    workflow,
  );
  return row?.turn ?? 0;
}

/** Gives turns to the delayed jobs whose time has come, the longest due first. */
export function readyDelayedJobs(db: Connection, now: Instant): void {
  const due = db.rows<{ id: number; workflow_uuid: WorkflowUuid }>(
    `SELECT id, workflow_uuid FROM jobs
      WHERE claimable_at <= ? AND turn IS NULL ORDER BY claimable_at, id LIMIT ${READY_MAX}`,
    now,
  );
  for (const { id, workflow_uuid } of due) giveTurn(db, id, workflow_uuid);
}

/** Gives a claimable job its turn. */
export function giveTurn(db: Connection, id: number, workflow: WorkflowUuid): void {
  db.run("UPDATE jobs SET turn = ? WHERE id = ?", nextTurn(db, workflow), id);
}
