// The schema of a shared database: its versions, who changes it, and what each role may do with it. An agent only
// compares versions; `zonewright db migrate` alone changes tables, one process at a time.
//
// A step may only add to what the version before it uses: agents of that version go on beside those of the new one,
// and a column or table that nobody uses any more is removed one version later.

import { AgentError } from "../../domain/error.ts";
import { latestOf, type SchemaSteps } from "../sqlite/migrations.ts";
import { grantRoles, type StoreRoles } from "./roles.ts";
import { SCHEMA } from "./schema.ts";
import {
  away,
  isMeeting,
  named,
  openSession,
  type ServerOptions,
  type ServerSession,
  stateOf,
} from "./server.ts";

/** The steps of this program. */
export const SHARED_STEPS: SchemaSteps = { first: 1, steps: [SCHEMA] };

/** The version of the tables that this program makes. */
const SCHEMA_VERSION = latestOf(SHARED_STEPS);

/** The versions of the tables that an agent of this program can use: its own, and the next, which only adds to it. */
export const USABLE = { oldest: SCHEMA_VERSION, newest: SCHEMA_VERSION + 1 } as const;

/** SQL for the version of the tables. */
export const VERSION_OF_TABLES = "(SELECT version FROM schema_version)";

/** Where migrations take turns, among the advisory locks of the database. */
const MIGRATING = 8_780_000;
/** Milliseconds that a migration waits for a table before it lets agents pass: those behind it wait as well. */
const TABLE_WAIT_MS = 1_000;
/** How often it tries to have the tables. */
const TRIES_MAX = 30;

/** The versions before and after a migration. */
export interface Migrated {
  /** The version before; 0 for an empty database. */
  readonly from: number;
  readonly to: number;
}

/**
 * Brings the schema of a database up to date and grants what roles may do with it, in one transaction.
 * @param roles those that may use the tables; none is made
 * @throws {AgentError} `other_schema` when a newer program has made it; `conflict` when a role may do more than it
 * should, or another migration runs; `overloaded` when the server does not answer
 */
export async function migrateSharedDatabase(
  server: ServerOptions,
  roles: StoreRoles = {},
  schema: SchemaSteps = SHARED_STEPS,
): Promise<Migrated> {
  const session = await openSession(server, server.deadlineMs).catch((error: unknown) => {
    throw away(error);
  });
  try {
    for (let tries = 1;; tries++) {
      try {
        return await migrateOnce(session, server.deadlineMs, roles, schema);
      } catch (error) {
        if (session.broken) throw away(error);
        await session.query("ROLLBACK");
        if (!isMeeting(error) || tries >= TRIES_MAX) throw named(error);
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
  await session.query(`SELECT pg_advisory_xact_lock(${MIGRATING})`).catch((error: unknown) => {
    if (!isMeeting(error)) throw error;
    const words = "another migration runs";
    throw new AgentError("conflict", `Cannot migrate the database: ${words}`, { cause: error });
  });
  await session.script(`SET LOCAL lock_timeout = ${TABLE_WAIT_MS}`);
  const from = await versionOf(session);
  const latest = latestOf(schema);
  if (from > latest || (from > 0 && from < schema.first)) throw otherSchema(from);
  for (const [index, step] of schema.steps.entries()) {
    const version = schema.first + index;
    if (version <= from) continue;
    await session.script(step);
    await session.query("UPDATE schema_version SET version = $1", [version]);
  }
  await grantRoles(session, roles);
  await session.query("COMMIT");
  return { from, to: latest };
}

/**
 * Compares the version of the tables with those that this program can use.
 * @throws {AgentError} `other_schema`
 */
export function requireUsable(version: number): void {
  if (version < USABLE.oldest || version > USABLE.newest) throw otherSchema(version);
}

/** The error for tables of another version, also for none; undefined when it is of another kind. */
export function otherSchemaOf(error: unknown): AgentError | undefined {
  if (stateOf(error) === UNDEFINED_TABLE) return otherSchema(0);
  return error instanceof AgentError && error.code === "other_schema" ? error : undefined;
}

/** State of PostgreSQL's error for a table that is not there. */
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

/** The version of the tables; 0 when there are none. */
async function versionOf(session: ServerSession): Promise<number> {
  const there = await session.query("SELECT to_regclass('schema_version') IS NOT NULL AS there");
  if (there.rows[0]?.there !== true) return 0;
  return (await session.query(`SELECT ${VERSION_OF_TABLES} AS version`)).rows[0]?.version ?? 0;
}
