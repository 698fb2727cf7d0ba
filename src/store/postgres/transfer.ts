// Moves the contents of a host's own database into a shared one, and back. Both work in batches of one transaction
// each, and may be interrupted and started again: rows that exist are skipped.

import { AgentError } from "../../domain/error.ts";
import type { WorkflowUuid } from "../../domain/id.ts";
import type { Task, Workflow } from "../../domain/job/workflow.ts";
import {
  JOB_FINGERPRINT,
  type TransferJob,
  type TransferReport,
  type TransferRow,
  type TransferRows,
} from "../transfer_row.ts";
import { HOLDS_TARGET } from "../sql.ts";
import { SharedDatabase, type Transaction } from "./connection.ts";
import { definitionFor, deleteUnusedDefinitions } from "./job/rows.ts";
import type { BoundValue, ServerOptions } from "./server.ts";

/** Jobs in one transaction. */
const JOBS_AT_ONCE = 50;
/** Deadline of one transaction, milliseconds; a single job may be large. */
const BATCH_MS = 60_000;

/**
 * Copies workflows, jobs with all that belongs to them, and claims on machines into a shared database. The jobs are
 * bound to the host.
 * @param host the uuid of the host
 * @param begun called before the first write
 * @throws {AgentError} `conflict` for a job whose target another host's unfinished job has; `overloaded`;
 * `other_schema`
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
 * Removes the moved rows, so that the host's own database is the only one again.
 * @param begun called before the first write
 * @throws {AgentError} `conflict` when the host has new jobs in the shared database, or a moved job has continued there
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
    removed += await db.write((tx) => deleteClaims(tx, host, claims));
    // Other agents may have accepted jobs for the host since.
    await requireUnchanged(db, host, to);
    const whole = { workflows: 0, jobs, claims: claims.length };
    return { ...whole, passed: jobs + claims.length - removed };
  });
}

/**
 * Whether a host is known to a shared database: then this address leads to the database that the jobs were moved to.
 * @throws {AgentError} `overloaded`; `other_schema`
 */
export async function knowsHost(server: ServerOptions, host: string): Promise<boolean> {
  const sql = "SELECT 1 AS found FROM hosts WHERE uuid = $1";
  return await withDatabase(
    server,
    (db) => db.read(async (tx) => await tx.row(sql, host) !== undefined),
  );
}

/** @throws {AgentError} `conflict` for a forgotten host, whose jobs would fail as soon as they are inserted */
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

/** The columns of each table that an insert may set. */
type SharedColumns = ReadonlyMap<string, readonly string[]>;

async function columnsOf(tx: Transaction): Promise<SharedColumns> {
  const found = await tx.rows<{ table: string; names: string }>(
    `SELECT table_name::text AS table, string_agg(column_name, ' ') AS names FROM information_schema.columns
      WHERE table_schema = 'public' AND is_identity = 'NO' GROUP BY table_name`,
  );
  return new Map(found.map(({ table, names }) => [table, names.split(" ")]));
}

/** Inserts a row unless its key exists. @returns the number of inserted rows */
type Insert = (tx: Transaction, table: string, row: TransferRow, key: string) => Promise<number>;

/** @param added values for columns that only the shared tables have; a row's own value has precedence */
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
  // The moved jobs' events are of the past, and no reader waits for them.
  await deleteEvents(tx, made);
  return made.length;
}

/** @returns the id of the job, or nothing if it exists already */
async function insertJob(
  tx: Transaction,
  host: string,
  job: TransferJob,
  insert: Insert,
): Promise<number[]> {
  const { uuid, row, definition } = job;
  const definition_id = await definitionFor(tx, workflowOf(definition));
  // Triggers count what keeps the job as it is inserted.
  const moved = { ...row, definition_id, kept: 0 };
  await requireAlone(tx, row);
  const made = await insert(tx, "jobs", moved, "uuid");
  const there = await selectHostOf(tx, uuid);
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
  for (const key of job.keys) await updateKey(tx, job_id, key);
  return [job_id];
}

function selectHostOf(
  tx: Transaction,
  uuid: string,
): Promise<{ readonly id: number; readonly host: string | null } | undefined> {
  return tx.row("SELECT id, host FROM jobs WHERE uuid = $1", uuid);
}

/** Another host may have used the same key, and keeps it then. */
async function updateKey(tx: Transaction, id: number, key: TransferRow): Promise<void> {
  await tx.run(
    `UPDATE jobs SET idempotency_key = $2, request_sha256 = $3, kept = kept + 1
      WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE idempotency_key = $2)`,
    id,
    key.key ?? null,
    key.request_sha256 ?? null,
  );
}

/** Refuses a job whose target an unfinished job of another host has, with an error that names that job. */
async function requireAlone(tx: Transaction, row: TransferRow): Promise<void> {
  // A canceled job holds its target until its oncancel chain has ended.
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

/** The workflow that a definition was made from. This store made the texts. */
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

/** Compares every job of the host in the shared database with the host's own database. */
async function requireUnchanged(db: SharedDatabase, host: string, to: TransferRows): Promise<void> {
  if (to.undelivered() > 0) {
    const words = "the journal has results of an outage: start the agent once to deliver them";
    throw new AgentError("conflict", `Cannot move back: ${words}`);
  }
  for (let after = 0;;) {
    const rows = await db.read((tx) => selectFingerprints(tx, host, after));
    for (const row of rows) requireSame(row, to);
    const last = rows.at(-1);
    if (last === undefined) return;
    after = last.id;
  }
}

/** A job's state in the shared database, as a text to compare. */
interface FingerprintedJob {
  readonly id: number;
  readonly uuid: string;
  readonly fingerprint: string;
}

function selectFingerprints(
  tx: Transaction,
  host: string,
  after: number,
): Promise<FingerprintedJob[]> {
  return tx.rows(
    `SELECT id, uuid, ${JOB_FINGERPRINT} AS fingerprint FROM jobs WHERE host = $1 AND id > $2
      ORDER BY id LIMIT $3`,
    host,
    after,
    JOBS_AT_ONCE,
  );
}

function requireSame({ uuid, fingerprint }: FingerprintedJob, to: TransferRows): void {
  const before = to.fingerprint(uuid);
  if (before === fingerprint) return;
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
  const rows = await lockMoved(tx, host, batch);
  // A caller may have canceled a job through another agent since the comparison.
  for (const row of rows) requireSame(row, to);
  const ids = rows.map(({ id }) => id);
  await deleteRows(tx, ids);
  await deleteLines(tx, ids);
  // The jobs still exist in the host's own database, so their removal here is not an event.
  await deleteEvents(tx, ids);
  await deleteUnusedDefinitions(tx, rows.map(({ definition_id }) => definition_id));
  return ids.length;
}

/** Locks the rows of moved jobs until the end of the transaction. */
function lockMoved(
  tx: Transaction,
  host: string,
  batch: readonly TransferJob[],
): Promise<(FingerprintedJob & { readonly definition_id: number })[]> {
  return tx.rows(
    `SELECT id, uuid, definition_id, ${JOB_FINGERPRINT} AS fingerprint FROM jobs
      WHERE uuid = ANY($1) AND host = $2 FOR UPDATE`,
    batch.map(({ uuid }) => uuid),
    host,
  );
}

async function deleteClaims(
  tx: Transaction,
  host: string,
  claims: readonly TransferRow[],
): Promise<number> {
  return await tx.run(
    "DELETE FROM machine_claims WHERE uuid = ANY($1) AND owner = $2",
    claims.map(({ uuid }) => String(uuid)),
    host,
  );
}

async function deleteRows(tx: Transaction, ids: readonly number[]): Promise<void> {
  await tx.run("DELETE FROM jobs WHERE id = ANY($1::bigint[])", ids);
}

async function deleteLines(tx: Transaction, ids: readonly number[]): Promise<void> {
  await tx.run("DELETE FROM job_log WHERE job_id = ANY($1::bigint[])", ids);
}

async function deleteEvents(tx: Transaction, ids: readonly number[]): Promise<void> {
  await tx.run("DELETE FROM events WHERE job_id = ANY($1::bigint[])", ids);
}
