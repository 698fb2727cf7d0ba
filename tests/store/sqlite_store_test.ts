import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Database } from "@db/sqlite";
import { AgentError } from "../../src/domain/error.ts";
import { EXECUTIONS } from "../../src/domain/job_state.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/migrations.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { jobOf, RUNNER, T0 } from "../support/job.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { withFolder } from "../support/until.ts";
import { storeSuite } from "./store_suite.ts";

storeSuite("sqlite", () => openSqliteStore(":memory:"));

Deno.test("sqlite: what was acknowledged is there after the file is opened again", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const first = await openSqliteStore(path);
    await first.jobs.create(jobOf(1));
    await first.jobs.claim(RUNNER, 1, T0);
    await first.close();
    const second = await openSqliteStore(path);
    assertEquals((await second.jobs.list({})).map((job) => job.execution), ["running"]);
    await second.close();
  });
});

Deno.test("sqlite: a store of a newer schema is refused", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const db = new Database(path);
    db.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`);
    db.close();
    await assertRejects(() => openSqliteStore(path), AgentError, "schema");
  });
});

Deno.test("sqlite: a file that is no database is refused, and its path is named", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    await Deno.writeTextFile(path, "This is a letter, not a database. ".repeat(100));
    await assertRejects(() => openSqliteStore(path), AgentError, path);
  });
});

Deno.test("sqlite: the schema refuses an execution that is not of the closed set", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const store = await openSqliteStore(path);
    await store.jobs.create(jobOf(1));
    await store.close();
    const db = new Database(path);
    try {
      for (const word of ["done", "success", ""]) {
        assertThrows(() => db.prepare("UPDATE jobs SET execution = ?").run(word), Error, "CHECK");
      }
      const sql = db.prepare("SELECT sql FROM sqlite_schema WHERE name = 'jobs'")
        .get<{ sql: string }>()?.sql ?? "";
      const words = /execution IN \(([^)]*)\)/.exec(sql)?.[1]?.match(/\w+/g) ?? [];
      assertEquals(new Set(words), new Set<string>(EXECUTIONS));
    } finally {
      db.close();
    }
  });
});

Deno.test("sqlite: a write that throws undoes its own part of the shared commit only", async () => {
  const store = await openSqliteStore(":memory:");
  const twice = [
    store.jobs.create(jobOf(1)),
    store.jobs.create(jobOf(1)),
    store.jobs.create(jobOf(2)),
  ];
  const outcomes = await Promise.allSettled(twice);
  assertEquals(outcomes.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
  assertEquals((await store.jobs.list({})).length, 2);
  await store.close();
});

Deno.test("sqlite: a closed store refuses writes", async () => {
  const store = await openSqliteStore(":memory:");
  await store.close();
  await assertRejects(() => store.jobs.create(jobOf(1)), AgentError, "closed");
});

smallDiskTest(
  "sqlite: a full disk refuses writes as storage_full, and loses nothing",
  () =>
    withFolder((folder) =>
      withSmallDisk(folder, 1, async () => {
        const store = await openSqliteStore(`${folder}/store.db`);
        try {
          const kept: string[] = [];
          const fill = async () => {
            for (let number = 1; number < 1000; number++) {
              const pad = "x".repeat(20_000);
              await store.jobs.create(jobOf(number, { params: { pad } }));
              kept.push(jobOf(number).uuid);
            }
          };
          const error = await assertRejects(fill, AgentError, "full");
          assertEquals(error.code, "storage_full");
          const jobs = await store.jobs.list({});
          assertEquals(jobs.map(({ uuid }) => `${uuid}`).reverse(), kept);
          assertEquals((await store.jobs.stats(T0)).current.queued, kept.length);
        } finally {
          await store.close();
        }
      })
    ),
);
