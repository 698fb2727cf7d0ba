// Leases: how long a runner keeps its jobs without a heartbeat. A bound job is only queued again by its own host,
// however long that is away. A renewal is also the heartbeat of the host.

import { hostEvent } from "../../../domain/event.ts";
import { admissionOf, type RegisteredHost } from "../../../domain/host.ts";
import type { Incarnation, JobUuid, RunnerId } from "../../../domain/id.ts";
import { type Instant, instantAfter, msBetween } from "../../../domain/instant.ts";
import type { Job } from "../../../domain/job/job.ts";
import { type Execution, heldIn, moveOf } from "../../../domain/job/state.ts";
import { CLAIM_BYTES } from "../../limits.ts";
import { type LeaseRow, standingOf } from "../../sql.ts";
import type { BeginOutcome, Hold, RenewOutcome, RunnerLife } from "../../run_store.ts";
import { fitting } from "../../stored_text.ts";
import type { Transaction } from "../connection.ts";
import { insertEvent } from "./events.ts";
import { failLostJobs } from "./host_lost.ts";
import { insertInterrupted } from "./log.ts";
import { type SharedStateRow, STATE_COLUMNS, writeMove } from "./moves.ts";
import { BYTES, jobsFromRows, SHARED_COLUMNS, type SharedJobRow } from "./rows.ts";

/**
 * Gives the lease to a life of a runner, and queues the jobs of its earlier lives again.
 * @param kept jobs to leave alone, because writes of an earlier life about them are not delivered yet
 */
export async function beginLife(
  tx: Transaction,
  life: RunnerLife,
  earlier: readonly Incarnation[],
  leaseMs: number,
  kept: readonly JobUuid[] = [],
): Promise<BeginOutcome> {
  const lease = await lockLease(tx, life.runner_id);
  const mine = lease?.incarnation === life.incarnation;
  if (lease !== undefined && !mine && !earlier.includes(lease.incarnation)) {
    const left_ms = msBetween(tx.now, lease.leased_until);
    // A lease longer than the maximum was written while the clock was ahead.
    if (left_ms > 0 && left_ms <= leaseMs) return { kind: "held", left_ms };
  }
  await upsertLease(tx, life, leaseMs);
  // A call that is repeated after a lost answer must not release jobs that this life has claimed since.
  if (mine) return { kind: "begun", rescued: 0 };
  const own = await lockOwn(tx, life.runner_id);
  return {
    kind: "begun",
    rescued: await queueAgain(tx, own.filter(({ uuid }) => !kept.includes(uuid))),
  };
}

/** Renews the lease of a runner, and compares the claims that it reports with the rows. */
export async function renewLease(
  tx: Transaction,
  life: RunnerLife,
  held: readonly Hold[],
  leaseMs: number,
): Promise<RenewOutcome> {
  const lease = await lockLease(tx, life.runner_id);
  if (lease !== undefined && lease.incarnation !== life.incarnation) return { kind: "superseded" };
  await noteOutage(tx);
  const sign = await writeSign(tx, life);
  if (sign.admission === "forgotten") {
    // A forgotten host: its bound jobs are about to fail, and other hosts take the free ones.
    await upsertLease(tx, life, 0);
    const lost = held.map(({ job_uuid }) => job_uuid);
    return { kind: "renewed", lost, canceled: [], unknown: [], ...sign };
  }
  await upsertLease(tx, life, leaseMs);
  const own = await lockOwn(tx, life.runner_id);
  const isOf = (hold: Hold, row: SharedStateRow) =>
    hold.job_uuid === row.uuid && hold.lease === row.lease;
  const lost: JobUuid[] = [];
  const canceled: JobUuid[] = [];
  const missing = held.filter((hold) => !own.some((row) => isOf(hold, row)));
  const executions = await selectExecutions(tx, missing.map(({ job_uuid }) => job_uuid));
  for (const hold of held) {
    const row = own.find((one) => isOf(hold, one));
    if (row === undefined) {
      (executions.get(hold.job_uuid) === "canceled" ? canceled : lost).push(hold.job_uuid);
    } else if (row.execution === "canceled" && standingOf(row).state !== heldIn(hold.phase).state) {
      canceled.push(hold.job_uuid);
    }
  }
  const unnamed = own.filter((row) => !held.some((hold) => isOf(hold, row)));
  const ended = unnamed.filter((row) => standingOf(row).state === "stopping");
  for (const row of ended) await writeMove(tx, row, moveOf(standingOf(row), { kind: "release" }));
  const unknown = await selectUnknown(tx, unnamed.filter((row) => !ended.includes(row)));
  return { kind: "renewed", lost, canceled, unknown, ...sign };
}

/**
 * The jobs that a runner holds without knowing, as many as fit; the others follow with the next renewal. Their tasks
 * start now.
 */
async function selectUnknown(tx: Transaction, rows: readonly SharedStateRow[]): Promise<Job[]> {
  if (rows.length === 0) return [];
  const found = await tx.rows<SharedJobRow & { readonly bytes: number }>(
    `SELECT ${SHARED_COLUMNS}, ${BYTES} AS bytes FROM jobs WHERE id = ANY($1) ORDER BY id`,
    rows.map(({ id }) => id),
  );
  const fit = found.slice(0, fitting(found, 0, CLAIM_BYTES));
  const jobs = await jobsFromRows(tx, fit.map(({ bytes: _bytes, ...row }) => row));
  return jobs.map((job) => ({ ...job, elapsed_at: tx.now }));
}

function lockLease(tx: Transaction, runner: RunnerId): Promise<LeaseRow | undefined> {
  return tx.row<LeaseRow>(
    "SELECT incarnation, leased_until FROM runners WHERE runner_id = $1 FOR UPDATE",
    runner,
  );
}

async function upsertLease(tx: Transaction, life: RunnerLife, leaseMs: number): Promise<void> {
  await tx.run(
    `INSERT INTO runners (runner_id, incarnation, leased_until) VALUES ($1, $2, $3)
     ON CONFLICT (runner_id) DO UPDATE SET incarnation = $2, leased_until = $3`,
    life.runner_id,
    life.incarnation,
    instantAfter(tx.now, leaseMs),
  );
}

/** Locks the jobs of a runner, in order of creation. */
function lockOwn(tx: Transaction, runner: RunnerId): Promise<SharedStateRow[]> {
  return tx.rows<SharedStateRow>(
    `SELECT ${STATE_COLUMNS} FROM jobs WHERE runner_id = $1 ORDER BY id FOR UPDATE`,
    runner,
  );
}

async function selectExecutions(
  tx: Transaction,
  uuids: readonly JobUuid[],
): Promise<ReadonlyMap<JobUuid, Execution>> {
  if (uuids.length === 0) return new Map();
  const rows = await tx.rows<{ uuid: JobUuid; execution: Execution }>(
    "SELECT uuid, execution FROM jobs WHERE uuid = ANY($1)",
    uuids,
  );
  return new Map(rows.map(({ uuid, execution }) => [uuid, execution]));
}

/**
 * Queues the jobs of other runners whose lease has ended, and fails the jobs of forgotten hosts.
 * @returns how many jobs are queued
 */
export async function rescueJobs(
  tx: Transaction,
  queues: readonly string[],
  runner: RunnerId,
): Promise<number> {
  await failLostJobs(tx, runner);
  if (!await doLeasesEnd(tx)) return 0;
  await noteAbsences(tx);
  const held = await tx.rows<SharedStateRow>(
    `SELECT ${STATE_COLUMNS} FROM jobs
      WHERE queue = ANY($1) AND runner_id IS NOT NULL AND runner_id <> $2
        AND NOT EXISTS (SELECT 1 FROM runners
                         WHERE runners.runner_id = jobs.runner_id AND leased_until > $3)
      ORDER BY id FOR UPDATE SKIP LOCKED`,
    queues,
    runner,
    tx.now,
  );
  return await queueAgain(tx, await withoutLease(tx, held));
}

/**
 * Filters the jobs whose runners have no lease, now that the rows are locked: another agent may have rescued a job
 * before the lock, and its next claim has a lease.
 */
async function withoutLease(
  tx: Transaction,
  held: readonly SharedStateRow[],
): Promise<SharedStateRow[]> {
  if (held.length === 0) return [];
  const leased = await tx.rows<{ runner_id: RunnerId }>(
    "SELECT runner_id FROM runners WHERE runner_id = ANY($1) AND leased_until > $2",
    [...new Set(held.map(({ runner_id }) => runner_id))],
    tx.now,
  );
  return held.filter((row) => !leased.some(({ runner_id }) => runner_id === row.runner_id));
}

/**
 * Queues jobs again in order of creation. If an attempt had begun, the job's start is counted.
 * @returns the number of jobs
 */
async function queueAgain(tx: Transaction, held: readonly SharedStateRow[]): Promise<number> {
  for (const row of held) {
    const standing = standingOf(row);
    const attempting = standing.state !== "stopping" && await insertInterrupted(tx, row.id);
    await writeMove(tx, row, moveOf(standing, { kind: "rescue", lapsed: true, attempting }));
  }
  return held.length;
}

/** If no host was heard for this part of the lease, the database counts as having been away for that time. */
const OUTAGE_SHARE = 1 / 2;

/** The heartbeats of all hosts, and the last outage of the database. */
interface HeardHosts {
  /** The last heartbeat of any host; null when none has registered. */
  readonly heard_at: Instant | null;
  /** The longest lease of any host. */
  readonly lease_ms: number;
  readonly back_at: Instant | null;
}

async function heardHosts(tx: Transaction): Promise<HeardHosts> {
  const row = await tx.row<HeardHosts>(
    `SELECT max(seen_at) AS heard_at, coalesce(max(lease_ms), 0) AS lease_ms,
            (SELECT back_at FROM outages) AS back_at FROM hosts WHERE NOT forgotten`,
  );
  if (row === undefined) {
    throw new Error("Cannot read the heartbeats: the database returned no row");
  }
  return row;
}

function wasAway({ heard_at, lease_ms }: HeardHosts, now: Instant): boolean {
  return heard_at !== null && msBetween(heard_at, now) >= lease_ms * OUTAGE_SHARE;
}

/**
 * Notes when the database came back, if no host has reached it for a while. Must be called before a heartbeat is
 * written.
 */
export async function noteOutage(tx: Transaction): Promise<void> {
  if (!wasAway(await heardHosts(tx), tx.now)) return;
  await tx.run(
    `INSERT INTO outages (one, back_at) VALUES (true, $1)
     ON CONFLICT (one) DO UPDATE SET back_at = $1`,
    tx.now,
  );
}

/**
 * Whether leases that have expired count as ended. After an outage of the database each runner has one lease period to
 * renew, which was impossible during the outage.
 */
async function doLeasesEnd(tx: Transaction): Promise<boolean> {
  const heard = await heardHosts(tx);
  if (wasAway(heard, tx.now)) return false;
  return heard.back_at === null || msBetween(heard.back_at, tx.now) >= heard.lease_ms;
}

/** What a host learns from its heartbeat. */
type Sign = Pick<Extract<RenewOutcome, { kind: "renewed" }>, "admission" | "unregistered">;

/** Writes the heartbeat of a host. A host that has not registered may claim. */
async function writeSign(tx: Transaction, { runner_id, incarnation }: RunnerLife): Promise<Sign> {
  const row = await tx.row<SignedHost>(
    `UPDATE hosts SET seen_at = $2, away = false
       FROM (SELECT uuid, away FROM hosts WHERE uuid = $1 FOR UPDATE) AS before
      WHERE hosts.uuid = before.uuid
     RETURNING hosts.uuid, name, incarnation, cordoned, forgotten, before.away AS was_away`,
    runner_id,
    tx.now,
  );
  if (row === undefined) return { admission: "open", unregistered: true };
  if (row.was_away) await noteReturn(tx, row);
  const admission = admissionOf(row);
  return row.incarnation === incarnation ? { admission } : { admission, unregistered: true };
}

type SignedHost = Pick<RegisteredHost, "uuid" | "name" | "cordoned" | "forgotten"> & {
  readonly incarnation: string;
  readonly was_away: boolean;
};

/** Inserts the event that a host is heard again. */
export async function noteReturn(
  tx: Transaction,
  { uuid, name }: Pick<RegisteredHost, "uuid" | "name">,
): Promise<void> {
  await insertEvent(tx, hostEvent(uuid, "returned", name));
}

/** Inserts the event that a host is away, once per absence. */
async function noteAbsences(tx: Transaction): Promise<void> {
  const hosts = await tx.rows<Pick<RegisteredHost, "uuid" | "name">>(
    `UPDATE hosts SET away = true
      WHERE NOT away AND NOT forgotten
        AND seen_at::timestamptz + lease_ms * interval '1 millisecond' <= $1::timestamptz
     RETURNING uuid, name`,
    tx.now,
  );
  for (const { uuid, name } of hosts) await insertEvent(tx, hostEvent(uuid, "away", name));
}
