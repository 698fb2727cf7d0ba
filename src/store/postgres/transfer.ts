// Moves what a host's own database holds into a shared one, and back. Both go in batches, each one transaction, and
// both may be cut off and begun again: what is there already is passed over.

import { AgentError } from "../../domain/error.ts";
import type { WorkflowUuid } from "../../domain/id.ts";
import type { Task, Workflow } from "../../domain/job/workflow.ts";
import {
  STANDING,
  type TransferJob,
  type TransferRow,
  type TransferRows,
} from "../sqlite/transfer_rows.ts";
import { HOLDS_TARGET } from "../columns.ts";
import { SharedDatabase, type Transaction } from "./connection.ts";
import { definitionFor, deleteUnusedDefinitions } from "./job/rows.ts";
import type { BoundValue, ServerOptions } from "./server.ts";

/** Jobs in one transaction. */
const JOBS_AT_ONCE = 50;
/** Milliseconds for one transaction, since a job may be large. */
const BATCH_MS = 60_000;

/** What a move has done. */
export interface TransferReport {
  readonly workflows: number;
  readonly jobs: number;
  /** Claims of machines. */
  readonly claims: number;
  /** Of these, what was in its place before, such as after a move that was cut off. */
  readonly passed: number;
}

/**
 * Copies workflows, jobs with all that belongs to them, and claims of machines into a shared database. The jobs are
 * bound to the host.
 * @param host the uuid of the host
 * @param begun called before the first write
 * @throws {AgentError} `conflict` for a job that cannot be beside one of another host; `overloaded`; `other_schema`
 */
export async function transferToShared(
  server: ServerOptions,
  host: string,
  from: TransferRows,
  begun: () => Promise<void>,
): Promise<TransferReport> {
  return await withDatabase(server, async (db) => {
    const columns = await db.read(columnsOf);
    await requireAdmitted(db, host);
    await begun();
    const insert = inserter(columns, { host, queue: host, owner: host });
    const workflows = from.workflows();
    const claims = from.claims();
    let [made, jobs] = [0, 0];
    made += await db.write(async (tx) => {
      let count = 0;
      for (const row of workflows) count += await insert(tx, "workflows", row, "uuid");
      for (const row of claims) count += await insert(tx, "machine_claims", row, "uuid, owner");
      return count;
    });
    for (let after = 0;;) {
      const batch = from.jobs(after, JOBS_AT_ONCE);
      const last = batch.at(-1);
      if (last === undefined) break;
      made += await db.write((tx) => insertJobs(tx, host, batch, insert));
      jobs += batch.length;
      after = last.id;
    }
    const whole = { workflows: workflows.length, jobs, claims: claims.length };
    return { ...whole, passed: whole.workflows + whole.jobs + whole.claims - made };
  });
}

/**
 * Removes what was moved, so that the host's own database is the only one again.
 * @param begun called before the first write
 * @throws {AgentError} `conflict` when the host has new jobs here, or one that was moved has gone on
 */
export async function transferBack(
  server: ServerOptions,
  host: string,
  to: TransferRows,
  begun: () => Promise<void>,
): Promise<TransferReport> {
  return await withDatabase(server, async (db) => {
    await requireUnchanged(db, host, to);
    await begun();
    let [jobs, removed] = [0, 0];
    for (let after = 0;;) {
      const batch = to.jobs(after, JOBS_AT_ONCE);
      const last = batch.at(-1);
      if (last === undefined) break;
      removed += await db.write((tx) => deleteJobs(tx, host, batch, to));
      jobs += batch.length;
      after = last.id;
    }
    const claims = to.claims();
    removed += await db.write((tx) =>
      tx.run(
        "DELETE FROM machine_claims WHERE uuid = ANY($1) AND owner = $2",
        claims.map(({ uuid }) => String(uuid)),
        host,
      )
    );
    // What other agents have accepted for the host meanwhile.
    await requireUnchanged(db, host, to);
    const whole = { workflows: 0, jobs, claims: claims.length };
    return { ...whole, passed: jobs + claims.length - removed };
  });
}

/**
 * Whether a host is one of a shared database, so that another address of it leads to the jobs that were moved.
 * @throws {AgentError} `overloaded`; `other_schema`
 */
export async function knowsHost(server: ServerOptions, host: string): Promise<boolean> {
  const sql = "SELECT 1 AS found FROM hosts WHERE uuid = $1";
  return await withDatabase(
    server,
    (db) => db.read(async (tx) => await tx.row(sql, host) !== undefined),
  );
}

/** @throws {AgentError} `conflict` for a forgotten host, whose jobs would fail as they come */
async function requireAdmitted(db: SharedDatabase, host: string): Promise<void> {
  const sql = "SELECT 1 AS found FROM hosts WHERE uuid = $1 AND forgotten";
  if (await db.read((tx) => tx.row(sql, host)) === undefined) return;
  const message =
    `Cannot move: host ${host} was forgotten, expected \`zonewright host uncordon\` first`;
  throw new AgentError("conflict", message);
}

async function withDatabase<T>(
  server: ServerOptions,
  run: (db: SharedDatabase) => Promise<T>,
): Promise<T> {
  const db = new SharedDatabase({ ...server, deadlineMs: BATCH_MS });
  try {
    return await run(db);
  } finally {
    await db.close();
  }
}

/** The columns of each table that the caller must or may give. */
type SharedColumns = ReadonlyMap<string, readonly string[]>;

async function columnsOf(tx: Transaction): Promise<SharedColumns> {
  const found = await tx.rows<{ table: string; names: string }>(
    `SELECT table_name::text AS table, string_agg(column_name, ' ') AS names FROM information_schema.columns
      WHERE table_schema = 'public' AND is_identity = 'NO' GROUP BY table_name`,
  );
  return new Map(found.map(({ table, names }) => [table, names.split(" ")]));
}

/** Inserts a row unless there is one of its key. @returns how many were inserted */
type Insert = (tx: Transaction, table: string, row: TransferRow, key: string) => Promise<number>;

/** @param added what the shared tables have besides, wherever a row has it not */
function inserter(columns: SharedColumns, added: TransferRow): Insert {
  return async (tx, table, row, key) => {
    const whole: TransferRow = { ...added, ...row };
    const names = (columns.get(table) ?? []).filter((name) => Object.hasOwn(whole, name));
    const values: BoundValue[] = names.map((name) => whole[name] ?? null);
    const places = names.map((_, index) => `$${index + 1}`).join(", ");
    return await tx.run(
      `INSERT INTO ${table} (${
        names.join(", ")
      }) VALUES (${places}) ON CONFLICT (${key}) DO NOTHING`,
      ...values,
    );
  };
}

async function insertJobs(
  tx: Transaction,
  host: string,
  batch: readonly TransferJob[],
  insert: Insert,
): Promise<number> {
  const made: number[] = [];
  for (const job of batch) made.push(...await insertJob(tx, host, job, insert));
  // They have happened elsewhere, and long ago: nobody waits for them.
  await tx.run("DELETE FROM events WHERE job_id = ANY($1::bigint[])", made);
  return made.length;
}

/** @returns its id, or nothing when it is there already */
async function insertJob(
  tx: Transaction,
  host: string,
  job: TransferJob,
  insert: Insert,
): Promise<number[]> {
  const { uuid, row, definition } = job;
  const definition_id = await definitionFor(tx, workflowOf(definition));
  // What keeps it is counted as it is inserted.
  const moved = { ...row, definition_id, kept: 0 };
  await requireAlone(tx, row);
  const made = await insert(tx, "jobs", moved, "uuid");
  const sql = "SELECT id, host FROM jobs WHERE uuid = $1";
  const there = await tx.row<{ id: number; host: string | null }>(sql, uuid);
  if (there === undefined) throw new Error(`Cannot move job ${uuid}: the database returned no row`);
  if (there.host !== host) {
    const message = `Cannot move job ${uuid}: the database has it as a job of host ${there.host}`;
    throw new AgentError("conflict", message);
  }
  if (made === 0) return [];
  const job_id = there.id;
  for (const part of job.results) {
    await insert(tx, "task_results", { ...part, job_id }, "job_id, phase, position");
  }
  for (const line of job.lines) await insert(tx, "job_log", { ...line, job_id }, "seq");
  for (const part of job.callbacks) await insert(tx, "callbacks", { ...part, job_id }, "job_id");
  for (const key of job.keys) {
    // Another host may have used it.
    await tx.run(
      `UPDATE jobs SET idempotency_key = $2, request_sha256 = $3, kept = kept + 1
        WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE idempotency_key = $2)`,
      job_id,
      key.key ?? null,
      key.request_sha256 ?? null,
    );
  }
  return [job_id];
}

/** Refuses a job beside an equal one of another host, in words. */
async function requireAlone(tx: Transaction, row: TransferRow): Promise<void> {
  // One that is canceled has its target until its oncancel chain is done.
  const isUndoing = row.execution === "canceled" &&
    (row.runner_id !== null || row.claimable_at !== null);
  if (row.finished_at !== null && !isUndoing) return;
  const other = await tx.row<{ uuid: string }>(
    `SELECT uuid FROM jobs WHERE uuid <> $1 AND ${HOLDS_TARGET}
        AND (machine_uuid = $2 OR (target = $3 AND params_sha256 = $4)) LIMIT 1`,
    row.uuid ?? null,
    row.machine_uuid ?? null,
    row.target ?? null,
    row.params_sha256 ?? null,
  );
  if (other === undefined) return;
  throw new AgentError(
    "conflict",
    `Cannot move job ${row.uuid}: the database has the unfinished job ${other.uuid} of its target`,
  );
}

/** The part of a workflow that a definition keeps; its texts were made by this store. */
function workflowOf(definition: TransferRow): Workflow {
  const tasks = (name: string) => JSON.parse(String(definition[name])) as Task[];
  return {
    uuid: String(definition.workflow_uuid) as WorkflowUuid,
    name: String(definition.name),
    chain: tasks("chain"),
    onerror: tasks("onerror"),
    oncancel: tasks("oncancel"),
    timeout: Number(definition.timeout),
  };
}

/** Looks at every job that the host has in the shared database. */
async function requireUnchanged(db: SharedDatabase, host: string, to: TransferRows): Promise<void> {
  if (to.undelivered() > 0) {
    const words = "the journal has results of an outage: start the agent once to deliver them";
    throw new AgentError("conflict", `Cannot move back: ${words}`);
  }
  for (let after = 0;;) {
    const rows = await db.read((tx) =>
      tx.rows<StandingJob>(
        `SELECT id, uuid, ${STANDING} AS standing FROM jobs WHERE host = $1 AND id > $2
          ORDER BY id LIMIT $3`,
        host,
        after,
        JOBS_AT_ONCE,
      )
    );
    for (const row of rows) requireStanding(row, to);
    const last = rows.at(-1);
    if (last === undefined) return;
    after = last.id;
  }
}

/** How a job stands in the shared database. */
interface StandingJob {
  readonly id: number;
  readonly uuid: string;
  readonly standing: string;
}

function requireStanding({ uuid, standing }: StandingJob, to: TransferRows): void {
  const before = to.standing(uuid);
  if (before === standing) return;
  const why = before === undefined ? "is new" : "has gone on since";
  const words = `job ${uuid} of this host ${why}, and the state folder does not have that`;
  throw new AgentError("conflict", `Cannot move back: ${words}`);
}

async function deleteJobs(
  tx: Transaction,
  host: string,
  batch: readonly TransferJob[],
  to: TransferRows,
): Promise<number> {
  const rows = await tx.rows<StandingJob & { readonly definition_id: number }>(
    `SELECT id, uuid, definition_id, ${STANDING} AS standing FROM jobs
      WHERE uuid = ANY($1) AND host = $2 FOR UPDATE`,
    batch.map(({ uuid }) => uuid),
    host,
  );
  // A caller may have canceled one through another agent since all were looked at.
  for (const row of rows) requireStanding(row, to);
  const ids = rows.map(({ id }) => id);
  await tx.run("DELETE FROM jobs WHERE id = ANY($1::bigint[])", ids);
  await tx.run("DELETE FROM job_log WHERE job_id = ANY($1::bigint[])", ids);
  // They are where they were.
  await tx.run("DELETE FROM events WHERE job_id = ANY($1::bigint[])", ids);
  await deleteUnusedDefinitions(tx, rows.map(({ definition_id }) => definition_id));
  return ids.length;
}
