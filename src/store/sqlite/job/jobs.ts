// Jobs: written, read and claimed. Lists stand in lists.ts, what changes a job afterwards in
// changes.ts.

import type { JobUuid, MachineUuid, RunnerId } from "../../../domain/id.ts";
import { type Instant, msBetween } from "../../../domain/instant.ts";
import type { Job, NewJob } from "../../../domain/job/job.ts";
import {
  CREATED,
  type Execution,
  executionOf,
  moveOf,
  startsAfter,
} from "../../../domain/job/state.ts";
import type { JsonObject } from "../../../domain/json.ts";
import type { Claimed, CreateJobOutcome, NextDue, RunnerLife } from "../../job_store.ts";
import type { Connection } from "../connection.ts";
import { HOLDS_TARGET } from "../schema.ts";
import {
  definitionAt,
  definitionFor,
  insertResult,
  JOB_COLUMNS,
  type JobDefinition,
  jobFromRow,
  type JobRow,
} from "./rows.ts";
import { BYTES, jobRow } from "./texts.ts";
import { fitting } from "../text_parts.ts";
import { standingOf, UNFINISHED } from "./moves.ts";
import { nextTurn, readyDelayedJobs } from "./turns.ts";

/** Bytes of the jobs of one claim, which are parsed without a pause. */
export const CLAIM_BYTES = 1024 * 1024;

/** What became of the row of a new job. */
type InsertOutcome = Extract<
  CreateJobOutcome,
  { kind: "created" | "duplicate" | "machine_taken" }
>;

/**
 * Writes a queued job, unless an unfinished one has the same target and params, or the machine. A job
 * that was written before, by a call whose answer was lost, is answered as it is now.
 */
export function insertJob(
  db: Connection,
  job: NewJob,
  paramsSha256: string | null,
): InsertOutcome {
  const definition = definitionFor(db, job.workflow);
  const ready = job.exec_after <= job.created_at;
  const inserted = db.run(
    `INSERT INTO jobs (
       uuid, workflow_uuid, definition_id, execution, phase, undoable, exec_after, claimable_at,
       turn, target, params, params_sha256, locks, callback_url, callback_host, props, created_at,
       requested_params, machine_uuid, kept, elapsed_ms, phases_ms, lease, starts)
     VALUES (?1, ?2, ?3, '${executionOf(CREATED.state)}', '${CREATED.phase}', ?4, ?5, ?5, ?6, ?7,
             ?8, ?9, ?10, ?11, ?12, ?13, ?14, nullif(?15, ?8), ?16, ?17, 0, 0, 0, 0)
     ON CONFLICT DO NOTHING`,
    job.uuid,
    job.workflow.uuid,
    definition,
    (job.workflow.oncancel ?? []).length > 0 ? 1 : 0,
    job.exec_after,
    ready ? nextTurn(db, job.workflow.uuid) : null,
    job.target,
    JSON.stringify(job.params),
    paramsSha256,
    job.locks ?? null,
    job.callback_url ?? null,
    typeof job.callback_url === "string" ? new URL(job.callback_url).host : null,
    JSON.stringify(propsOf(job)),
    job.created_at,
    job.requested_params === undefined ? null : JSON.stringify(job.requested_params),
    job.machine_uuid ?? null,
    Number(job.idempotency !== undefined),
  );
  if (inserted === 0) return writtenBefore(db, job.uuid) ?? holderOf(db, job, paramsSha256);
  insertFirstResults(db, job);
  return { kind: "created", job: { ...queuedJob(job), ...definitionAt(job.workflow) } };
}

/** The results that a job brings along from an earlier one. */
function insertFirstResults(db: Connection, { uuid, chain_results = [] }: NewJob): void {
  if (chain_results.length === 0) return;
  const id = selectJobRow(db, uuid)?.id;
  if (id === undefined) throw new Error(`Cannot write results of job ${uuid}: its row is missing`);
  for (const [at, entry] of chain_results.entries()) insertResult(db, id, "chain", at, entry);
}

/** What the engine keeps on the job: names of secrets too, since a workflow may be changed. */
function propsOf({ props = {}, workflow: { secret_params } }: NewJob): JsonObject {
  return secret_params === undefined ? props : { ...props, secret_params: [...secret_params] };
}

/** The job as it was written, without what its definition says. */
function queuedJob(job: NewJob): Omit<Job, keyof JobDefinition> {
  return {
    uuid: job.uuid,
    workflow_uuid: job.workflow.uuid,
    execution: executionOf(CREATED.state),
    phase: CREATED.phase,
    exec_after: job.exec_after,
    claimable_at: job.exec_after,
    target: job.target,
    locks: job.locks ?? null,
    callback_url: job.callback_url ?? null,
    machine_uuid: job.machine_uuid ?? null,
    params: job.params,
    requested_params: job.requested_params ?? job.params,
    props: propsOf(job),
    chain_results: job.chain_results ?? [],
    onerror_results: [],
    oncancel_results: [],
    created_at: job.created_at,
    started_at: null,
    finished_at: null,
    elapsed_ms: 0,
    phases_ms: 0,
    elapsed_at: null,
    failures: 0,
    retry_at: null,
    runner_id: null,
    lease: 0,
    starts: 0,
  };
}

/** The job of an earlier call of the same request, whose answer was lost. */
export function writtenBefore(
  db: Connection,
  uuid: JobUuid,
): Extract<InsertOutcome, { kind: "created" }> | undefined {
  const job = selectJob(db, uuid);
  return job === undefined ? undefined : { kind: "created", job };
}

/** The unfinished job because of which another one was not written. */
function holderOf(
  db: Connection,
  { target, machine_uuid = null }: NewJob,
  paramsSha256: string | null,
): InsertOutcome {
  const equal = selectHolder(db, target, paramsSha256);
  if (equal !== undefined) return { kind: "duplicate", job_uuid: equal };
  const job_uuid = selectMachineHolder(db, machine_uuid);
  if (job_uuid !== undefined) return { kind: "machine_taken", job_uuid };
  throw new Error(`Cannot name the job that holds target ${target}: it is missing`);
}

function selectHolder(
  db: Connection,
  target: string | null,
  paramsSha256: string | null,
): JobUuid | undefined {
  return db.row<{ uuid: JobUuid }>(
    `SELECT uuid FROM jobs
      WHERE target = ? AND params_sha256 = ? AND ${HOLDS_TARGET}`,
    target,
    paramsSha256,
  )?.uuid;
}

function selectMachineHolder(db: Connection, machine: MachineUuid | null): JobUuid | undefined {
  return db.row<{ uuid: JobUuid }>(
    `SELECT uuid FROM jobs WHERE machine_uuid = ? AND ${HOLDS_TARGET}`,
    machine,
  )?.uuid;
}

/**
 * The whole job with its tasks and results, which may be megabytes; undefined when it is missing.
 */
export function selectJob(db: Connection, uuid: JobUuid): Job | undefined {
  const row = selectJobRow(db, uuid);
  return row === undefined ? undefined : jobFromRow(db, row);
}

/** The row itself, for statements that go on with its id. */
function selectJobRow(db: Connection, uuid: JobUuid): JobRow | undefined {
  return db.row<JobRow>(`SELECT ${JOB_COLUMNS} FROM jobs WHERE uuid = ?`, uuid);
}

/** Reads one column, whatever the job holds; undefined when the job is missing. */
export function selectExecution(db: Connection, uuid: JobUuid): Execution | undefined {
  const sql = "SELECT execution FROM jobs WHERE uuid = ?";
  return db.row<{ execution: Execution }>(sql, uuid)?.execution;
}

/** Takes the jobs whose turn it is: as many as may be read at once, and one at least. */
export function claimJobs(db: Connection, life: RunnerLife, limit: number, now: Instant): Claimed {
  readyDelayedJobs(db, now);
  const ready = db.rows<ReadyRow & { readonly bytes: number }>(
    `SELECT id, execution, phase, runner_id, claimable_at, lease, starts, ${BYTES} AS bytes
       FROM jobs
      WHERE turn IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM runners WHERE runner_id = ?1 AND incarnation <> ?2)
      ORDER BY turn, id LIMIT ?3`,
    life.runner_id,
    life.incarnation,
    limit,
  );
  const jobs = ready.slice(0, fitting(ready, 0, CLAIM_BYTES))
    .map((row) => claimJob(db, row, life.runner_id, now));
  // Who got as many as there was room for asks again when there is room.
  return { jobs, due: jobs.length === limit ? { kind: "ready" } : selectNextDue(db, now) };
}

/** What is looked at of a job that is to be claimed. */
type ReadyRow = Pick<
  JobRow,
  "id" | "execution" | "phase" | "runner_id" | "claimable_at" | "lease" | "starts"
>;

/** Under a new lease: a runner that held the job before can write nothing more about it. */
function claimJob(db: Connection, ready: ReadyRow, runner: RunnerId, now: Instant): Job {
  const move = moveOf(standingOf(ready), { kind: "claim" });
  const row = db.row<JobRow>(
    `UPDATE jobs
        SET execution = ?3, runner_id = ?4, lease = lease + 1, claimable_at = NULL, turn = NULL,
            starts = ?5, started_at = coalesce(started_at, ?6), elapsed_at = ?6
      WHERE id = ?1 AND lease = ?2 AND turn IS NOT NULL
     RETURNING ${JOB_COLUMNS}`,
    ready.id,
    ready.lease,
    executionOf(move.to),
    runner,
    startsAfter(move, ready.starts),
    now,
  );
  if (row === undefined) {
    throw new Error(`Cannot claim job ${ready.id}: it is not as it was read`);
  }
  return jobFromRow(db, row);
}

/** Whether a job is ready, or when the first one will be. */
export function selectNextDue(db: Connection, now: Instant): NextDue {
  const row = db.row<{ ready: number; due: Instant | null }>(
    `SELECT EXISTS (SELECT 1 FROM jobs WHERE turn IS NOT NULL) AS ready,
            (SELECT min(claimable_at) FROM jobs
              WHERE claimable_at IS NOT NULL AND turn IS NULL) AS due`,
  );
  if (row?.ready === 1) return { kind: "ready" };
  const due = row?.due ?? null;
  if (due === null) return { kind: "none" };
  const ms = msBetween(now, due);
  return ms <= 0 ? { kind: "ready" } : { kind: "in", ms };
}

/**
 * The job that goes on: the successor, or the unfinished one that has its target and params. A finished
 * job names one only.
 * @throws {Error} when the job is not as it was read
 */
export function nameNextAttempt(db: Connection, id: number, next: JobUuid): void {
  db.readers.changing(jobRow(id));
  const named = db.run(
    `UPDATE jobs SET props = json_set(props, '$.next_attempt', ?2)
      WHERE id = ?1 AND finished_at IS NOT NULL AND props -> '$.next_attempt' IS NULL`,
    id,
    next,
  );
  if (named !== 1) throw new Error(`Cannot name ${next} in job ${id}: it is not as it was read`);
}

/**
 * Why a finished job has no next attempt although it asked for one.
 * @throws {Error} when the job is not as it was read
 */
export function nameRefusedAttempt(db: Connection, id: number, reason: string): void {
  db.readers.changing(jobRow(id));
  const named = db.run(
    `UPDATE jobs SET props = json_set(props, '$.next_attempt_refused', ?2)
      WHERE id = ?1 AND finished_at IS NOT NULL AND props -> '$.next_attempt' IS NULL`,
    id,
    reason,
  );
  if (named !== 1) throw new Error(`Cannot say in job ${id} why it has no next attempt`);
}

/** How many jobs are not final, from the counters. */
export function countUnfinished(db: Connection): number {
  const row = db.row<{ jobs: number | null }>(
    `SELECT sum(jobs) AS jobs FROM job_counts
      WHERE minute = '' AND execution IN ${UNFINISHED}`,
  );
  return row?.jobs ?? 0;
}
