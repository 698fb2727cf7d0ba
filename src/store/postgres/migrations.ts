// The schema of a shared database. An agent only compares its version; `zonewright db migrate` alone changes it, one
// process at a time.

import { AgentError } from "../../domain/error.ts";
import { SharedDatabase, type Transaction } from "./connection.ts";
import type { ServerOptions } from "./server.ts";
import { SCHEMA, SCHEMA_VERSION } from "./schema.ts";

/** Where migrations take turns, among the advisory locks of the database. */
const MIGRATING = 8_780_000;

/** The versions before and after a migration. */
export interface Migrated {
  /** The version before; 0 for an empty database. */
  readonly from: number;
  readonly to: number;
}

/**
 * Brings the schema of a database up to date.
 * @throws {AgentError} `conflict` when a newer program has made it; `overloaded` when it does not answer
 */
export async function migrateSharedDatabase(server: ServerOptions): Promise<Migrated> {
  const db = new SharedDatabase(server);
  try {
    return await db.write(async (tx) => {
      await tx.run(`SELECT pg_advisory_xact_lock(${MIGRATING})`);
      const from = await versionOf(tx);
      if (from > SCHEMA_VERSION) throw otherVersion(from);
      if (from === 0) await tx.script(SCHEMA);
      return { from, to: SCHEMA_VERSION };
    });
  } finally {
    await db.close();
  }
}

/**
 * Compares the schema with the one that this program uses.
 * @throws {AgentError} `conflict` when it is another, or there is none
 */
export async function checkVersion(db: SharedDatabase): Promise<void> {
  const version = await db.read(versionOf);
  if (version !== SCHEMA_VERSION) throw otherVersion(version);
}

function otherVersion(version: number): AgentError {
  const found = version === 0 ? "has no tables of zonewright" : `has schema version ${version}`;
  const hint = version < SCHEMA_VERSION
    ? "run `zonewright db migrate`"
    : "a newer program has migrated it, so upgrade this one";
  return new AgentError(
    "conflict",
    `Cannot use the database: it ${found}, this program needs ${SCHEMA_VERSION}; ${hint}`,
  );
}

/** The version of the tables; 0 when there are none. */
async function versionOf(tx: Transaction): Promise<number> {
  const there = await tx.row<{ there: boolean }>(
    "SELECT to_regclass('schema_version') IS NOT NULL AS there",
  );
  if (there?.there !== true) return 0;
  const row = await tx.row<{ version: number }>("SELECT version FROM schema_version");
  if (row === undefined) throw new Error("Cannot read the version of the schema: no row came");
  return row.version;
}
