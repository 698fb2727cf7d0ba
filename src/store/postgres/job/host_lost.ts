// Jobs that fail although no runner has ended their task. Jobs of forgotten hosts fail in batches, so that no other
// write has to wait long; if the agent ends meanwhile, another one fails the rest. The other case is a job with a write
// that the database can never accept.

import type { HostUuid } from "../../../domain/id.ts";
import { type Instant, notBefore } from "../../../domain/instant.ts";
import { errorLine, HOST_LOST, type Job, phaseOf } from "../../../domain/job/job.ts";
import { isAtRest, moveOf } from "../../../domain/job/state.ts";
import { taskName } from "../../../domain/job/workflow.ts";
import type { Hold } from "../../run_store.ts";
import { standingOf } from "../../sql.ts";
import type { Transaction } from "../connection.ts";
import { insertCallback } from "./callbacks.ts";
import { ranMs, type SharedStateRow, STATE_COLUMNS, writeMove } from "./moves.ts";
import { insertResults, selectJob, updateWaitingResult } from "./rows.ts";
import { RowChanged } from "../errors.ts";

/** Jobs of forgotten hosts that fail in one transaction. */
export const LOST_AT_ONCE = 100;

/** A query for the ids of the hosts' (`$1`) jobs that are neither finished nor at rest. */
const LOST = `SELECT id FROM jobs WHERE queue = ANY($1) AND turn IS NOT NULL
       UNION ALL
       SELECT id FROM jobs WHERE queue = ANY($1) AND claimable_at IS NOT NULL AND turn IS NULL
       UNION ALL
       SELECT id FROM jobs WHERE queue = ANY($1) AND runner_id = ANY($1)
       UNION ALL
       SELECT id FROM jobs WHERE queue = ANY($1) AND execution = 'waiting'`;

/** Counts the jobs that fail because a host is forgotten. A canceled job stays canceled. */
export async function countLostJobs(tx: Transaction, host: HostUuid): Promise<number> {
  const row = await tx.row<{ jobs: number }>(
    `SELECT count(*)::bigint AS jobs FROM jobs
      WHERE id IN (${LOST}) AND execution <> 'canceled'`,
    [host],
  );
  return row?.jobs ?? 0;
}

/**
 * Fails jobs that only forgotten hosts could run. Every agent does this each time it renews its lease.
 * @param own the host that sends their callbacks
 * @returns the number of jobs found; if it is LOST_AT_ONCE, there may be more
 */
export async function failLostJobs(tx: Transaction, own: string): Promise<number> {
  const hosts = await selectForgotten(tx);
  // A forgotten host neither acts nor sends callbacks.
  if (hosts.length === 0 || hosts.includes(own)) return 0;
  const rows = await lockLost(tx, hosts);
  // FOR UPDATE returns the row as it is once it is locked, which may differ from what the query found.
  const lost = rows.filter((row) => !isAtRest(standingOf(row).state));
  for (const row of lost) await failLost(tx, row, own);
  await takeCallbacksOf(tx, hosts, own);
  return rows.length;
}

async function selectForgotten(tx: Transaction): Promise<string[]> {
  const rows = await tx.rows<{ uuid: string }>("SELECT uuid FROM hosts WHERE forgotten");
  return rows.map(({ uuid }) => uuid);
}

function lockLost(tx: Transaction, hosts: readonly string[]): Promise<SharedStateRow[]> {
  return tx.rows<SharedStateRow>(
    `SELECT ${STATE_COLUMNS} FROM jobs WHERE id IN (${LOST})
      ORDER BY id LIMIT ${LOST_AT_ONCE} FOR UPDATE`,
    hosts,
  );
}

/** Has this host send the callbacks of others. */
async function takeCallbacksOf(
  tx: Transaction,
  hosts: readonly string[],
  own: string,
): Promise<void> {
  await tx.run("UPDATE callbacks SET owner = $1 WHERE owner = ANY($2)", own, hosts);
}

async function failLost(tx: Transaction, row: SharedStateRow, own: string): Promise<void> {
  const standing = standingOf(row);
  const move = moveOf(standing, { kind: "host_lost" });
  const outcome = { result: "", error: HOST_LOST, finished_at: tx.now };
  if (row.execution === "waiting") {
    await updateWaitingResult(tx, row.id, row.phase, outcome, null);
  } else await insertLostResult(tx, row, outcome);
  await writeMove(tx, row, move, ranMs(row, tx.now), HOST_LOST);
  if (move.ends) await insertCallback(tx, row, own);
}

/** A job that a runner holds, and as much of its claim as is known. */
export type UnwrittenHold = Pick<Hold, "job_uuid"> & Partial<Hold>;

/**
 * Fails the current task of a job whose end, attempt or claim cannot be written. The values written instead always fit.
 * @param error what could not be written, and why
 * @returns whether the runner still held the job
 */
export async function failUnwritten(
  tx: Transaction,
  { job_uuid, runner_id, lease, phase }: UnwrittenHold,
  error: string,
): Promise<boolean> {
  const row = await tx.row<SharedStateRow>(
    `SELECT ${STATE_COLUMNS} FROM jobs WHERE uuid = $1 AND runner_id = coalesce($2, runner_id)
        AND lease = coalesce($3, lease) AND phase = coalesce($4, phase) FOR UPDATE`,
    job_uuid,
    runner_id ?? null,
    lease ?? null,
    phase ?? null,
  );
  // The runner of a job that was canceled meanwhile only releases it, so there is nothing to fail.
  if (row === undefined || standingOf(row).state === "stopping") return false;
  const job = await insertLostResult(tx, row, { result: "", error, finished_at: tx.now });
  const move = moveOf(standingOf(row), { kind: "fail", onerror: job.onerror.length > 0 });
  await writeMove(tx, row, move, ranMs(row, tx.now), errorLine(error, new Set()));
  if (move.ends) await insertCallback(tx, row, row.queue);
  return true;
}

/** Writes the result of a job's current task, even if no runner has begun it. @returns the job before */
async function insertLostResult(
  tx: Transaction,
  { id, uuid, phase }: SharedStateRow,
  outcome: { readonly result: string; readonly error: string; readonly finished_at: Instant },
): Promise<Job> {
  const job = await selectJob(tx, uuid);
  if (job === undefined) throw new RowChanged(`Cannot fail job ${uuid}: it is missing`);
  const { tasks, results } = phaseOf(job);
  const task = tasks[results.length];
  // The phase was complete, but its end was not recorded yet.
  if (task === undefined) return job;
  const started_at = job.elapsed_at ?? tx.now;
  const entry = {
    ...outcome,
    name: taskName(task),
    started_at,
    finished_at: notBefore(started_at, outcome.finished_at),
    attempts: job.starts + job.failures,
  };
  await insertResults(tx, [{ id, phase, position: results.length, entry }]);
  return job;
}
