// What a host's own database holds that hosts can share: read for a move into a shared one, which changes nothing
// here.

import { Database } from "@db/sqlite";
import { AgentError } from "../../domain/error.ts";
import { STANDING, type TransferJob, type TransferRow, type TransferRows } from "../moved_rows.ts";
import { SCHEMA_VERSION } from "./migrations.ts";

/**
 * Opens a database for reading.
 * @throws {AgentError} `conflict` for a file of another version
 */
export function openTransferRows(path: string): TransferRows {
  const db = new Database(path, { readonly: true, create: false });
  const rows = (sql: string, ...values: (string | number)[]) =>
    db.prepare(sql).all<TransferRow>(...values);
  const found = rows("PRAGMA user_version")[0]?.user_version;
  if (found !== SCHEMA_VERSION) {
    db.close();
    const why =
      `it has schema ${found}, expected ${SCHEMA_VERSION}; start the agent of this version once`;
    throw new AgentError("conflict", `Cannot move ${path}: ${why}`);
  }
  const jobOf = (row: TransferRow): TransferJob => {
    const id = Number(row.id);
    const of = (table: string, order: string) =>
      rows(`SELECT * FROM ${table} WHERE job_id = ? ORDER BY ${order}`, id);
    const [definition] = rows("SELECT * FROM definitions WHERE id = ?", Number(row.definition_id));
    if (definition === undefined) throw new Error(`Cannot read job ${row.uuid}: no definition`);
    return {
      id,
      uuid: String(row.uuid),
      row,
      definition,
      results: of("task_results", "phase, position"),
      lines: of("job_log", "seq"),
      keys: of("idempotency_keys", "key"),
      callbacks: of("callbacks", "job_id"),
    };
  };
  return {
    workflows: () => rows("SELECT * FROM workflows WHERE builtin = 0 ORDER BY id"),
    claims: () => rows("SELECT * FROM machine_claims ORDER BY uuid"),
    jobs: (after, limit) =>
      rows("SELECT * FROM jobs WHERE id > ? ORDER BY id LIMIT ?", after, limit).map(jobOf),
    standing: (uuid) =>
      rows(`SELECT ${STANDING} AS standing FROM jobs WHERE uuid = ?`, uuid)
        .map(({ standing }) => String(standing))[0],
    undelivered: () => Number(rows("SELECT count(*) AS n FROM journal")[0]?.n),
    close: () => db.close(),
  };
}
