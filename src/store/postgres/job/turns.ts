// Turns: the order in which the ready jobs of one queue are claimed, fair between workflows. How they are given is
// described in sqlite/job/turns.ts. Agents that give turns at the same time may give one twice: then the older job is
// claimed first.

import type { WorkflowUuid } from "../../../domain/id.ts";
import { READY_MAX } from "../../rules.ts";
import type { Transaction } from "../connection.ts";

/** The turn of a job of this workflow that becomes ready now. */
export async function nextTurn(
  tx: Transaction,
  queue: string,
  workflow: WorkflowUuid,
): Promise<number> {
  const row = await tx.row<{ turn: number }>(
    `SELECT coalesce(
       (SELECT max(turn) + 1 FROM jobs WHERE queue = $1 AND workflow_uuid = $2 AND turn IS NOT NULL),
       (SELECT min(turn) + 1 FROM jobs WHERE queue = $1 AND turn IS NOT NULL),
       0) AS turn`,
    queue,
    workflow,
  );
  return row?.turn ?? 0;
}

/** Gives turns to the delayed jobs of some queues that have become due, longest overdue first. */
export async function readyDelayedJobs(tx: Transaction, queues: readonly string[]): Promise<void> {
  // By itself each queue is in the order of its index.
  for (const queue of queues) {
    const due = await tx.rows<{ id: number; workflow_uuid: WorkflowUuid }>(
      `SELECT id, workflow_uuid FROM jobs
        WHERE queue = $1 AND claimable_at <= $2 AND turn IS NULL
        ORDER BY claimable_at, id LIMIT ${READY_MAX} FOR UPDATE SKIP LOCKED`,
      queue,
      tx.now,
    );
    for (const { id, workflow_uuid } of due) {
      await writeTurn(tx, id, await nextTurn(tx, queue, workflow_uuid));
    }
  }
}

/**
 * Gives a claimable job its turn.
 * @throws {Error} when the job is not claimable, or has a turn already
 */
export async function writeTurn(tx: Transaction, id: number, turn: number): Promise<void> {
  const given = await tx.run(
    "UPDATE jobs SET turn = $1 WHERE id = $2 AND claimable_at IS NOT NULL AND turn IS NULL",
    turn,
    id,
  );
  if (given !== 1) throw new Error(`Cannot give job ${id} a turn: it is not as it was read`);
}
