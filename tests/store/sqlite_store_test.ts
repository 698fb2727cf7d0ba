import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Database } from "@db/sqlite";
import { AgentError } from "../../src/domain/error.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { EXECUTIONS, PHASES } from "../../src/domain/job/state.ts";
import type { JobFilter, JobPage } from "../../src/store/job_store.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/migrations.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { jobOf, RUNNER, T0, uuidOf } from "../support/job.ts";
import { withFolder } from "../support/until.ts";
import { storeSuite } from "./store_suite.ts";
import { claimJobs, openClockedStore } from "../support/clocked_store.ts";

storeSuite("sqlite", () => openClockedStore());

Deno.test("sqlite: what was acknowledged is there after the file is opened again", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const first = await openSqliteStore(path);
    await first.jobs.create(jobOf(1));
    await claimJobs(first, RUNNER, 1);
    await first.close();
    const second = await openSqliteStore(path);
    assertEquals((await second.jobs.list({})).map(({ job }) => job.execution), ["running"]);
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

Deno.test("sqlite: the schema refuses words that are not of the closed sets", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const store = await openSqliteStore(path);
    await store.jobs.create(jobOf(1));
    await store.close();
    const db = new Database(path);
    try {
      for (const word of ["done", "success", ""]) {
        for (const column of ["execution", "phase"]) {
          const update = db.prepare(`UPDATE jobs SET ${column} = ?`);
          assertThrows(() => update.run(word), Error, "CHECK");
        }
      }
      assertEquals(wordsOf(db, "jobs", "execution"), new Set<string>(EXECUTIONS));
      assertEquals(wordsOf(db, "jobs", "phase"), new Set<string>(PHASES));
      assertEquals(wordsOf(db, "task_results", "phase"), new Set<string>(PHASES));
    } finally {
      db.close();
    }
  });
});

/** The words that a table's first CHECK of a column allows. */
function wordsOf(db: Database, table: string, column: string): Set<string> {
  const sql = db.prepare("SELECT sql FROM sqlite_schema WHERE name = ?")
    .get<{ sql: string }>(table)?.sql ?? "";
  const words = new RegExp(`\\b${column} IN \\(([^)]*)\\)`).exec(sql)?.[1]?.match(/\w+/g) ?? [];
  return new Set(words);
}

Deno.test("sqlite: filters that no index answers look through thousands of jobs", async () => {
  const store = await openSqliteStore(":memory:");
  try {
    const jobs = Array.from({ length: 12_000 }, (_, number) =>
      jobOf(number, {
        params: { odd: number % 2 === 1, part: number % 4000 },
        created_at: instantAfter(T0, number),
        exec_after: T0,
      }));
    for (let begin = 0; begin < jobs.length; begin += 2000) {
      await Promise.all(jobs.slice(begin, begin + 2000).map((job) => store.jobs.create(job)));
    }
    const numbers = async (filter: JobFilter, page: JobPage) => {
      const listed = await store.jobs.list(filter, page);
      return listed.map(({ job }) => Number(job.uuid.slice(-12)));
    };
    const part = { params: { part: "7" } };
    assertEquals(await numbers(part, {}), [8007, 4007, 7]);
    assertEquals(await numbers(part, { limit: 1, offset: 1 }), [4007]);
    assertEquals(await numbers(part, { offset: 2 }), [7]);
    assertEquals(await numbers(part, { offset: 3 }), []);
    assertEquals(await numbers(part, { limit: 0 }), []);
    assertEquals(await store.jobs.count(part), 3);
    assertEquals(await store.jobs.count({ params: { odd: "true" } }), 6000);
    const until = { until: instantAfter(T0, 6001) };
    assertEquals(await numbers(until, { limit: 2, offset: 999 }), [5001, 5000]);
    assertEquals(await store.jobs.count(until), 6001);
    const [first] = await store.jobs.list({ params: { odd: "true" } }, { limit: 1, offset: 2999 });
    assertEquals(first?.job.uuid, uuidOf<JobUuid>(6001));
    const before = first?.place ?? 0;
    assertEquals((await numbers({ params: { odd: "true" } }, { before })).length, 3000);
  } finally {
    await store.close();
  }
});
