// The suite of the store on a real PostgreSQL server, which is this file's own. Each test has a database.

import { ANY_HOST } from "../../src/store/postgres/schema.ts";
import { Connection } from "../../src/store/postgres/connection.ts";
import { migrateDatabase } from "../../src/store/postgres/migrations.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres_store.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { ClockedStore } from "../support/clocked_store.ts";
import { T0 } from "../support/job.ts";
import { postgresFolder, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { storeSuite } from "./store_suite.ts";

const TEMPLATE = "empty";
const HOST = "33333333-0000-4000-8000-000000000001";

let folder: string;
let server: PostgresServer;
let opened = 0;

if (postgresFolder() !== undefined) {
  Deno.test.beforeAll(async () => {
    folder = await Deno.makeTempDir({ prefix: "zonewright-test-" });
    server = await startPostgres(folder);
    await server.sql(`CREATE DATABASE ${TEMPLATE}`);
    const db = new Connection({ url: server.url(TEMPLATE) });
    await migrateDatabase(db);
    await db.close();
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
  const store = await openPostgresStore(local, { url, host: HOST, now: () => clock.now });
  return { ...store, clock };
}

storeSuite("postgres", openEmptyStore, postgresFolder() === undefined);
