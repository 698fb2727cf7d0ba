// Turns: the order in which the ready jobs of a queue are claimed, fair between workflows. sqlite/job/turns.ts
// describes how they are assigned. Two agents may assign the same turn at the same time; then the older job is claimed
// first.

import type { WorkflowUuid } from "../../../domain/id.ts";
import { READY_MAX } from "../../limits.ts";
import type { Transaction } from "../connection.ts";
import { type ColumnTypes, tableOf, Values } from "../statements.ts";

/** A job that becomes ready. */
interface ReadyJob {
  readonly queue: string;
  readonly workflow_uuid: WorkflowUuid;
}

const READY_TYPES: ColumnTypes<ReadyJob> = { queue: "text", workflow_uuid: "text" };

/** The turn of a job that becomes ready now. */
export async function nextTurn(
  tx: Transaction,
  queue: string,
  workflow_uuid: WorkflowUuid,
): Promise<number> {
  const [turn = 0] = await nextTurns(tx, [{ queue, workflow_uuid }]);
  return turn;
}

/** The turns of jobs that become ready now, one after another. */
export async function nextTurns(tx: Transaction, ready: readonly ReadyJob[]): Promise<number[]> {
  if (ready.length === 0) return [];
  const keyOf = ({ queue, workflow_uuid }: ReadyJob) => `${queue} ${workflow_uuid}`;
  const distinct = new Map(ready.map((job) => [keyOf(job), job]));
  const values = new Values();
  const rows = await tx.rows<
    ReadyJob & { readonly last: number | null; readonly first: number | null }
  >(
    `SELECT queue, workflow_uuid,
            (SELECT max(turn) FROM jobs
              WHERE jobs.queue = new.queue AND jobs.workflow_uuid = new.workflow_uuid
                AND turn IS NOT NULL) AS last,
            (SELECT min(turn) FROM jobs
              WHERE jobs.queue = new.queue AND turn IS NOT NULL) AS first
       FROM ${tableOf(READY_TYPES, [...distinct.values()], values)}`,
    ...values.all,
  );
  const last = new Map(rows.map((row) => [keyOf(row), row.last]));
  const first = new Map(rows.map((row) => [row.queue, row.first]));
  return ready.map((job) => {
    const key = keyOf(job);
    const before = last.get(key) ?? first.get(job.queue) ?? null;
    const turn = before === null ? 0 : before + 1;
    last.set(key, turn);
    first.set(job.queue, Math.min(first.get(job.queue) ?? turn, turn));
    return turn;
  });
}

/** Assigns turns to the delayed jobs of these queues that have become due, longest overdue first. */
export async function readyDelayedJobs(tx: Transaction, queues: readonly string[]): Promise<void> {
  // One statement per queue, so that each follows the order of the index.
  for (const queue of queues) {
    const due = await lockOverdue(tx, queue);
    await giveTurns(tx, due.map((job) => ({ ...job, queue })));
  }
}

function lockOverdue(
  tx: Transaction,
  queue: string,
): Promise<{ id: number; workflow_uuid: WorkflowUuid }[]> {
  return tx.rows(
    `SELECT id, workflow_uuid FROM jobs
      WHERE queue = $1 AND claimable_at <= $2 AND turn IS NULL
      ORDER BY claimable_at, id LIMIT ${READY_MAX} FOR UPDATE SKIP LOCKED`,
    queue,
    tx.now,
  );
}

/** Workflows with delayed jobs that are examined for due ones, each time that claims are written. */
const WORKFLOWS_LOOKED_AT = 32;

/**
 * As readyDelayedJobs() for one queue, but only if jobs without turns would be claimed in an unfair order: assigning a
 * turn costs as much as a claim. If more workflows have delayed jobs than are examined, turns are assigned without
 * further checks.
 */
export async function readyWhereNeeded(tx: Transaction, queue: string): Promise<void> {
  const delayed = "queue = $1 AND claimable_at IS NOT NULL AND turn IS NULL";
  // A loose index scan from workflow to workflow. If any job in the queue has a turn, jobs without one would come last.
  const row = await tx.row<{ needed: boolean }>(
    `WITH RECURSIVE delayed AS (
       (SELECT workflow_uuid, 1 AS place FROM jobs WHERE ${delayed} ORDER BY workflow_uuid LIMIT 1)
       UNION ALL
       SELECT (SELECT jobs.workflow_uuid FROM jobs
                WHERE ${delayed} AND jobs.workflow_uuid > before.workflow_uuid
                ORDER BY jobs.workflow_uuid LIMIT 1), place + 1
         FROM delayed AS before
        WHERE before.workflow_uuid IS NOT NULL AND place <= ${WORKFLOWS_LOOKED_AT})
     SELECT EXISTS (SELECT 1 FROM jobs WHERE queue = $1 AND turn IS NOT NULL)
         OR EXISTS (SELECT 1 FROM delayed
              WHERE workflow_uuid IS NOT NULL AND place > ${WORKFLOWS_LOOKED_AT})
         OR 1 < (SELECT count(*) FROM (
              SELECT 1 FROM delayed CROSS JOIN LATERAL (
                SELECT 1 FROM jobs WHERE queue = $1 AND turn IS NULL
                   AND jobs.workflow_uuid = delayed.workflow_uuid AND claimable_at <= $2
                 ORDER BY claimable_at LIMIT 1) AS first
               LIMIT 2) AS due) AS needed`,
    queue,
    tx.now,
  );
  if (row?.needed === true) await readyDelayedJobs(tx, [queue]);
}

interface GivenTurn {
  readonly id: number;
  readonly turn: number;
}

const TURN_TYPES: ColumnTypes<GivenTurn> = { id: "bigint", turn: "bigint" };

/**
 * Assigns turns to claimable jobs, in the given order.
 * @throws {Error} when a job is not claimable, or already has a turn
 */
export async function giveTurns(
  tx: Transaction,
  ready: readonly (ReadyJob & Pick<GivenTurn, "id">)[],
): Promise<void> {
  if (ready.length === 0) return;
  const turns = await nextTurns(tx, ready);
  const values = new Values();
  const rows = ready.map(({ id }, at) => ({ id, turn: turns[at] ?? 0 }));
  const given = await tx.run(
    `UPDATE jobs SET turn = new.turn FROM ${tableOf(TURN_TYPES, rows, values)}
      WHERE jobs.id = new.id AND claimable_at IS NOT NULL AND jobs.turn IS NULL`,
    ...values.all,
  );
  if (given !== ready.length) throw new Error("Cannot give turns: a job changed after it was read");
}
