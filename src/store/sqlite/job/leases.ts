// Leases of runners. A runner that holds jobs renews its lease. Once the lease expires, other runners may
// rescue the jobs, and later writes of the old runner about them have no effect.

import type { Incarnation, JobUuid, RunnerId } from "../../../domain/id.ts";
import { type Instant, instantAfter, msBetween } from "../../../domain/instant.ts";
import type { Job } from "../../../domain/job/job.ts";
import { heldIn, moveOf } from "../../../domain/job/state.ts";
import type { BeginOutcome, Hold, RenewOutcome, RunnerLife } from "../../run_store.ts";
import { CLAIM_BYTES } from "../../limits.ts";
import { JOB_COLUMNS, type JobRow, type LeaseRow, standingOf, type StateRow } from "../../sql.ts";
import { fitting } from "../../stored_text.ts";
import type { Connection } from "../connection.ts";
import { isCordoned } from "../host_rows.ts";
import { insertInterrupted } from "./log.ts";
import { selectExecution } from "./jobs.ts";
import { STATE_COLUMNS, writeMove } from "./moves.ts";
import { jobFromRow } from "./rows.ts";
import { BYTES } from "./texts.ts";

/** Gives the lease to a life of a runner, and queues the jobs of its earlier lives again. */
export function beginLife(
  db: Connection,
  life: RunnerLife,
  earlier: readonly Incarnation[],
  leaseMs: number,
  now: Instant,
): BeginOutcome {
  const lease = selectLease(db, life.runner_id);
  const mine = lease?.incarnation === life.incarnation;
  if (lease !== undefined && !mine && !earlier.includes(lease.incarnation)) {
    const left_ms = msBetween(now, lease.leased_until);
    // A lease longer than the maximum was written while the clock was ahead.
    if (left_ms > 0 && left_ms <= leaseMs) return { kind: "held", left_ms };
  }
  upsertLease(db, life, instantAfter(now, leaseMs));
  // A call that is repeated after a lost answer must not release jobs that this life has claimed since.
  const rescued = mine ? 0 : queueAgain(db, selectOwn(db, life.runner_id), now);
  return { kind: "begun", rescued };
}

/** Renews the lease of a runner, and compares the claims that it reports with the rows. */
export function renewLease(
  db: Connection,
  life: RunnerLife,
  held: readonly Hold[],
  leaseMs: number,
  now: Instant,
): RenewOutcome {
  const lease = selectLease(db, life.runner_id);
  if (lease !== undefined && lease.incarnation !== life.incarnation) return { kind: "superseded" };
  upsertLease(db, life, instantAfter(now, leaseMs));
  const own = selectOwn(db, life.runner_id);
  const isOf = (hold: Hold, row: StateRow) =>
    hold.job_uuid === row.uuid && hold.lease === row.lease;
  const lost: JobUuid[] = [];
  const canceled: JobUuid[] = [];
  for (const hold of held) {
    const row = own.find((row) => isOf(hold, row));
    if (row === undefined) {
      const execution = selectExecution(db, hold.job_uuid);
      (execution === "canceled" ? canceled : lost).push(hold.job_uuid);
    } else if (row.execution === "canceled" && standingOf(row).state !== heldIn(hold.phase).state) {
      canceled.push(hold.job_uuid);
    }
  }
  const unnamed = own.filter((row) => !held.some((hold) => isOf(hold, row)));
  const unknown = selectUnknown(db, unnamed, now);
  const admission = isCordoned(db) ? "cordoned" : "open";
  return { kind: "renewed", lost, canceled, unknown, admission };
}

/**
 * The jobs that a runner holds without knowing, as many as fit; the others follow with the next renewal. Their tasks
 * start now.
 */
function selectUnknown(db: Connection, rows: readonly StateRow[], now: Instant): Job[] {
  if (rows.length === 0) return [];
  const found = db.rows<JobRow & { readonly bytes: number }>(
    `SELECT ${JOB_COLUMNS}, ${BYTES} AS bytes FROM jobs
      WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id`,
    JSON.stringify(rows.map(({ id }) => id)),
  );
  return found.slice(0, fitting(found, 0, CLAIM_BYTES))
    .map((row) => ({ ...jobFromRow(db, row), elapsed_at: now }));
}

/** The key of the cached latest life of a runner. */
const LATEST_LIFE = "latest life";

/**
 * Whether no other life of the runner is the latest one. It is cached, since every claim asks, and a statement
 * outside a transaction costs several locks.
 */
export function isLatestLife(db: Connection, { runner_id, incarnation }: RunnerLife): boolean {
  const latest = db.cached(LATEST_LIFE, runner_id, () => ({
    value: selectLease(db, runner_id)?.incarnation,
    chars: 0,
  }));
  return latest === undefined || latest === incarnation;
}

function selectLease(db: Connection, runner: RunnerId): LeaseRow | undefined {
  const sql = "SELECT incarnation, leased_until FROM runners WHERE runner_id = ?";
  return db.row<LeaseRow>(sql, runner);
}

function upsertLease(db: Connection, life: RunnerLife, until: Instant): void {
  db.forget(LATEST_LIFE, life.runner_id);
  db.run(
    `INSERT INTO runners (runner_id, incarnation, leased_until) VALUES (?1, ?2, ?3)
     ON CONFLICT (runner_id) DO UPDATE SET incarnation = ?2, leased_until = ?3`,
    life.runner_id,
    life.incarnation,
    until,
  );
}

/** The jobs of a runner, in the order of their creation. */
function selectOwn(db: Connection, runner: RunnerId): StateRow[] {
  return db.rows<StateRow>(
    `SELECT ${STATE_COLUMNS} FROM jobs WHERE runner_id = ? ORDER BY id`,
    runner,
  );
}

/** Queues the jobs of other runners whose lease has ended. @returns the number of jobs */
export function rescueJobs(db: Connection, runner: RunnerId, now: Instant): number {
  const held = db.rows<StateRow>(
    // Ordered by id, SQLite would read every job.
    `SELECT ${STATE_COLUMNS} FROM jobs INDEXED BY jobs_owned
      WHERE runner_id IS NOT NULL AND runner_id <> ?1
        AND runner_id NOT IN (SELECT runner_id FROM runners WHERE leased_until > ?2)
      ORDER BY id`,
    runner,
    now,
  );
  return queueAgain(db, held, now);
}

/** Queues jobs again in order of creation; a start is counted if its attempt had begun. @returns how many */
function queueAgain(db: Connection, held: readonly StateRow[], now: Instant): number {
  for (const row of held) {
    const attempting = insertInterrupted(db, row.id, now);
    const move = moveOf(standingOf(row), { kind: "rescue", lapsed: true, attempting });
    writeMove(db, row, move, now);
  }
  return held.length;
}

/** Forgets runners whose lease has expired and that hold no job. */
export function deleteGoneRunners(db: Connection, now: Instant): void {
  const gone = db.rows<{ readonly runner_id: RunnerId }>(
    `DELETE FROM runners WHERE leased_until <= ?
        AND runner_id NOT IN (SELECT runner_id FROM jobs WHERE runner_id IS NOT NULL)
     RETURNING runner_id`,
    now,
  );
  for (const { runner_id } of gone) db.forget(LATEST_LIFE, runner_id);
}
