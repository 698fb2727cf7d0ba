// Inserts and reads jobs. Claims are in claims.ts, lists in lists.ts, later changes in changes.ts.

import type { JobUuid, MachineUuid } from "../../../domain/id.ts";
import { type Instant, instantAfter } from "../../../domain/instant.ts";
import { isFree, type Job, type NewJob, placeOf, propsOf } from "../../../domain/job/job.ts";
import { CREATED, type Execution, executionOf } from "../../../domain/job/state.ts";
import type { NoHost } from "../../host_store.ts";
import type { Connection } from "../connection.ts";
import { ownHost } from "../host_rows.ts";
import { definitionAt, definitionFor, insertResult, jobFromRow, keptDefinition } from "./rows.ts";
import { jobRow } from "./texts.ts";
import { traceCreated, traceUpdate } from "./traces.ts";
import { addClaimable } from "./claimable_jobs.ts";
import { nextTurnSql } from "./turns.ts";
import {
  HOLDS_TARGET,
  type InsertOutcome,
  JOB_COLUMNS,
  type JobDefinition,
  type JobRow,
} from "../../sql.ts";

/** How many new jobs are kept in memory until they are claimed, and the most characters of params of each. */
const FRESH_MAX = 1024;
const FRESH_CHARS_MAX = 512;

/**
 * Inserts a queued job, unless an unfinished one has the same target and params, or the machine. A call
 * repeated after a lost answer returns the job of the first call, as it is now.
 */
export function insertJob(
  db: Connection,
  job: NewJob,
  paramsSha256: string | null,
  now: Instant,
): InsertOutcome {
  const definition = definitionFor(db, job.workflow);
  const execAfter = execAfterOf(job, now);
  const ready = execAfter <= now;
  const params = JSON.stringify(job.params);
  const inserted = db.run(
    `INSERT INTO jobs (
       uuid, workflow_uuid, definition_id, execution, phase, undoable, exec_after, claimable_at,
       turn, target, params, params_sha256, locks, callback_url, callback_host, props, created_at,
       requested_params, machine_uuid, kept, elapsed_ms, phases_ms, lease, starts)
     VALUES (?1, ?2, ?3, '${executionOf(CREATED.state)}', '${CREATED.phase}', ?4, ?5, ?5,
             CASE WHEN ?6 THEN ${
      nextTurnSql("?2")
    } END, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, nullif(?15, ?8), ?16, ?17, 0, 0, 0, 0)
     ON CONFLICT DO NOTHING`,
    job.uuid,
    job.workflow.uuid,
    definition,
    (job.workflow.oncancel ?? []).length > 0 ? 1 : 0,
    execAfter,
    Number(ready),
    job.target,
    params,
    paramsSha256,
    job.locks ?? null,
    job.callback_url ?? null,
    typeof job.callback_url === "string" ? new URL(job.callback_url).host : null,
    JSON.stringify(propsOf(job)),
    now,
    job.requested_params === undefined ? null : JSON.stringify(job.requested_params),
    job.machine_uuid ?? null,
    Number(job.idempotency !== undefined),
  );
  if (inserted === 0) return writtenBefore(db, job.uuid) ?? holderOf(db, job, paramsSha256);
  const id = db.insertedId;
  addClaimable(db, ready ? "turns" : "delayed", { id, uuid: job.uuid });
  db.becameClaimable();
  traceCreated(db, { id, definition_id: definition, created_at: now });
  insertFirstResults(db, id, job);
  const queued = queuedJob(db, job, now);
  const small = params.length <= FRESH_CHARS_MAX && job.chain_results === undefined;
  if (ready && small) keepFresh(db, queued, definition);
  return { kind: "created", job: { ...queued, ...definitionAt(job.workflow) } };
}

/**
 * Keeps a job in memory, unless its definition is too large to be cached. Jobs already kept are older and start
 * before it.
 */
function keepFresh(db: Connection, job: Omit<Job, keyof JobDefinition>, definition: number): void {
  const kept = keptDefinition(db, definition);
  if (kept === undefined || db.fresh.size >= FRESH_MAX) return;
  db.fresh.set(job.uuid, { ...job, ...kept });
}

/** The host that a new job's params name, if it is not this one. A free job may name any host. */
export function missingHost(db: Connection, job: NewJob): NoHost | undefined {
  const { server } = placeOf(job.params);
  if (server === undefined || isFree(propsOf(job))) return undefined;
  const own = ownHost(db);
  if (own !== undefined && (own.uuid === server.toLowerCase() || own.name === server)) {
    return undefined;
  }
  return { kind: "no_host", host: server, reason: "unknown" };
}

function execAfterOf({ exec_after, delay_ms = 0 }: NewJob, now: Instant): Instant {
  return exec_after ?? instantAfter(now, delay_ms);
}

/** The results that a retried job takes over from the previous one. */
function insertFirstResults(db: Connection, id: number, { chain_results = [] }: NewJob): void {
  for (const [at, entry] of chain_results.entries()) insertResult(db, id, "chain", at, entry);
}

/** The inserted job, without the parts in its definition. */
function queuedJob(db: Connection, job: NewJob, now: Instant): Omit<Job, keyof JobDefinition> {
  const exec_after = execAfterOf(job, now);
  return {
    uuid: job.uuid,
    workflow_uuid: job.workflow.uuid,
    execution: executionOf(CREATED.state),
    phase: CREATED.phase,
    exec_after,
    claimable_at: exec_after,
    target: job.target,
    locks: job.locks ?? null,
    callback_url: job.callback_url ?? null,
    machine_uuid: job.machine_uuid ?? null,
    host: ownHost(db)?.uuid ?? null,
    params: job.params,
    requested_params: job.requested_params ?? job.params,
    props: propsOf(job),
    chain_results: job.chain_results ?? [],
    onerror_results: [],
    oncancel_results: [],
    created_at: now,
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

/** The job that an earlier call of the same request created, if its answer was lost. */
export function writtenBefore(
  db: Connection,
  uuid: JobUuid,
): Extract<InsertOutcome, { kind: "created" }> | undefined {
  const job = selectJob(db, uuid);
  return job === undefined ? undefined : { kind: "created", job };
}

/** The unfinished job that prevented the insert. */
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

/** Reads the whole job with its tasks and results, which may be megabytes; undefined when it does not exist. */
export function selectJob(db: Connection, uuid: JobUuid): Job | undefined {
  const row = db.row<JobRow>(`SELECT ${JOB_COLUMNS} FROM jobs WHERE uuid = ?`, uuid);
  return row === undefined ? undefined : jobFromRow(db, row);
}

/** Reads one column, so that the size of the job does not matter; undefined when the job does not exist. */
export function selectExecution(db: Connection, uuid: JobUuid): Execution | undefined {
  const sql = "SELECT execution FROM jobs WHERE uuid = ?";
  return db.row<{ execution: Execution }>(sql, uuid)?.execution;
}

/**
 * Links a finished job to the next attempt: its successor, or the unfinished job with the same target and
 * params. Can be done once.
 * @throws {Error} when the job changed after it was read
 */
export function nameNextAttempt(db: Connection, id: number, next: JobUuid, now: Instant): void {
  db.readers.changing(jobRow(id));
  const named = db.row<{ execution: Execution }>(
    `UPDATE jobs SET props = json_set(props, '$.next_attempt', ?2)
      WHERE id = ?1 AND finished_at IS NOT NULL AND props -> '$.next_attempt' IS NULL
     RETURNING execution`,
    id,
    next,
  );
  if (named === undefined) {
    throw new Error(`Cannot name ${next} in job ${id}: it changed after it was read`);
  }
  traceUpdate(db, id, named.execution, now);
}

/**
 * Why a finished job has no next attempt although it asked for one.
 * @throws {Error} when the job changed after it was read
 */
export function nameRefusedAttempt(
  db: Connection,
  id: number,
  reason: string,
  now: Instant,
): void {
  db.readers.changing(jobRow(id));
  const named = db.row<{ execution: Execution }>(
    `UPDATE jobs SET props = json_set(props, '$.next_attempt_refused', ?2)
      WHERE id = ?1 AND finished_at IS NOT NULL AND props -> '$.next_attempt' IS NULL
     RETURNING execution`,
    id,
    reason,
  );
  if (named === undefined) {
    throw new Error(`Cannot note in job ${id} that ${reason}: it changed after it was read`);
  }
  traceUpdate(db, id, named.execution, now);
}
