// What a host's own database holds that hosts can share: read for a move into a shared one, which changes nothing
// here.

import { Database } from "@db/sqlite";
import { AgentError } from "../../domain/error.ts";
import {
  JOB_FINGERPRINT,
  type TransferJob,
  type TransferRow,
  type TransferRows,
} from "../transfer_row.ts";
import { SCHEMA_VERSION } from "./migrations.ts";

/**
 * Opens a database for reading.
 * @throws {AgentError} `conflict` for a file of another version
 */
export function openTransferRows(path: string): TransferRows {
  const db = new Database(path, { readonly: true, create: false });
  const found = selectVersion(db);
  if (found !== SCHEMA_VERSION) {
    db.close();
    const why =
      `it has schema ${found}, expected ${SCHEMA_VERSION}; start the agent of this version once`;
    throw new AgentError("conflict", `Cannot move ${path}: ${why}`);
  }
  return {
    workflows: () => selectWorkflows(db),
    claims: () => selectClaims(db),
    jobs: (after, limit) => selectJobs(db, after, limit).map((row) => jobOf(db, row)),
    fingerprint: (uuid) => selectFingerprint(db, uuid),
    undelivered: () => countJournal(db),
    close: () => db.close(),
  };
}

function jobOf(db: Database, row: TransferRow): TransferJob {
  const id = Number(row.id);
  const definition = selectDefinition(db, Number(row.definition_id));
  if (definition === undefined) {
    throw new Error(`Cannot read job ${row.uuid}: its definition is missing`);
  }
  return {
    id,
    uuid: String(row.uuid),
    row,
    definition,
    results: selectOfJob(db, "task_results", "phase, position", id),
    lines: selectOfJob(db, "job_log", "seq", id),
    keys: selectOfJob(db, "idempotency_keys", "key", id),
    callbacks: selectOfJob(db, "callbacks", "job_id", id),
  };
}

function selectVersion(db: Database): number | undefined {
  return db.prepare("PRAGMA user_version").get<{ user_version: number }>()?.user_version;
}

function selectWorkflows(db: Database): TransferRow[] {
  return db.prepare("SELECT * FROM workflows WHERE builtin = 0 ORDER BY id").all<TransferRow>();
}

function selectClaims(db: Database): TransferRow[] {
  return db.prepare("SELECT * FROM machine_claims ORDER BY uuid").all<TransferRow>();
}

function selectJobs(db: Database, after: number, limit: number): TransferRow[] {
  const sql = "SELECT * FROM jobs WHERE id > ? ORDER BY id LIMIT ?";
  return db.prepare(sql).all<TransferRow>(after, limit);
}

function selectDefinition(db: Database, id: number): TransferRow | undefined {
  return db.prepare("SELECT * FROM definitions WHERE id = ?").get<TransferRow>(id);
}

/** The rows of a job in a table of its own. */
function selectOfJob(
  db: Database,
  table: "task_results" | "job_log" | "idempotency_keys" | "callbacks",
  order: string,
  id: number,
): TransferRow[] {
  const sql = `SELECT * FROM ${table} WHERE job_id = ? ORDER BY ${order}`;
  return db.prepare(sql).all<TransferRow>(id);
}

function selectFingerprint(db: Database, uuid: string): string | undefined {
  const sql = `SELECT ${JOB_FINGERPRINT} AS fingerprint FROM jobs WHERE uuid = ?`;
  return db.prepare(sql).get<{ fingerprint: string }>(uuid)?.fingerprint;
}

function countJournal(db: Database): number {
  return db.prepare("SELECT count(*) AS n FROM journal").get<{ n: number }>()?.n ?? 0;
}
