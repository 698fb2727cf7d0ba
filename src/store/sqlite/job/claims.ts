// Claims jobs in the order of their turns. A claim is either one write or two steps: the runner reads the jobs that a
// claim would take and starts them immediately, and the claim is written later, see waiting_claims.ts. Until then the
// job is still queued, on the disk and in every answer.

import type { JobUuid, RunnerId } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import { type Job, phaseOf } from "../../../domain/job/job.ts";
import { executionOf, moveOf, type Standing, startsAfter } from "../../../domain/job/state.ts";
import type { Claimed, NextDue, RunnerLife } from "../../run_store.ts";
import { CLAIM_BYTES } from "../../limits.ts";
import { dueFrom, JOB_COLUMNS, type JobRow, type ReadyRow, standingOf } from "../../sql.ts";
import { fitting } from "../../stored_text.ts";
import type { Connection } from "../connection.ts";
import { isCordoned } from "../host_rows.ts";
import { isLatestLife } from "./leases.ts";
import { selectState } from "./moves.ts";
import { jobFromRow } from "./rows.ts";
import { BYTES, OWN_BYTES, RESULT_BYTES } from "./texts.ts";
import { TRACED_COLUMNS, type TracedRow, traceMove } from "./traces.ts";
import {
  CLAIMABLE_LISTS,
  discardClaimable,
  readClaimable,
  removeClaimable,
} from "./claimable_jobs.ts";
import { noteOverdue, readyDelayedJobs, readyOverdueJobs } from "./turns.ts";

/** Claims the next jobs, as many as fit the byte limit and at least one. */
export function claimJobs(db: Connection, life: RunnerLife, limit: number, now: Instant): Claimed {
  if (!mayClaim(db, life)) return { jobs: [], due: { kind: "none" } };
  readyDelayedJobs(db, now);
  const ready = db.rows<ReadyRow & { readonly bytes: number }>(
    `SELECT id, execution, phase, runner_id, claimable_at, lease, starts, ${BYTES} AS bytes
       FROM jobs WHERE turn IS NOT NULL ORDER BY turn, id LIMIT ?`,
    limit,
  );
  const jobs = ready.slice(0, fitting(ready, 0, CLAIM_BYTES))
    .map((row) => claimJob(db, row, life.runner_id, now));
  // A runner that got as many jobs as it asked for has no free slot, and claims again when one is free.
  return { jobs, due: jobs.length === limit ? { kind: "ready" } : selectNextDue(db, now) };
}

/** Claims under a new lease, so that a previous holder can no longer write about the job. */
function claimJob(db: Connection, ready: ReadyRow, runner: RunnerId, now: Instant): Job {
  const move = moveOf(standingOf(ready), { kind: "claim" });
  const row = db.row<JobRow & TracedRow>(
    `UPDATE jobs
        SET execution = ?3, runner_id = ?4, lease = lease + 1, claimable_at = NULL, turn = NULL,
            starts = ?5, started_at = coalesce(started_at, ?6), elapsed_at = ?6
      WHERE id = ?1 AND lease = ?2 AND turn IS NOT NULL
     RETURNING ${JOB_COLUMNS}, kept`,
    ready.id,
    ready.lease,
    executionOf(move.to),
    runner,
    startsAfter(move, ready.starts),
    now,
  );
  if (row === undefined) {
    throw new Error(`Cannot claim job ${ready.id}: it changed after it was read`);
  }
  db.fresh.delete(row.uuid);
  traceMove(db, row, standingOf(ready), move, now);
  return jobFromRow(db, row);
}

/** Whether a runner may claim: its life is still the latest, and its host is not cordoned. */
export function mayClaim(db: Connection, life: RunnerLife): boolean {
  return !isCordoned(db) && isLatestLife(db, life);
}

/**
 * The jobs that claimJobs() would take, as it would return them: as many as fit, and at least one. Nothing is
 * written.
 * @param passedOver jobs to skip because their claim is being written
 */
export function readyJobs(
  db: Connection,
  life: RunnerLife,
  limit: number,
  passedOver: ReadonlySet<JobUuid>,
  now: Instant,
): Claimed {
  if (!mayClaim(db, life)) return { jobs: [], due: { kind: "none" } };
  const jobs: Job[] = [];
  let bytes = 0;
  // Jobs that have just become due get their turn with the next claim.
  for (const list of CLAIMABLE_LISTS) {
    const { rows, whole } = readClaimable(db, list, limit + passedOver.size + 1);
    for (let at = 0; at < rows.length; at++) {
      const { id, uuid, place } = rows[at] as typeof rows[number];
      if (typeof place === "string" && place > now) return { jobs, due: dueFrom(now, place) };
      if (passedOver.has(uuid)) continue;
      if (list === "delayed") noteOverdue(db);
      if (jobs.length >= limit) return { jobs, due: { kind: "ready" } };
      const fresh = db.fresh.get(uuid);
      if (fresh !== undefined) {
        jobs.push({ ...fresh, ...claimOf(fresh, life.runner_id, now) });
        continue;
      }
      const row = selectClaimable(db, id);
      if (row === undefined) {
        // The job was claimed or canceled since it was read ahead.
        rows.splice(at--, 1);
        continue;
      }
      bytes += row.own_bytes + row.result_bytes;
      if (jobs.length > 0 && bytes > CLAIM_BYTES) return { jobs, due: { kind: "ready" } };
      jobs.push(claimedJob(db, row, life.runner_id, now));
    }
    if (whole) continue;
    // None of the jobs that are read now was claimed, so the second reading is enough.
    discardClaimable(db, list);
    return readyJobs(db, life, limit, passedOver, now);
  }
  return { jobs, due: { kind: "none" } };
}

function selectClaimable(db: Connection, id: number): ClaimRow | undefined {
  return db.row<ClaimRow>(
    `SELECT ${JOB_COLUMNS}, ${OWN_BYTES} AS own_bytes, ${RESULT_BYTES} AS result_bytes
       FROM jobs WHERE id = ? AND claimable_at IS NOT NULL`,
    id,
  );
}

interface ClaimRow extends JobRow {
  readonly own_bytes: number;
  readonly result_bytes: number;
}

function claimedJob(db: Connection, row: ClaimRow, runner_id: RunnerId, now: Instant): Job {
  const claim = claimOf(row, runner_id, now);
  return jobFromRow(db, row, { claim, fresh: row.result_bytes === 0 });
}

/** The columns that a claim will write. */
function claimOf(
  job: Omit<ReadyRow, "id"> & Pick<Job, "started_at">,
  runner_id: RunnerId,
  now: Instant,
) {
  const move = moveOf(standingOf(job), { kind: "claim" });
  return {
    execution: executionOf(move.to),
    runner_id,
    lease: job.lease + 1,
    claimable_at: null,
    starts: startsAfter(move, job.starts),
    started_at: job.started_at ?? now,
    elapsed_at: now,
  };
}

/**
 * Claims the jobs that readyJobs() returned, except any that was canceled or claimed since. A job that this
 * runner claimed already, by a call whose answer was lost, stays its own.
 * @returns the jobs it holds
 */
export function holdJobs(
  db: Connection,
  life: RunnerLife,
  jobs: readonly Job[],
  now: Instant,
): JobUuid[] {
  const claims = mayClaim(db, life);
  const held = jobs.filter((job) =>
    (claims && holdJob(db, life, job, now)) || isHeldBy(db, life, job)
  );
  readyOverdueJobs(db, now);
  return held.map(({ uuid }) => uuid);
}

/** Only a claimable job has a claimable_at. */
function holdJob(db: Connection, life: RunnerLife, job: Job, now: Instant): boolean {
  const { phase, elapsed_at } = job;
  const held = db.row<TracedRow>(
    `UPDATE jobs
        SET execution = ?5, runner_id = ?1, lease = ?4, claimable_at = NULL, turn = NULL,
            starts = ?6, started_at = ?7, elapsed_at = ?8
      WHERE uuid = ?2 AND phase = ?3 AND lease = ?4 - 1 AND claimable_at IS NOT NULL
     RETURNING ${TRACED_COLUMNS}`,
    life.runner_id,
    job.uuid,
    phase,
    job.lease,
    job.execution,
    job.starts,
    job.started_at,
    elapsed_at,
  );
  if (held === undefined) return false;
  traceClaim(db, held, job, now);
  return true;
}

/** Notes that a job which readyJobs() returned was claimed. */
export function traceClaim(db: Connection, row: TracedRow, job: Job, now: Instant): void {
  const { uuid, phase, elapsed_at } = job;
  db.fresh.delete(uuid);
  removeClaimable(db, uuid);
  const queued: Standing = { state: phase === "oncancel" ? "undo_queued" : "queued", phase };
  const move = moveOf(queued, { kind: "claim" });
  traceMove(db, row, queued, move, elapsed_at ?? now, phaseOf(job).results.length);
}

function isHeldBy(db: Connection, life: RunnerLife, { uuid, lease }: Job): boolean {
  const row = selectState(db, uuid);
  // A later life has the same runner id, and may have made a claim with the same lease number.
  return row?.runner_id === life.runner_id && row.lease === lease && isLatestLife(db, life);
}

/** Whether a job is ready, or when the first one will be. */
export function selectNextDue(db: Connection, now: Instant): NextDue {
  const row = db.row<{ ready: number; due: Instant | null }>(
    `SELECT EXISTS (SELECT 1 FROM jobs WHERE turn IS NOT NULL) AS ready,
            (SELECT min(claimable_at) FROM jobs
              WHERE claimable_at IS NOT NULL AND turn IS NULL) AS due`,
  );
  if (row?.ready === 1) return { kind: "ready" };
  return dueFrom(now, row?.due ?? null);
}
