// Claims jobs for the runner of a host, in the order of their turns. A job whose row another agent has locked is
// skipped.

import type { JobUuid, RunnerId } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { Job } from "../../../domain/job/job.ts";
import { executionOf, moveOf, startsAfter } from "../../../domain/job/state.ts";
import { ANY_HOST } from "../../../domain/job/workflow.ts";
import { CLAIM_BYTES } from "../../limits.ts";
import { dueFrom, type ReadyRow, standingOf } from "../../sql.ts";
import type { Claimed, NextDue, RunnerLife } from "../../run_store.ts";
import { fitting } from "../../stored_text.ts";
import type { Transaction } from "../connection.ts";
import { BYTES, jobsFromRows, SHARED_COLUMNS, type SharedJobRow } from "./rows.ts";
import { readyDelayedJobs } from "./turns.ts";

/** Claims the next jobs, as many as fit the byte limit and at least one. */
export async function claimJobs(
  tx: Transaction,
  queues: readonly string[],
  life: RunnerLife,
  limit: number,
): Promise<Claimed> {
  if (!await mayClaim(tx, life)) return { jobs: [], due: { kind: "none" } };
  await readyDelayedJobs(tx, queues);
  const ready: SizedReadyRow[] = [];
  // One statement per queue, so that each follows the order of the index.
  for (const queue of queues) {
    ready.push(...await lockReady(tx, queue, limit - ready.length));
    if (ready.length === limit) break;
  }
  const fit = ready.slice(0, fitting(ready, 0, CLAIM_BYTES));
  const rows = await updateClaimed(tx, fit, life.runner_id);
  const jobs = await jobsFromRows(tx, rows);
  // A runner that got as many jobs as it asked for has no free slot, and claims again when one is free.
  return {
    jobs,
    due: jobs.length === limit ? { kind: "ready" } : await selectNextDue(tx, queues, life),
  };
}

type SizedReadyRow = ReadyRow & { readonly bytes: number };

/** The next jobs of a queue, locked until the end of the transaction. */
function lockReady(tx: Transaction, queue: string, limit: number): Promise<SizedReadyRow[]> {
  return tx.rows<SizedReadyRow>(
    `SELECT id, execution, phase, runner_id, claimable_at, lease, starts, ${BYTES} AS bytes
       FROM jobs WHERE queue = $1 AND turn IS NOT NULL
      ORDER BY turn, id LIMIT $2 FOR UPDATE SKIP LOCKED`,
    queue,
    limit,
  );
}

/** Claims under new leases, so that a previous holder can no longer write about its job. */
async function updateClaimed(
  tx: Transaction,
  ready: readonly ReadyRow[],
  runner: RunnerId,
): Promise<SharedJobRow[]> {
  if (ready.length === 0) return [];
  const moves = ready.map((row) => moveOf(standingOf(row), { kind: "claim" }));
  const rows = await tx.rows<SharedJobRow>(
    `UPDATE jobs
        SET execution = next_execution, runner_id = $4, lease = lease + 1, claimable_at = NULL,
            turn = NULL, starts = next_starts, started_at = coalesce(started_at, $5),
            elapsed_at = $5, host = CASE WHEN queue = '${ANY_HOST}' THEN $4 ELSE host END
       FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS claim (job_id, next_execution, next_starts)
      WHERE id = job_id
     RETURNING ${SHARED_COLUMNS}`,
    ready.map(({ id }) => id),
    moves.map((move) => executionOf(move.to)),
    moves.map((move, at) => startsAfter(move, ready[at]?.starts ?? 0)),
    runner,
    tx.now,
  );
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ready.flatMap(({ id }) => byId.get(id) ?? []);
}

/** Whether this is the runner's latest life. FOR SHARE keeps a later one from beginning before the transaction ends. */
async function lifeLasts(tx: Transaction, life: RunnerLife): Promise<boolean> {
  const row = await tx.row<{ incarnation: string }>(
    "SELECT incarnation FROM runners WHERE runner_id = $1 FOR SHARE",
    life.runner_id,
  );
  return row === undefined || row.incarnation === life.incarnation;
}

/** Whether the host of a runner must not claim, because it is cordoned or forgotten. */
async function isClosed(tx: Transaction, { runner_id }: RunnerLife): Promise<boolean> {
  return await tx.row(
    "SELECT 1 AS found FROM hosts WHERE uuid = $1 AND (cordoned OR forgotten)",
    runner_id,
  ) !== undefined;
}

/**
 * Whether a runner may claim. Row locks keep its life and its host's admission unchanged until the transaction ends.
 */
export async function mayClaim(tx: Transaction, life: RunnerLife): Promise<boolean> {
  const [lasts, closed] = await Promise.all([lifeLasts(tx, life), lockAdmission(tx, life)]);
  return lasts && !closed;
}

/** As isClosed(), with a row lock. */
async function lockAdmission(tx: Transaction, { runner_id }: RunnerLife): Promise<boolean> {
  const host = await tx.row<{ closed: boolean }>(
    "SELECT cordoned OR forgotten AS closed FROM hosts WHERE uuid = $1 FOR SHARE",
    runner_id,
  );
  return host?.closed === true;
}

/**
 * The jobs of one host that claimJobs() would claim, as it would return them. Nothing is written.
 * @param passedOver jobs to skip because their claim is being written
 * @param takesFree whether free jobs count
 */
export async function readyJobs(
  tx: Transaction,
  host: string,
  life: RunnerLife,
  limit: number,
  passedOver: ReadonlySet<JobUuid>,
  takesFree = true,
): Promise<Claimed> {
  const found = await selectReadiness(tx, life);
  if (found === undefined || found.barred) return { jobs: [], due: { kind: "none" } };
  const rows = await selectReady(tx, host, passedOver, limit + 1);
  const fit = rows.slice(0, limit);
  const taken = fit.slice(0, fitting(fit, 0, CLAIM_BYTES))
    .map(({ bytes: _bytes, turn: _turn, ...row }) => claimedRow(row, life.runner_id, tx.now));
  const jobs = await jobsFromRows(tx, taken);
  const free_due = takesFree ? found.free_due : null;
  const free = takesFree && found.free || free_due !== null && free_due <= tx.now;
  if (rows.length > jobs.length) return { jobs, due: { kind: "ready" }, free };
  const nextDue = await selectFirstDue(tx, host, free_due);
  return { jobs, due: free ? { kind: "ready" } : dueFrom(tx.now, nextDue), free };
}

/** Whether the runner must not claim, and the free jobs that it could take. */
interface Readiness {
  readonly barred: boolean;
  /** Whether a free job is ready. */
  readonly free: boolean;
  /** When the next free job is due. */
  readonly free_due: Instant | null;
}

function selectReadiness(tx: Transaction, life: RunnerLife): Promise<Readiness | undefined> {
  return tx.row<Readiness>(
    `SELECT EXISTS (
         SELECT 1 FROM runners WHERE runner_id = $1 AND incarnation <> $2
         UNION ALL SELECT 1 FROM hosts WHERE uuid = $1 AND (cordoned OR forgotten)) AS barred,
       EXISTS (SELECT 1 FROM jobs WHERE queue = '${ANY_HOST}' AND turn IS NOT NULL) AS free,
       (SELECT min(claimable_at) FROM jobs
         WHERE queue = '${ANY_HOST}' AND claimable_at IS NOT NULL AND turn IS NULL) AS free_due`,
    life.runner_id,
    life.incarnation,
  );
}

/** The next jobs of a queue. One part per index: none contains both the jobs with a turn and those that have just become due. */
function selectReady(
  tx: Transaction,
  queue: string,
  passedOver: ReadonlySet<JobUuid>,
  limit: number,
): Promise<(SharedJobRow & { readonly bytes: number; readonly turn: number | null })[]> {
  return tx.rows(
    `SELECT * FROM (
       (SELECT ${SHARED_COLUMNS}, turn, ${BYTES} AS bytes FROM jobs
         WHERE queue = $1 AND turn IS NOT NULL AND NOT uuid = ANY($3)
         ORDER BY turn, id LIMIT $4)
       UNION ALL
       (SELECT ${SHARED_COLUMNS}, turn, ${BYTES} FROM jobs
         WHERE queue = $1 AND claimable_at <= $2 AND turn IS NULL AND NOT uuid = ANY($3)
         ORDER BY claimable_at, id LIMIT $4)) AS due
      ORDER BY turn NULLS LAST, claimable_at, id LIMIT $4`,
    queue,
    tx.now,
    [...passedOver],
    limit,
  );
}

/** When the next job of a queue is due, or the free one if that is earlier. */
async function selectFirstDue(
  tx: Transaction,
  queue: string,
  freeDue: Instant | null,
): Promise<Instant | null> {
  const row = await tx.row<{ due: Instant | null }>(
    `SELECT least(min(claimable_at), $3::text COLLATE "C") AS due FROM jobs
      WHERE queue = $1 AND claimable_at > $2 AND turn IS NULL`,
    queue,
    tx.now,
    freeDue,
  );
  return row?.due ?? null;
}

/** A job, or its row, as a claim changes it. @throws {AgentError} `internal` if that is denied */
export function claimedRow<Row extends ClaimedFields>(
  row: Row,
  runner_id: RunnerId,
  now: Instant,
): Row {
  const move = moveOf(standingOf(row), { kind: "claim" });
  return {
    ...row,
    execution: executionOf(move.to),
    runner_id,
    lease: row.lease + 1,
    claimable_at: null,
    starts: startsAfter(move, row.starts),
    started_at: row.started_at ?? now,
    elapsed_at: now,
  };
}

type ClaimedFields = Pick<
  Job,
  | "execution"
  | "phase"
  | "runner_id"
  | "claimable_at"
  | "lease"
  | "starts"
  | "started_at"
  | "elapsed_at"
>;

/** Whether a job of these queues is ready for the runner, and otherwise when the first one will be. */
export async function selectNextDue(
  tx: Transaction,
  queues: readonly string[],
  life: RunnerLife,
): Promise<NextDue> {
  if (await isClosed(tx, life)) return { kind: "none" };
  const row = await tx.row<{ ready: boolean; due: Instant | null }>(
    `SELECT EXISTS (SELECT 1 FROM jobs WHERE queue = ANY($1) AND turn IS NOT NULL) AS ready,
            (SELECT min(first.due) FROM unnest($1::text[]) AS own (queue) CROSS JOIN LATERAL (
               SELECT min(claimable_at) AS due FROM jobs
                WHERE jobs.queue = own.queue AND claimable_at IS NOT NULL AND turn IS NULL
             ) AS first) AS due`,
    queues,
  );
  return row?.ready === true ? { kind: "ready" } : dueFrom(tx.now, row?.due ?? null);
}
