// What becomes of tasks whose run broke off: with the agent, or by a defect of the agent.

import { assert, assertEquals } from "@std/assert";
import { Database } from "@db/sqlite";
import { instantAfter, systemNow } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { GuestPool } from "../../src/sandbox/pool.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { OTHER_RUNNER } from "../support/job.ts";
import { withFolder } from "../support/until.ts";
import { withPool, withRunner } from "./with_runner.ts";
import { claimJobs, openClockedStore, rescueAt } from "../support/clocked_store.ts";

const OK = "function (job, cb) { cb(); }";

/** All of them run on one pool of guests, which is slow to start. */
const CASES: [name: string, run: (pool: GuestPool) => Promise<void>][] = [];
function test(name: string, run: (pool: GuestPool) => Promise<void>): void {
  CASES.push([name, run]);
}

test("a runner resumes the jobs of a dead one at the first unrecorded task", (pool) =>
  withFolder(async (folder) => {
    const store = await openClockedStore(`${folder}/store.db`, { now: systemNow() });
    try {
      let left = "" as Job["uuid"];
      await withRunner(pool, { store }, async ({ post, runner, jobWhen }) => {
        left = await post({
          chain: [{ name: "count", body: "function (job, cb) { cb(null, job.attempt); }" }],
        }, { exec_after: "2999-01-01T00:00:00.000Z" });
        await jobWhen(left, "queued", (job) => job.execution === "queued");
        await runner.stop(0);
      });
      await claimJobs(store, OTHER_RUNNER, 1, "2999-01-01T00:00:00.000Z");
      await withRunner(pool, { store }, async ({ finished, messages }) => {
        const job = await finished(left);
        assertEquals([job.execution, job.chain_results[0]?.result], ["succeeded", 2]);
        assert(messages.includes("jobs rescued"));
      });
    } finally {
      await store.close();
    }
  }));

test("a task that was started three times without a result fails as interrupted", (pool) =>
  withFolder(async (folder) => {
    const store = await openClockedStore(`${folder}/store.db`, { now: systemNow() });
    try {
      let poison = "" as Job["uuid"];
      const far = "2999-01-01T00:00:00.000Z";
      await withRunner(pool, { store }, async ({ post }) => {
        poison = await post({
          chain: [{ name: "poison", body: OK }],
          onerror: [{ name: "undo", body: OK }],
        }, { exec_after: far });
      });
      for (let start = 1; start <= 3; start++) {
        await claimJobs(store, OTHER_RUNNER, 1, far);
        await rescueAt(store, `${OTHER_RUNNER}-next` as typeof OTHER_RUNNER, far);
      }
      await claimJobs(store, OTHER_RUNNER, 1, far);
      await withRunner(pool, { store }, async ({ finished }) => {
        const job = await finished(poison);
        assertEquals(job.execution, "failed");
        assertEquals(job.chain_results[0]?.error, "interrupted");
        assertEquals(job.onerror_results[0]?.result, "OK");
      });
    } finally {
      await store.close();
    }
  }));

test("the fallback of an interrupted task runs, but starts only once", (pool) =>
  withFolder(async (folder) => {
    const store = await openClockedStore(`${folder}/store.db`, { now: systemNow() });
    try {
      const jobs: Job["uuid"][] = [];
      const far = "2999-01-01T00:00:00.000Z";
      await withRunner(pool, { store }, async ({ post }) => {
        const fallback = "function (err, job, cb) { cb(null, 'after ' + err); }";
        for (let count = 0; count < 2; count++) {
          jobs.push(
            await post({ chain: [{ name: "poison", body: OK, fallback }] }, { exec_after: far }),
          );
        }
      });
      const startUnrecorded = async (limit: number) => {
        await claimJobs(store, OTHER_RUNNER, limit, far);
        await rescueAt(store, `${OTHER_RUNNER}-next` as typeof OTHER_RUNNER, far);
      };
      for (let start = 1; start <= 2; start++) await startUnrecorded(2);
      await startUnrecorded(1);
      await claimJobs(store, OTHER_RUNNER, 2, far);
      await withRunner(pool, { store }, async ({ finished }) => {
        const [twice, once] = await Promise.all(jobs.map(finished));
        assertEquals(once?.chain_results[0]?.result, "after interrupted");
        assertEquals(twice?.chain_results[0]?.error, "interrupted");
      });
    } finally {
      await store.close();
    }
  }));

test("a job whose run fails inside the agent is started again, and ends", (pool) =>
  withFolder(async (folder) => {
    const store = await openSqliteStore(`${folder}/store.db`);
    try {
      await withRunner(pool, { store }, async ({ post, finished, messages }) => {
        const exec_after = instantAfter(systemNow(), 200);
        const body = "function (job, cb) { cb('retry'); }";
        const uuid = await post({ chain: [{ name: "again", body }] }, { exec_after });
        const db = new Database(`${folder}/store.db`);
        db.prepare("UPDATE workflows SET body = 'no JSON'").run();
        db.close();
        const job = await finished(uuid);
        assertEquals([job.execution, job.chain_results[0]?.error], ["failed", "interrupted"]);
        assertEquals(messages.filter((message) => message === "job lost").length, 3);
      });
    } finally {
      await store.close();
    }
  }));

Deno.test("an interrupted task starts again or fails as interrupted", async (t) => {
  await withPool(async (pool) => {
    for (const [name, run] of CASES) await t.step(name, () => run(pool));
  });
});
