// The condition of a shared database, for its operators. One session reads it and changes nothing.

import type { Now } from "../../domain/instant.ts";
import { SERVER_NOW } from "./event_tables.ts";
import { otherSchemaOf, requireUsable, VERSION_OF_TABLES } from "./migrations.ts";
import { databaseAway } from "./errors.ts";
import { isEncrypted, openSession, type ServerOptions, type ServerSession } from "./server.ts";

/** What a database reports about itself. */
export interface SharedCondition {
  /** Version of the schema. */
  readonly version: number;
  /** Milliseconds by which this host's clock is ahead of the server's, corrected by half the round trip. */
  readonly aheadMs: number;
  /** Duration of the round trip, milliseconds; a smaller difference of the clocks cannot be measured. */
  readonly roundTripMs: number;
  /** Whether the server had to prove its name by TLS. */
  readonly proven: boolean;
  /** Whether the server sees the connection come from its own machine. */
  readonly near: boolean;
  /** The settings `synchronous_commit`, `fsync` and `synchronous_standby_names`, for the role of the agent. */
  readonly commit: string;
  readonly fsync: string;
  readonly synchronousStandbys: string;
  /** Standbys that stream from the server. */
  readonly standbys: number;
  /** The oldest open transaction of all that the role may see, with its age in seconds; null when there is none. */
  readonly oldest: {
    readonly seconds: number;
    readonly pid: number;
    readonly role: string;
    readonly state: string;
  } | null;
  /** Sessions of other roles, whose details this role may not see. */
  readonly hidden: number;
  /** Tables with their live rows and the dead ones that VACUUM has not removed yet, most dead rows first. */
  readonly tables: readonly {
    readonly name: string;
    readonly live: number;
    readonly dead: number;
  }[];
}

/**
 * Reads the condition of a database.
 * @param now the clock of this host
 * @throws {AgentError} `overloaded` when it does not answer or does not prove its name; `other_schema`
 */
export async function readCondition(
  server: ServerOptions,
  now: Now,
): Promise<SharedCondition> {
  const session = await openSession(server, server.deadlineMs).catch((error: unknown) => {
    throw databaseAway(error);
  });
  const timer = setTimeout(() => session.destroy(), server.deadlineMs);
  try {
    const { rows: [version] } = await session.query(`SELECT ${VERSION_OF_TABLES} AS version`);
    requireUsable(version?.version);
    return {
      version: version?.version,
      ...await clocks(session, now),
      proven: isEncrypted(server.url, server.ca),
      ...await settings(session),
      oldest: await oldestTransaction(session),
      hidden: await hiddenSessions(session),
      tables: await tables(session),
    };
  } catch (error) {
    throw otherSchemaOf(error) ?? (session.broken ? databaseAway(error) : error);
  } finally {
    clearTimeout(timer);
    session.destroy();
  }
}

async function clocks(
  session: ServerSession,
  now: Now,
): Promise<{ aheadMs: number; roundTripMs: number }> {
  const before = Date.parse(now());
  const { rows: [row] } = await session.query(`SELECT ${SERVER_NOW} AS now`);
  const after = Date.parse(now());
  return { aheadMs: (before + after) / 2 - Date.parse(row?.now), roundTripMs: after - before };
}

async function settings(
  session: ServerSession,
): Promise<
  Pick<SharedCondition, "near" | "commit" | "fsync" | "synchronousStandbys" | "standbys">
> {
  const { rows: [row] } = await session.query(
    `SELECT coalesce(inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1', true) AS near,
       current_setting('synchronous_commit') AS commit, current_setting('fsync') AS fsync,
       current_setting('synchronous_standby_names') AS "synchronousStandbys",
       (SELECT count(*) FROM pg_stat_replication) AS standbys`,
  );
  return row;
}

/** The oldest open transaction. Prepared ones have no session, but every role sees them. */
async function oldestTransaction(session: ServerSession): Promise<SharedCondition["oldest"]> {
  const { rows: [oldest] } = await session.query(
    `SELECT extract(epoch FROM clock_timestamp() - began)::float8 AS seconds, pid, role, state FROM (
       SELECT xact_start AS began, pid, usename::text AS role, state FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
       UNION ALL SELECT prepared, 0, owner::text, 'prepared' FROM pg_prepared_xacts
        WHERE database = current_database()) AS open
      ORDER BY began LIMIT 1`,
  );
  return oldest ?? null;
}

/** The sessions of which this role cannot see whether they have a transaction. */
async function hiddenSessions(session: ServerSession): Promise<SharedCondition["hidden"]> {
  const { rows: [row] } = await session.query(
    `SELECT count(*) AS hidden FROM pg_stat_activity
      WHERE datname = current_database() AND query = '<insufficient privilege>'`,
  );
  return row?.hidden;
}

async function tables(session: ServerSession): Promise<SharedCondition["tables"]> {
  const { rows } = await session.query(
    `SELECT relname::text AS name, n_live_tup AS live, n_dead_tup AS dead FROM pg_stat_user_tables
      WHERE schemaname = 'public' ORDER BY n_dead_tup DESC, relname`,
  );
  return rows;
}
