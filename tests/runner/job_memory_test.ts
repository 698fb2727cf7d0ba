// A large job waits for its memory, with nothing of it held, and every end of the wait is one of the job.

import { assertEquals } from "@std/assert";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { isFinal } from "../../src/domain/job/state.ts";
import type { GuestPool } from "../../src/sandbox/pool.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { until } from "../support/until.ts";
import { withPool, withRunner } from "./with_runner.ts";

const MIB = 1024 * 1024;
const LARGE = { text: "x".repeat(MIB) };
const COUNTS = `(job, cb) => cb(null, (job.params.text ?? "").length)`;
const SLOTS = 2;

/** All of them run on one pool of guests, which is slow to start. */
const CASES: [name: string, run: (pool: GuestPool) => Promise<void>][] = [];
function test(name: string, run: (pool: GuestPool) => Promise<void>): void {
  CASES.push([name, run]);
}

/** A budget of which somebody else has all that jobs may have. */
async function usedBudget() {
  const budget = openMemoryBudget({ runs: 4 * MIB });
  return { budget, other: await budget.reserve("runs", 4 * MIB, "test") };
}

test("a large job waits until memory is free, a small one does not", async (pool) => {
  const { budget, other } = await usedBudget();
  await withRunner(pool, { budget, slots: SLOTS }, async ({ post, finished, jobWhen }) => {
    const chain = [{ body: COUNTS }, { body: COUNTS }];
    const large = await post({ chain }, { params: LARGE });
    await jobWhen(large, "running", (job) => job.execution === "running");
    const small = await finished(await post({ chain }));
    assertEquals(small.chain_results.map(({ result }) => result), [0, 0]);
    assertEquals((await jobWhen(large, "there", () => true)).chain_results, []);
    other.release();
    const job = await finished(large);
    assertEquals(job.chain_results.map(({ result }) => result), [MIB, MIB]);
    await until("the memory to be back", () => budget.used("runs") === 0 ? true : undefined);
  });
});

test("a job that grows waits for memory before its next task, and then keeps it", async (pool) => {
  const { budget, other } = await usedBudget();
  await withRunner(pool, { budget, slots: SLOTS }, async ({ post, finished, jobWhen }) => {
    const grow = `(job, cb) => { job.params.text = "x".repeat(${MIB}); cb(null, "grown"); }`;
    const uuid = await post({ chain: [{ body: grow }, { body: COUNTS }] });
    await jobWhen(uuid, "grown", (job) => job.chain_results.length === 1);
    await finished(await post({ chain: [{ body: COUNTS }] }));
    assertEquals((await jobWhen(uuid, "there", () => true)).chain_results.length, 1);
    other.release();
    const job = await finished(uuid);
    assertEquals(job.chain_results.map(({ result }) => result), ["grown", MIB]);
  });
});

test("a cancel ends the wait of a job for memory, and its oncancel chain waits instead", async (pool) => {
  const { budget, other } = await usedBudget();
  await withRunner(pool, { budget }, async ({ post, jobWhen, store }) => {
    const bare = await post({ chain: [{ body: COUNTS }] }, { params: LARGE });
    const undone = await post({ chain: [{ body: COUNTS }], oncancel: [{ body: COUNTS }] }, {
      params: LARGE,
    });
    for (const uuid of [bare, undone]) {
      await jobWhen(uuid, "running", (job) => job.execution === "running");
      await store.jobs.cancel(uuid);
    }
    await jobWhen(bare, "canceled", (job) => isFinal(job.execution) && job.runner_id === null);
    other.release();
    const job = await jobWhen(undone, "undone", (job) => job.oncancel_results.length === 1);
    assertEquals([job.chain_results, job.oncancel_results[0]?.result], [[], MIB]);
  });
  assertEquals(budget.used("runs"), 0);
});

test("an agent that stops releases a job that waits for memory, unchanged", async (pool) => {
  const { budget } = await usedBudget();
  const store = await openSqliteStore(":memory:");
  try {
    await withRunner(pool, { budget, store }, async ({ post, jobWhen, runner }) => {
      const uuid = await post({ chain: [{ body: COUNTS }] }, { params: LARGE });
      await jobWhen(uuid, "running", (job) => job.execution === "running");
      await runner.stop(60_000);
      const job = await store.jobs.get(uuid);
      assertEquals([job?.execution, job?.params], ["queued", LARGE]);
    });
  } finally {
    await store.close();
  }
});

Deno.test("runner: the memory of large jobs", async (t) => {
  await withPool(async (pool) => {
    for (const [name, run] of CASES) await t.step(name, () => run(pool));
  });
});
