// The suite of the store on a real PostgreSQL server, which is this file's own. Each test has a database.

import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres_store.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { ClockedStore } from "../support/clocked_store.ts";
import { RUNNER, T0 } from "../support/job.ts";
import { OUTAGE, postgresFolder, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { storeSuite } from "./store_suite.ts";

/** A machine with other work takes its time. */
const DEADLINE_MS = 60_000;
const TEMPLATE = "empty";

let folder: string;
let server: PostgresServer;
let opened = 0;

if (postgresFolder() !== undefined) {
  Deno.test.beforeAll(async () => {
    folder = await Deno.makeTempDir({ prefix: "zonewright-test-" });
    server = await startPostgres(folder);
    await server.sql(`CREATE DATABASE ${TEMPLATE}`);
    await migrateSharedDatabase({ url: server.url(TEMPLATE), deadlineMs: DEADLINE_MS });
  });
  Deno.test.afterAll(async () => {
    await server.stop();
    await Deno.remove(folder, { recursive: true });
  });
}

async function openEmptyStore(): Promise<ClockedStore> {
  const database = `store_${++opened}`;
  await server.sql(`CREATE DATABASE ${database} TEMPLATE ${TEMPLATE}`);
  const clock = { now: T0 };
  const local = await openSqliteStore(":memory:", { now: () => clock.now });
  const url = server.url(database);
  // Some tests make thousands of jobs at once, on a machine that is busy with others.
  const options = { url, deadlineMs: DEADLINE_MS, now: () => clock.now };
  const store = await openPostgresStore(local, { ...options, ...OUTAGE, host: RUNNER });
  return { ...store, clock };
}

storeSuite("postgres", openEmptyStore, postgresFolder() === undefined ? "postgres" : undefined);
