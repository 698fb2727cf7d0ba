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
import { checkStatements } from "./noted_statements.ts";
import { storeSuite } from "./store_suite.ts";
import { claimJobs, lifeOf, openClockedStore } from "../support/clocked_store.ts";
import { register } from "./host_suite.ts";
import { NO_LIMIT } from "../support/limits.ts";

checkStatements();
storeSuite("sqlite", () => openClockedStore());

Deno.test("sqlite: a claim in the commit of a cordon takes nothing", async () => {
  const store = await openClockedStore();
  await register(store);
  const { uuid } = jobOf(1);
  await store.jobs.create(jobOf(1), NO_LIMIT);
  const [host, claimed] = await Promise.all([
    store.hosts.cordon(RUNNER),
    store.jobs.claim(lifeOf(RUNNER), 1),
  ]);
  assertEquals(host?.state, "cordoned");
  assertEquals(claimed, { jobs: [], due: { kind: "none" } });
  assertEquals((await store.jobs.get(uuid))?.execution, "queued");
  await store.close();
});

Deno.test("sqlite: what was acknowledged is there after the file is opened again", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const first = await openSqliteStore(path);
    await first.jobs.create(jobOf(1), NO_LIMIT);
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

Deno.test("sqlite: the schema refuses words outside its closed lists", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const store = await openSqliteStore(path);
    await store.jobs.create(jobOf(1), NO_LIMIT);
    await store.close();
    const db = new Database(path);
    try {
      for (const word of ["done", "success", ""]) {
        for (const column of ["execution", "phase"]) {
          const update = db.prepare(`UPDATE jobs SET ${column} = ?`);
          assertThrows(() => update.run(word), Error, "CHECK");
        }
      }
      for (const column of ["change", "state", "phase", "next_phase"]) {
        const update = db.prepare(`UPDATE events SET ${column} = ? WHERE kind = 'job'`);
        assertThrows(() => update.run("done"), Error, "CHECK");
      }
      const fewer = db.prepare("UPDATE job_counts SET failed = failed - 1");
      assertThrows(() => fewer.run(), Error, "CHECK");
      assertEquals(wordsOf(db, "jobs", "execution"), new Set<string>(EXECUTIONS));
      assertEquals(wordsOf(db, "jobs", "phase"), new Set<string>(PHASES));
      assertEquals(wordsOf(db, "task_results", "phase"), new Set<string>(PHASES));
    } finally {
      db.close();
    }
  });
});

Deno.test("sqlite: the schema refuses states that no job can be in", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const store = await openSqliteStore(path);
    await store.jobs.create(jobOf(1), NO_LIMIT);
    await store.close();
    const db = new Database(path);
    const ended = `claimable_at = NULL, turn = NULL, finished_at = '${T0}'`;
    const set = (values: string) =>
      db.exec(`SAVEPOINT s; UPDATE jobs SET ${values}; ROLLBACK TO s`);
    try {
      const running = `execution = 'running', runner_id = 'r', elapsed_at = '${T0}',
        claimable_at = NULL, turn = NULL, started_at =`;
      set(`${running} '${T0}'`);
      assertThrows(() => set(`${running} NULL`), Error, "CHECK");
      for (const phase of PHASES) {
        const succeeded = `undoable = 1, execution = 'succeeded', ${ended}, phase = '${phase}'`;
        if (phase === "chain") set(succeeded);
        else assertThrows(() => set(succeeded), Error, "CHECK");
      }
      const undone = `execution = 'canceled', ${ended}, phase = 'oncancel', undoable =`;
      set(`${undone} 1`);
      assertThrows(() => set(`${undone} 0`), Error, "CHECK");
    } finally {
      db.close();
    }
  });
});

Deno.test("sqlite: an event has what its kind needs, and nothing of another kind", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    await (await openSqliteStore(path)).close();
    const db = new Database(path);
    const insert = (columns: string, values: string) =>
      db.exec(`INSERT INTO events (at, kind, ${columns}) VALUES ('${T0}', ${values})`);
    try {
      insert("job_id, change", "'job', 1, 'created'");
      insert("job_id, line", "'log', 1, 1");
      insert("job_id", "'machine', 1");
      insert("job_id, body", "'removed_job', 1, '{}'");
      for (const kind of ["media", "index", "host"]) insert("body", `'${kind}', '{}'`);
      for (
        const [columns, values] of [
          ["job_id", "'job', 1"],
          ["change", "'job', 'created'"],
          ["job_id, change, body", "'job', 1, 'created', '{}'"],
          ["job_id", "'log', 1"],
          ["line", "'log', 1"],
          ["job_id, line", "'machine', 1, 1"],
          ["job_id", "'removed_job', 1"],
          ["body", "'removed_job', '{}'"],
          ["job_id", "'host', NULL"],
          ["job_id, body", "'media', 1, '{}'"],
          ["line, body", "'index', 1, '{}'"],
          ["body", "'other', '{}'"],
        ] as const
      ) {
        assertThrows(() => insert(columns, values), Error, "CHECK", `${columns}: ${values}`);
      }
    } finally {
      db.close();
    }
  });
});

/** The words that a table's first CHECK of a column allows. */
function wordsOf(db: Database, table: string, column: string): Set<string> {
  const sql = db.prepare("SELECT sql FROM sqlite_schema WHERE name = ?")
    .get<{ sql: string }>(table)?.sql ?? "";
  const check = new RegExp(`\\b${column} TEXT [^(]*CHECK \\(([^)]*)\\)`).exec(sql)?.[1] ?? "";
  return new Set(Array.from(check.matchAll(/= '(\w+)'/g), ([, word]) => word ?? ""));
}

Deno.test("sqlite: filters that no index answers look through thousands of jobs", async () => {
  // A clock that goes on by a millisecond with each job.
  let made = 0;
  const store = await openSqliteStore(":memory:", { now: () => instantAfter(T0, made++) });
  try {
    const jobs = Array.from({ length: 12_000 }, (_, number) =>
      jobOf(number, {
        params: { odd: number % 2 === 1, part: number % 4000 },
      }));
    for (let begin = 0; begin < jobs.length; begin += 2000) {
      await Promise.all(
        jobs.slice(begin, begin + 2000).map((job) => store.jobs.create(job, NO_LIMIT)),
      );
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
