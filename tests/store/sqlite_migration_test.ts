// The SQLite store on files of other schemas: older ones of a later program, newer ones, and those of
// versions that were never released.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { Database } from "@db/sqlite";
import { join } from "@std/path";
import { AgentError } from "../../src/domain/error.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import { SCHEMA_STEPS } from "../../src/store/sqlite/migrations.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, OTHER_RUNNER, RUNNER, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { withFolder } from "../support/until.ts";
import { inspectFile } from "../../src/state_dir/state_dir.ts";
import { examine, NEWER, VERSIONS, writeOlder } from "./newer_schema.ts";
import { assertStats, claim, create, finish, present, run } from "./store_case.ts";
import { beginAgain, claimJobs, openClockedStore } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** One job that is done, one that runs, one that is canceled and undone, one that is ready. */
async function fill(store: Store): Promise<void> {
  const workflow = workflowOf({ oncancel: [taskOf("undo")] });
  await store.workflows.create(workflow, { max: NO_LIMIT });
  await finish(store, await run(store));
  await run(store, jobOf(2, { target: "/runs" }));
  await run(store, jobOf(3, { workflow }));
  await store.jobs.cancel(uuidOf<JobUuid>(3));
  await create(store, jobOf(4));
  await store.info.append(uuidOf<JobUuid>(1), { n: 1 }, T0, NO_LIMIT);
}

async function withOlder(
  test: (path: string, jobs: unknown) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const path = join(folder, "store.db");
    let jobs: unknown;
    await writeOlder(path, async (store) => {
      await fill(store);
      jobs = await store.jobs.list({});
    });
    await test(path, jobs);
  });
}

Deno.test("sqlite: an older file keeps every job, result and info when a step replaces a table", () =>
  withOlder(async (path, jobs) => {
    const store = await openClockedStore(path, undefined, {}, NEWER);
    try {
      assertEquals(await store.jobs.list({}), jobs as typeof jobs & []);
      assertEquals(await store.info.list(uuidOf<JobUuid>(1)), [{ n: 1 }]);
      assertEquals((await present(store)).chain_results.length, 1);
      await assertStats(store, T0);
      // What was under way goes on.
      assertEquals(await beginAgain(store, RUNNER), 2);
      await create(store, jobOf(5));
      assertEquals((await claimJobs(store, OTHER_RUNNER, 10)).length, 4);
    } finally {
      await store.close();
    }
    assertEquals(examine(path), { version: VERSIONS.newer, problems: [] });
    assertEquals(examine(`${path}.schema-${VERSIONS.older}`), {
      version: VERSIONS.older,
      problems: [],
    });
  }));

Deno.test("sqlite: a new file goes through every step and is opened again without one", () =>
  withFolder(async (folder) => {
    const path = join(folder, "store.db");
    for (const steps of [NEWER.steps.length, 0]) {
      let seen = 0;
      const migrating = (when: "before" | "after") => void (seen += when === "after" ? 1 : 0);
      const store = await openSqliteStore(path, { migrating }, NEWER);
      if (steps > 0) await run(store);
      else assertEquals((await store.jobs.list({})).length, 1);
      await store.close();
      assertEquals(seen, steps);
    }
    const names = Array.from(Deno.readDirSync(folder), ({ name }) => name);
    assertEquals(names.filter((name) => name.includes(".schema-")), []);
  }));

Deno.test("sqlite: a step that breaks off leaves the file as it was", () =>
  withOlder(async (path, jobs) => {
    const broken = {
      ...NEWER,
      steps: [...NEWER.steps, "CREATE TABLE fine (x); CREATE TABLE jobs (x)"],
    };
    const error = await assertRejects(
      () => openClockedStore(path, undefined, {}, broken),
      AgentError,
    );
    assert(error.message.includes(path) && error.message.includes("jobs"), error.message);
    assertEquals(examine(path), { version: VERSIONS.newer, problems: [] });
    const store = await openClockedStore(path, undefined, {}, NEWER);
    assertEquals(await store.jobs.list({}), jobs as typeof jobs & []);
    await claim(store);
    await store.close();
  }));

Deno.test("sqlite: an older program refuses the file of a newer one and leaves it alone", () =>
  withOlder(async (path) => {
    await (await openClockedStore(path, undefined, {}, NEWER)).close();
    const error = await assertRejects(() => openSqliteStore(path), AgentError);
    assertEquals(error.code, "other_schema");
    assert(error.message.includes(`schema ${VERSIONS.newer}, this program knows`), error.message);
    assertEquals(examine(path), { version: VERSIONS.newer, problems: [] });
  }));

for (let version = 1; version < SCHEMA_STEPS.first; version++) {
  Deno.test(`sqlite: a file of the unreleased schema ${version} is refused, not changed and not copied`, () =>
    withFolder(async (folder) => {
      const path = join(folder, "store.db");
      const db = new Database(path);
      db.exec(`CREATE TABLE jobs (id INTEGER); CREATE TABLE workflows (id INTEGER);
               PRAGMA user_version = ${version}`);
      db.close();
      const before = await Deno.readFile(path);
      const words = `schema ${version} of an unreleased version, expected ${SCHEMA_STEPS.first}`;
      const opened = await assertRejects(() => openSqliteStore(path), AgentError, words);
      assert(opened.message.includes(path), opened.message);
      const inspected = await assertRejects(() => inspectFile(path), AgentError, words);
      assertEquals([opened.code, inspected.code], ["other_schema", "other_schema"]);
      assertEquals(await Deno.readFile(path), before);
      assertEquals(Array.from(Deno.readDirSync(folder), ({ name }) => name), ["store.db"]);
    }));
}
