// What a host's own database holds that hosts can share: read for a move into a shared one, which changes nothing
// here.

import { Database } from "@db/sqlite";
import { AgentError } from "../../domain/error.ts";
import { SCHEMA_VERSION } from "./migrations.ts";

/** A row as it is stored. */
export type TransferRow = Readonly<Record<string, string | number | null>>;

/** A job with all that belongs to it. */
export interface TransferJob {
  readonly id: number;
  readonly uuid: string;
  readonly row: TransferRow;
  /** The row of `definitions` that it keeps of its workflow. */
  readonly definition: TransferRow;
  /** Rows of `task_results`, and of `job_log` in the order of its lines. */
  readonly results: readonly TransferRow[];
  readonly lines: readonly TransferRow[];
  /** Rows of `idempotency_keys` and `callbacks`: one or none of each. */
  readonly keys: readonly TransferRow[];
  readonly callbacks: readonly TransferRow[];
}

/** The rows of a database that no agent has open. */
export interface TransferRows {
  /** Those that callers made, as rows of `workflows`. */
  workflows(): readonly TransferRow[];
  claims(): readonly TransferRow[];
  /** The next jobs in the order of their creation. @param after the id of the last one; 0 for the first */
  jobs(after: number, limit: number): readonly TransferJob[];
  /** How a job stands here, in one text; undefined when there is none. */
  standing(uuid: string): string | undefined;
  /** Results of shared jobs in the journal, which the shared database does not have yet. */
  undelivered(): number;
  close(): void;
}

/** SQL for how a job stands: it differs as soon as a runner has taken it, or somebody has changed it. */
export const STANDING =
  `concat_ws(' ', execution, phase, lease, starts, failures, (SELECT count(*) FROM task_results
     WHERE job_id = jobs.id), (SELECT count(*) FROM job_log WHERE job_id = jobs.id))`;

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
