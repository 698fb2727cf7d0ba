// A move into the shared database, where a job of another host has what a moved one still holds.

import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres_store.ts";
import { transferToShared } from "../../src/store/postgres/transfer.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { openTransferRows } from "../../src/store/sqlite/transfer_rows.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { jobOf, RUNNER, taskOf, workflowOf } from "../support/job.ts";
import { OUTAGE, postgresTest, startPostgres } from "../support/postgres.ts";
import { withFolder } from "../support/until.ts";
import { HOSTS } from "./postgres_fleet.ts";
import { NO_LIMIT } from "../support/limits.ts";

const DATABASE = "fleet";

postgresTest(
  "a canceled job whose undo is not done is refused by name beside one of its target",
  () =>
    withFolder(async (folder) => {
      const server = await startPostgres(folder);
      try {
        await server.sql(`CREATE DATABASE ${DATABASE}`);
        const options = { url: server.url(DATABASE), deadlineMs: 60_000 };
        await migrateSharedDatabase(options);
        const path = `${folder}/own.db`;
        const own = await openSqliteStore(path);
        const workflow = workflowOf({ oncancel: [taskOf("undo")] });
        const undoing = jobOf(1, { workflow, target: "/t" });
        await own.jobs.create(undoing, NO_LIMIT);
        await own.jobs.claim(lifeOf(RUNNER), 1);
        await own.jobs.cancel(undoing.uuid);
        await own.close();
        const local = await openSqliteStore(":memory:");
        const shared = await openPostgresStore(local, { ...options, ...OUTAGE, host: HOSTS[1] });
        const there = jobOf(2, { target: "/t" });
        await shared.jobs.create(there, NO_LIMIT);
        await shared.close();
        const rows = openTransferRows(path);
        const begun = () => Promise.resolve();
        const { message } = await assertRejects(
          () => transferToShared(options, RUNNER, rows, begun).finally(() => rows.close()),
          AgentError,
        );
        const words = `the database has the unfinished job ${there.uuid} of its target`;
        assertEquals(message, `Cannot move job ${undoing.uuid}: ${words}`);
      } finally {
        await server.stop();
      }
    }),
);
