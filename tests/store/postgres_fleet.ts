// Two agents on one shared database, on a PostgreSQL server of the test file.

// @ts-types="@types/pg"
import pg from "pg";
import type { RunnerId } from "../../src/domain/id.ts";
import { SharedDatabase } from "../../src/store/postgres/connection.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres_store.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { ClockedStore } from "../support/clocked_store.ts";
import { T0 } from "../support/job.ts";
import { OUTAGE, postgresFolder, type PostgresServer, startPostgres } from "../support/postgres.ts";

/** The uuids of the two hosts. */
export const HOSTS = [1, 2].map((number) => `33333333-0000-4000-8000-00000000000${number}`) as [
  RunnerId,
  RunnerId,
];

/** Two agents on a database of their own, and a connection to look into it. */
interface Fleet {
  readonly one: ClockedStore;
  readonly other: ClockedStore;
  readonly db: SharedDatabase;
}

/** Starts a server for a test file. @returns registers a test with two agents */
export function fleetTests(): (name: string, run: (fleet: Fleet) => Promise<void>) => void {
  let folder: string;
  let server: PostgresServer;
  let made = 0;
  const isMissing = postgresFolder() === undefined;
  if (!isMissing) {
    Deno.test.beforeAll(async () => {
      folder = await Deno.makeTempDir({ prefix: "zonewright-test-" });
      server = await startPostgres(folder);
    });
    Deno.test.afterAll(async () => {
      await server.stop();
      await Deno.remove(folder, { recursive: true });
    });
  }
  return (name, run) =>
    Deno.test({
      name: `postgres: ${name}`,
      ignore: isMissing && Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") !== "all",
      fn: async () => {
        const url = server.url(`fleet_${++made}`);
        await server.sql(`CREATE DATABASE fleet_${made}`);
        const clock = { now: T0 };
        const options = { url, deadlineMs: 60_000, now: () => clock.now };
        await migrateSharedDatabase(options);
        const open = async (host: string): Promise<ClockedStore> => {
          const local = await openSqliteStore(":memory:", { now: () => clock.now });
          return { ...await openPostgresStore(local, { ...options, ...OUTAGE, host }), clock };
        };
        const [one, other] = await Promise.all(HOSTS.map(open)) as [ClockedStore, ClockedStore];
        const db = new SharedDatabase(options);
        try {
          await run({ one, other, db });
        } finally {
          await Promise.all([one.close(), other.close(), db.close()]);
        }
      },
    });
}

/** Statements that are sent while a call runs, to the server of any session. */
export async function statementsOf(call: () => Promise<unknown>): Promise<number> {
  const { query } = pg.Client.prototype;
  let sent = 0;
  // The same function, counted.
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    sent += 1;
    return Reflect.apply(query, this, args);
  } as typeof query;
  try {
    await call();
  } finally {
    pg.Client.prototype.query = query;
  }
  return sent;
}
