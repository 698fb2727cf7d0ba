// A database that is put back in the place of one that is lost, while agents go on: ids that were given since are given
// again, to other rows.

import { assertEquals } from "@std/assert";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres_store.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { JobUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { jobOf, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { pgbouncerTest, startPgbouncer } from "../support/pgbouncer.ts";
import {
  OUTAGE,
  postgresFolder,
  type PostgresServer,
  postgresTest,
  startPostgres,
} from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";
import { create, present } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const HOST = "33333333-0000-4000-8000-000000000001";
const DEADLINE_MS = 5_000;

/** A job of a workflow of its own with one task. */
function jobWith(number: number, task: string) {
  const uuid = uuidOf<WorkflowUuid>(500 + number);
  return jobOf(number, { workflow: workflowOf({ uuid, chain: [taskOf(task)] }) });
}

/** Has a database lost that a store has open, and another one take its place. */
async function putBack(
  server: PostgresServer,
  url: string,
  { save, restore }: { readonly save: () => Promise<void>; readonly restore: () => Promise<void> },
): Promise<void> {
  await server.sql("CREATE DATABASE fleet");
  await migrateSharedDatabase({ url: server.url("fleet"), deadlineMs: 60_000 });
  await save();
  const local = await openSqliteStore(":memory:");
  const options = { ...OUTAGE, url, noticesUrl: server.url("fleet"), deadlineMs: DEADLINE_MS };
  const store = await openPostgresStore(local, { ...options, host: HOST });
  try {
    await create(store, jobWith(1, "of the lost database"));
    assertEquals((await present(store)).chain[0]?.name, "of the lost database");
    await server.sql("ALTER DATABASE fleet ALLOW_CONNECTIONS false");
    await server.sql(
      "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = 'fleet'",
    );
    await server.sql("ALTER DATABASE fleet RENAME TO lost");
    await restore();
    const next = jobWith(2, "of the restored one");
    await until(
      "the store to be back",
      () => store.jobs.create(next, NO_LIMIT).catch(() => undefined),
    );
    const job = await present(store, uuidOf<JobUuid>(2));
    assertEquals(job.chain[0]?.name, "of the restored one");
  } finally {
    await store.close();
    await local.close();
  }
}

postgresTest(
  "a job has the tasks of its own workflow after a copy has taken the place of a lost database",
  () =>
    withFolder(async (folder) => {
      const server = await startPostgres(folder);
      try {
        await putBack(server, server.url("fleet"), {
          save: async () => void await server.sql("CREATE DATABASE copy TEMPLATE fleet"),
          restore: async () => void await server.sql("ALTER DATABASE copy RENAME TO fleet"),
        });
      } finally {
        await server.stop();
      }
    }),
);

pgbouncerTest(
  "a job has the tasks of its own workflow after a restore behind a pooler, which ends no session",
  postgresFolder() === undefined,
  () =>
    withFolder(async (folder) => {
      const server = await startPostgres(folder);
      const pooler = await startPgbouncer(server, `${folder}/pooler`, ["owner"]);
      const dump = `${server.folder}/fleet.dump`;
      try {
        await putBack(server, pooler.url("fleet", "owner"), {
          save: async () => void await server.run("pg_dump", "-Fc", "-f", dump, "fleet"),
          restore: async () => {
            await server.sql("CREATE DATABASE restored");
            await server.run("pg_restore", "--exit-on-error", "-d", "restored", dump);
            await server.sql("ALTER DATABASE restored RENAME TO fleet");
          },
        });
      } finally {
        await pooler.stop();
        await server.stop();
      }
    }),
);
