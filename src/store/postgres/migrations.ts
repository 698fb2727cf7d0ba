// The versions of a shared database's schema. Agents only compare versions; `zonewright db migrate` changes tables, and
// only one process does so at a time.
//
// A step may only add to what the version before it uses, because agents of that version keep running beside newer
// ones. A column or table that is no longer used is removed one version later.

import { AgentError } from "../../domain/error.ts";
import { latestOf, type SchemaSteps } from "../sql.ts";
import { grantRoles, type StoreRoles } from "./roles.ts";
import { SCHEMA } from "./schema.ts";
import { callersError, databaseAway, maySucceedAgain, sqlStateOf } from "./errors.ts";
import { openSession, type ServerOptions, type ServerSession } from "./server.ts";

/** The steps of this program. */
export const SHARED_STEPS: SchemaSteps = { first: 1, steps: [SCHEMA] };

/** The version of the tables that this program makes. */
const SCHEMA_VERSION = latestOf(SHARED_STEPS);

/** The schema versions that this program's agents can use: its own, and the next, which only adds to it. */
export const USABLE = { oldest: SCHEMA_VERSION, newest: SCHEMA_VERSION + 1 } as const;

/** SQL for the schema version. */
export const VERSION_OF_TABLES = "(SELECT version FROM schema_version)";

/** The advisory lock on which migrations take turns. */
const MIGRATION_LOCK = 8_780_000;
/**
 * Milliseconds that a migration waits for a table lock. Agents queue behind that lock request, so it gives up to let
 * them pass.
 */
const TABLE_WAIT_MS = 1_000;
/** How often it tries to lock the tables. */
const TRIES_MAX = 30;

/** The versions before and after a migration. */
export interface Migrated {
  /** The version before; 0 for an empty database. */
  readonly from: number;
  readonly to: number;
}

/**
 * Migrates the schema of a database and grants the privileges of roles, in one transaction.
 * @param roles the roles that may use the tables; they must exist
 * @throws {AgentError} `other_schema` when a newer program has migrated it; `conflict` when a role has more privileges
 * than allowed, or another migration runs; `overloaded` when the server does not answer
 */
export async function migrateSharedDatabase(
  server: ServerOptions,
  roles: StoreRoles = {},
  schema: SchemaSteps = SHARED_STEPS,
): Promise<Migrated> {
  const session = await openSession(server, server.deadlineMs).catch((error: unknown) => {
    throw databaseAway(error);
  });
  try {
    for (let tries = 1;; tries++) {
      try {
        return await migrateOnce(session, server.deadlineMs, roles, schema);
      } catch (error) {
        if (session.broken) throw databaseAway(error);
        await session.query("ROLLBACK");
        if (!maySucceedAgain(error) || tries >= TRIES_MAX) throw callersError(error);
      }
    }
  } finally {
    session.destroy();
  }
}

async function migrateOnce(
  session: ServerSession,
  turnMs: number,
  roles: StoreRoles,
  schema: SchemaSteps,
): Promise<Migrated> {
  await session.script(`BEGIN; SET LOCAL lock_timeout = ${turnMs}`);
  await lockMigrations(session);
  await session.script(`SET LOCAL lock_timeout = ${TABLE_WAIT_MS}`);
  const from = await versionOf(session);
  const latest = latestOf(schema);
  if (from > latest || (from > 0 && from < schema.first)) throw otherSchema(from);
  for (const [index, step] of schema.steps.entries()) {
    const version = schema.first + index;
    if (version <= from) continue;
    await session.script(step);
    await updateVersion(session, version);
  }
  await grantRoles(session, roles);
  await session.query("COMMIT");
  return { from, to: latest };
}

/** Takes the lock until the end of the transaction. */
async function lockMigrations(session: ServerSession): Promise<void> {
  await session.query(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`).catch((error: unknown) => {
    if (!maySucceedAgain(error)) throw error;
    const words = "another migration runs";
    throw new AgentError("conflict", `Cannot migrate the database: ${words}`, { cause: error });
  });
}

async function updateVersion(session: ServerSession, version: number): Promise<void> {
  await session.query("UPDATE schema_version SET version = $1", [version]);
}

/**
 * Refuses a schema version that this program cannot use.
 * @throws {AgentError} `other_schema`
 */
export function requireUsable(version: number): void {
  if (version < USABLE.oldest || version > USABLE.newest) throw otherSchema(version);
}

/** The error for a schema of another version or for missing tables; undefined for any other error. */
export function otherSchemaOf(error: unknown): AgentError | undefined {
  if (sqlStateOf(error) === UNDEFINED_TABLE) return otherSchema(0);
  return error instanceof AgentError && error.code === "other_schema" ? error : undefined;
}

/** SQLSTATE for a table that does not exist. */
const UNDEFINED_TABLE = "42P01";

function otherSchema(version: number): AgentError {
  const { oldest, newest } = USABLE;
  const found = version === 0 ? "has no tables of zonewright" : `has schema version ${version}`;
  const hint = version < oldest
    ? "run `zonewright db migrate`"
    : "a newer program has migrated it, so upgrade this one";
  return new AgentError(
    "other_schema",
    `Cannot use the database: it ${found}, this program can use ${oldest} to ${newest}; ${hint}`,
  );
}

/** The schema version; 0 when there are no tables. */
async function versionOf(session: ServerSession): Promise<number> {
  if (!await hasTables(session)) return 0;
  return (await session.query(`SELECT ${VERSION_OF_TABLES} AS version`)).rows[0]?.version ?? 0;
}

async function hasTables(session: ServerSession): Promise<boolean> {
  const sql = "SELECT to_regclass('schema_version') IS NOT NULL AS there";
  return (await session.query(sql)).rows[0]?.there === true;
}
