// Inserts jobs, and links them to their next attempts.

import type { HostUuid, JobUuid } from "../../../domain/id.ts";
import { type Instant, instantAfter } from "../../../domain/instant.ts";
import { type Job, type NewJob, propsOf } from "../../../domain/job/job.ts";
import { CREATED, executionOf } from "../../../domain/job/state.ts";
import type { JsonObject, JsonValue } from "../../../domain/json.ts";
import type { Workflow } from "../../../domain/job/workflow.ts";
import type { Transaction } from "../connection.ts";
import { type ColumnTypes, tableOf, Values } from "../statements.ts";
import { RowChanged } from "../errors.ts";
import { queuedNotice } from "../notices.ts";
import { type JobQueue, type PlaceHosts, queueFor } from "./host_queue.ts";
import {
  definitionFor,
  insertResults,
  jobsFromRows,
  jobsOf,
  selectJob,
  type SharedJobRow,
} from "./rows.ts";
import { nextTurns } from "./turns.ts";
import { HOLDS_TARGET, type InsertOutcome } from "../../sql.ts";

/** A job for insertJobs(). */
export interface InsertedJob {
  readonly job: NewJob;
  /** The hosts to choose from if the params name none. */
  readonly hosts: PlaceHosts;
  readonly paramsSha256: string | null;
  /** Whether the agent hands the job to its own runner, which then needs no notice. */
  readonly handedOver?: boolean;
}

/**
 * Inserts a queued job, unless an unfinished one has the same target and params, or the same machine. A call that is
 * repeated after a lost answer returns the job of the first call in its current state.
 * @throws {RowChanged} when the job that prevented the insert has just ended
 */
export async function insertJob(tx: Transaction, inserted: InsertedJob): Promise<InsertOutcome> {
  const outcome = (await insertJobs(tx, [inserted])).get(inserted.job.uuid);
  if (outcome === undefined) {
    throw new Error(`Cannot insert job ${inserted.job.uuid}: it has no outcome`);
  }
  return outcome;
}

/** As insertJob(), for several jobs in order. @returns the outcome of each */
export async function insertJobs(
  tx: Transaction,
  jobs: readonly InsertedJob[],
): Promise<Map<JobUuid, InsertOutcome>> {
  const outcomes = new Map<JobUuid, InsertOutcome>();
  const placed: PlacedJob[] = [];
  for (const one of jobs) {
    const { job: { uuid } } = one;
    const place = await queueFor(tx, one.job, one.hosts);
    if (place.kind === "queue") placed.push({ ...one, place });
    else outcomes.set(uuid, await writtenBefore(tx, uuid) ?? place);
  }
  const rows = await insertRows(tx, placed);
  for (const job of await insertedJobs(tx, placed, rows)) {
    outcomes.set(job.uuid, { kind: "created", job });
  }
  for (const { job, place: { queue }, paramsSha256 } of placed) {
    if (outcomes.has(job.uuid)) continue;
    const outcome = await writtenBefore(tx, job.uuid) ?? await forgottenOf(tx, queue) ??
      await holderOf(tx, job, paramsSha256);
    outcomes.set(job.uuid, outcome);
  }
  return outcomes;
}

interface PlacedJob extends InsertedJob {
  readonly place: JobQueue;
}

const NEW_TYPES: ColumnTypes<ReturnType<typeof newRow>> = {
  uuid: "text",
  workflow_uuid: "text",
  definition_id: "bigint",
  undoable: "boolean",
  exec_after: "text",
  turn: "bigint",
  target: "text",
  params: "text",
  params_sha256: "text",
  locks: "text",
  callback_url: "text",
  callback_host: "text",
  props: "text",
  requested_params: "text",
  machine_uuid: "text",
  kept: "bigint",
  queue: "text",
  host: "text",
  idempotency_key: "text",
  request_sha256: "text",
};

function newRow(
  { job, place: { queue, host }, paramsSha256 }: PlacedJob,
  definition_id: number,
  exec_after: Instant,
  turn: number | null,
) {
  const { callback_url = null } = job;
  const params = JSON.stringify(job.params);
  const requested = job.requested_params === undefined
    ? params
    : JSON.stringify(job.requested_params);
  return {
    uuid: job.uuid,
    workflow_uuid: job.workflow.uuid,
    definition_id,
    undoable: (job.workflow.oncancel ?? []).length > 0,
    exec_after,
    turn,
    target: job.target,
    params,
    params_sha256: paramsSha256,
    locks: job.locks ?? null,
    callback_url,
    callback_host: callback_url === null ? null : new URL(callback_url).host,
    props: JSON.stringify(propsOf(job)),
    requested_params: requested === params ? null : requested,
    machine_uuid: job.machine_uuid ?? null,
    kept: Number(job.idempotency !== undefined),
    queue,
    // queueFor() returns the uuid of the host.
    host: host as HostUuid | null,
    idempotency_key: job.idempotency?.key ?? null,
    request_sha256: job.idempotency?.request_sha256 ?? null,
  };
}

/** Columns that have the same value in every new job. */
const NEW_ALIKE = {
  execution: executionOf(CREATED.state),
  phase: CREATED.phase,
  elapsed_ms: 0,
  phases_ms: 0,
  lease: 0,
  starts: 0,
} as const;

/** The row of a new job, made from what was inserted instead of being read back. */
function writtenRow(row: ReturnType<typeof newRow>, id: number, now: Instant): SharedJobRow {
  const { undoable: _undoable, turn: _turn, params_sha256: _digest, ...shown } = row;
  const { callback_host: _callback, kept: _kept, queue: _queue, ...more } = shown;
  const { idempotency_key: _key, request_sha256: _request, ...columns } = more;
  return {
    ...columns,
    id,
    ...NEW_ALIKE,
    claimable_at: row.exec_after,
    created_at: now,
    started_at: null,
    finished_at: null,
    elapsed_at: null,
    failures: 0,
    retry_at: null,
    runner_id: null,
  };
}

const ALIKE_VALUES = Object.values(NEW_ALIKE).map((value) =>
  typeof value === "number" ? value : `'${value}'`
).join(", ");

/** The columns for which any row has a value, with their names. */
function typesOf(rows: readonly ReturnType<typeof newRow>[]) {
  const used = Object.entries(NEW_TYPES).filter(([name]) =>
    // Object.entries() loses the names' type.
    rows.some((row) => row[name as keyof typeof row] !== null)
  );
  return [
    Object.fromEntries(used) as typeof NEW_TYPES,
    used.map(([name]) => name).join(", "),
  ] as const;
}

async function definitionsFor(
  tx: Transaction,
  workflows: ReadonlySet<Workflow>,
): Promise<ReadonlyMap<Workflow, number>> {
  const definitions = new Map<Workflow, number>();
  for (const one of workflows) definitions.set(one, await definitionFor(tx, one));
  return definitions;
}

/** @returns the rows of the jobs that nothing prevented */
async function insertRows(tx: Transaction, placed: readonly PlacedJob[]): Promise<SharedJobRow[]> {
  if (placed.length === 0) return [];
  const { now } = tx;
  const dueAt = ({ job }: PlacedJob) => job.exec_after ?? instantAfter(now, job.delay_ms ?? 0);
  const ready = placed.filter((one) => dueAt(one) <= now);
  const [definitions, turns] = await Promise.all([
    definitionsFor(tx, new Set(placed.map(({ job }) => job.workflow))),
    nextTurns(
      tx,
      ready.map(({ job, place: { queue } }) => ({ queue, workflow_uuid: job.workflow.uuid })),
    ),
  ]);
  const turnOf = new Map(ready.map((one, at) => [one, turns[at]]));
  const values = new Values();
  const rows = placed.map((one) =>
    newRow(one, definitions.get(one.job.workflow) ?? 0, dueAt(one), turnOf.get(one) ?? null)
  );
  // Most jobs have no target, locks or callback, and an array parameter of nulls costs as much as one of values.
  const [types, names] = typesOf(rows);
  const found = await tx.rows<{ id: number; uuid: JobUuid }>(
    `INSERT INTO jobs (${names}, claimable_at, created_at, ${Object.keys(NEW_ALIKE).join(", ")})
     SELECT ${names}, exec_after, ${values.add(now)}, ${ALIKE_VALUES}
       FROM ${tableOf(types, rows, values)}
      WHERE NOT EXISTS (SELECT 1 FROM hosts WHERE hosts.uuid = new.queue AND forgotten)
      ORDER BY place
     ON CONFLICT DO NOTHING RETURNING id, uuid`,
    ...values.all,
  );
  const made = new Map(found.map(({ id, uuid }) => [uuid, id]));
  for (const { job: { uuid }, place: { queue }, hosts, handedOver } of placed) {
    if (made.has(uuid)) tx.notify(queuedNotice(queue), handedOver !== true || queue !== hosts.own);
  }
  return rows.flatMap((row) => {
    const id = made.get(row.uuid);
    return id === undefined ? [] : writtenRow(row, id, now);
  });
}

/** The jobs of new rows. A job that begins with results of an earlier one gets copies of them. */
async function insertedJobs(
  tx: Transaction,
  placed: readonly PlacedJob[],
  rows: readonly SharedJobRow[],
): Promise<Job[]> {
  const results = new Map(placed.map(({ job }) => [job.uuid, job.chain_results ?? []]));
  const begun = rows.flatMap(({ id, uuid }) =>
    (results.get(uuid) ?? []).map((entry, position) => ({
      id,
      phase: "chain" as const,
      position,
      entry,
    }))
  );
  await insertResults(tx, begun);
  return begun.length > 0 ? await jobsFromRows(tx, rows) : await jobsOf(tx, rows, []);
}

/** The job that an earlier call of the same request created, if its answer was lost. */
export async function writtenBefore(
  tx: Transaction,
  uuid: JobUuid,
): Promise<Extract<InsertOutcome, { kind: "created" }> | undefined> {
  const job = await selectJob(tx, uuid);
  return job === undefined ? undefined : { kind: "created", job };
}

/** The outcome of an insert that failed because the host of the queue is forgotten; undefined for another host. */
async function forgottenOf(tx: Transaction, queue: string): Promise<InsertOutcome | undefined> {
  const row = await tx.row("SELECT 1 AS found FROM hosts WHERE uuid = $1 AND forgotten", queue);
  return row === undefined ? undefined : { kind: "no_host", host: queue, reason: "forgotten" };
}

/** The outcome of an insert that an unfinished job prevented. */
async function holderOf(
  tx: Transaction,
  { target, machine_uuid = null, idempotency }: NewJob,
  paramsSha256: string | null,
): Promise<InsertOutcome> {
  // A part per column, so that each uses its own index whatever the planner's statistics say.
  const row = await tx.row<{ uuid: JobUuid; equal: boolean; repeated: boolean }>(
    `SELECT uuid, false AS equal, true AS repeated FROM jobs WHERE idempotency_key = $4
     UNION ALL SELECT uuid, true, false FROM jobs
      WHERE target = $1 AND params_sha256 = $2 AND ${HOLDS_TARGET}
     UNION ALL SELECT uuid, false, false FROM jobs WHERE machine_uuid = $3 AND ${HOLDS_TARGET}
      ORDER BY repeated DESC, equal DESC LIMIT 1`,
    target,
    paramsSha256,
    machine_uuid,
    idempotency?.key ?? null,
  );
  if (row?.repeated === true) {
    throw new RowChanged(`Job ${row.uuid} was just made by the same request`);
  }
  if (row === undefined) throw new RowChanged(`Cannot name the job that holds target ${target}`);
  const { uuid: job_uuid, equal } = row;
  return { kind: equal ? "duplicate" : "machine_taken", job_uuid };
}

/**
 * Writes a field of the engine into a finished job that has no next attempt.
 * @throws {RowChanged} when the job changed after it was read
 */
async function writeProp(
  tx: Transaction,
  id: number,
  name: "next_attempt" | "next_attempt_refused",
  value: JsonValue,
): Promise<void> {
  const props = await lockProps(tx, id);
  if (props === undefined || "next_attempt" in props) {
    throw new RowChanged(`Cannot write ${name} into job ${id}: it changed after it was read`);
  }
  await updateProps(tx, id, { ...props, [name]: value });
}

/** The fields of the engine of a finished job, locked until the end of the transaction. */
async function lockProps(tx: Transaction, id: number): Promise<JsonObject | undefined> {
  const row = await tx.row<{ props: string }>(
    "SELECT props FROM jobs WHERE id = $1 AND finished_at IS NOT NULL FOR UPDATE",
    id,
  );
  // This store made the text from an object.
  return row === undefined ? undefined : JSON.parse(row.props) as JsonObject;
}

async function updateProps(tx: Transaction, id: number, props: JsonObject): Promise<void> {
  await tx.run("UPDATE jobs SET props = $2 WHERE id = $1", id, JSON.stringify(props));
}

/**
 * Links a finished job to its next attempt, once: to its successor, or to the unfinished job with the same target and
 * params.
 */
export function nameNextAttempt(tx: Transaction, id: number, next: JobUuid): Promise<void> {
  return writeProp(tx, id, "next_attempt", next);
}

/** Notes why a finished job that asked for a next attempt has none. */
export function nameRefusedAttempt(tx: Transaction, id: number, reason: string): Promise<void> {
  return writeProp(tx, id, "next_attempt_refused", reason);
}
