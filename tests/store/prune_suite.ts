// The suite's part on prune: which finished jobs go, and what goes with them.

import { assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Retention } from "../../src/store/job_store.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import {
  assertStats,
  claim,
  create,
  finish,
  JOB,
  present,
  recordOf,
  run,
  type Test,
} from "./store_case.ts";
import { at } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

const KEEP: Retention = { age_ms: null, finished_max: 1_000_000, limit: 1000 };
const EVERYTHING: Retention = { ...KEEP, finished_max: 0 };

/** Jobs of which each ended a minute after the one before; the first is the oldest. */
async function finished(store: Store, count: number): Promise<void> {
  for (let number = 1; number <= count; number++) {
    const job = await run(store, jobOf(number));
    await finish(store, job, "succeeded", instantAfter(T0, number * 60_000));
  }
}

async function numbers(store: Store): Promise<number[]> {
  return (await store.jobs.list({})).map(({ job }) => Number(job.uuid.slice(-12))).reverse();
}

export function pruneTests(test: Test): void {
  test("prune() removes what ended so long ago, or longer", async (store) => {
    await finished(store, 5);
    const old = { ...KEEP, age_ms: 3 * 60_000 };
    assertEquals(await at(store, instantAfter(T0, 5 * 60_000)).jobs.prune(old), 2);
    assertEquals(await numbers(store), [3, 4, 5]);
    assertEquals(await at(store, instantAfter(T0, 6 * 60_000 - 1)).jobs.prune(old), 0);
    assertEquals(await at(store, instantAfter(T0, 6 * 60_000)).jobs.prune(old), 1);
  });
  test("prune() removes the oldest while there are too many", async (store) => {
    await finished(store, 5);
    assertEquals(await store.jobs.prune({ ...KEEP, finished_max: 2 }), 3);
    assertEquals(await numbers(store), [4, 5]);
    assertEquals(await store.jobs.prune({ ...KEEP, finished_max: 2 }), 0);
  });
  test("prune() counts age from the end of a job, not from its creation", async (store) => {
    const first = await run(store, jobOf(1));
    await finish(store, await run(store, jobOf(2)), "failed", instantAfter(T0, 1));
    await finish(store, first, "succeeded", instantAfter(T0, 2));
    assertEquals(await store.jobs.prune({ ...KEEP, finished_max: 1 }), 1);
    assertEquals(await numbers(store), [1]);
  });
  test("prune() removes no more jobs at once than its limit", async (store) => {
    await finished(store, 7);
    const removed = [];
    for (let call = 0; call < 4; call++) {
      removed.push(await store.jobs.prune({ ...EVERYTHING, limit: 3 }));
    }
    assertEquals(removed, [3, 3, 1, 0]);
  });
  test("prune() leaves every unfinished job, whatever its age", async (store) => {
    const waiting = await run(store, jobOf(1));
    await store.jobs.recordTask(recordOf(waiting, { kind: "cb_wait" }));
    await run(store, jobOf(2));
    await create(store, jobOf(3));
    const late = instantAfter(T0, 1e12);
    assertEquals(await at(store, late).jobs.prune({ ...EVERYTHING, age_ms: 0 }), 0);
    assertEquals(await numbers(store), [1, 2, 3]);
  });
  test("prune() keeps jobs with a running oncancel chain or a pending callback, and removes those after them", async (store) => {
    const workflow = workflowOf({ oncancel: [taskOf("undo")] });
    const undoing = await run(store, jobOf(1, { workflow }));
    await store.jobs.cancel(undoing.uuid);
    const owing = await run(store, jobOf(2, { callback_url: "http://tell.example/" }));
    await finish(store, owing);
    for (const number of [3, 4, 5]) {
      await finish(store, await run(store, jobOf(number)), "failed", instantAfter(T0, number));
    }
    const early = { ...KEEP, age_ms: 1, limit: 2 };
    assertEquals(await store.jobs.prune(early), 2);
    assertEquals(await numbers(store), [1, 2, 5]);
    assertEquals(await store.jobs.prune(EVERYTHING), 1);
    assertEquals(await numbers(store), [1, 2]);
    await store.callbacks.done(owing.uuid);
    const held = await present(store);
    await store.jobs.recordTask(recordOf(held, { kind: "succeed" }));
    assertEquals(await store.jobs.prune(EVERYTHING), 2);
    assertEquals(await numbers(store), []);
  });
  test("jobs that are kept for a key or a callback do not cause a newer job to be removed", async (store) => {
    const idempotencyOf = (n: number) => ({ key: `k${n}`, request_sha256: "a".repeat(64) });
    for (let number = 1; number <= 4; number++) {
      await finish(store, await run(store, jobOf(number, { idempotency: idempotencyOf(number) })));
    }
    const called = await run(store, jobOf(5, { callback_url: "http://callback.example/" }));
    await finish(store, called);
    for (const number of [6, 7, 8]) {
      await finish(store, await run(store, jobOf(number)), "failed", instantAfter(T0, number));
    }
    const two = { ...KEEP, finished_max: 2 };
    assertEquals(await store.jobs.prune({ ...KEEP, finished_max: 3 }), 0);
    assertEquals(await store.jobs.prune(two), 1);
    assertEquals(await numbers(store), [1, 2, 3, 4, 5, 7, 8]);
    // What is free again counts, and is the oldest.
    await store.callbacks.done(called.uuid);
    assertEquals(await store.jobs.prune(two), 1);
    const later = at(store, instantAfter(T0, 86_400_001));
    assertEquals(await later.jobs.pruneKeys(3), 3);
    assertEquals(await store.jobs.prune(two), 3);
    assertEquals(await later.jobs.pruneKeys(3), 1);
    assertEquals(await store.jobs.prune(two), 1);
    assertEquals([await store.jobs.prune(two), await numbers(store)], [0, [7, 8]]);
  });
  test("an undoing counts toward the finished jobs only when it is done", async (store) => {
    const workflow = workflowOf({ oncancel: [taskOf("undo")] });
    const undoing = await run(store, jobOf(1, { workflow }));
    await store.jobs.cancel(undoing.uuid);
    await finish(store, await run(store, jobOf(2)));
    const one = { ...KEEP, finished_max: 1 };
    assertEquals(await store.jobs.prune(one), 0);
    const held = await present(store);
    await at(store, instantAfter(T0, 9)).jobs.recordTask(recordOf(held, { kind: "succeed" }));
    assertEquals(await store.jobs.prune(one), 1);
    assertEquals((await numbers(store)).length, 1);
  });
  test("with a job everything that belongs to it is removed, and nothing else", async (store) => {
    const idempotency = { key: "k", request_sha256: "a".repeat(64) };
    await store.workflows.create(workflowOf(), { max: NO_LIMIT });
    const job = await run(store, jobOf(1, { idempotency, target: "/t", locks: "^/t" }));
    await store.info.append(JOB, { a: 1 }, T0, NO_LIMIT);
    await store.jobs.recordTask(recordOf(job, { kind: "continue" }));
    await finish(store, job);
    await create(store, jobOf(2));
    await store.info.append(uuidOf<JobUuid>(2), { b: 2 }, T0, NO_LIMIT);
    // A request that may come again finds its job for a day.
    assertEquals(await store.jobs.prune(EVERYTHING), 0);
    const later = instantAfter(T0, 86_400_001);
    assertEquals(await store.jobs.pruneKeys(9), 0);
    assertEquals(await at(store, later).jobs.pruneKeys(9), 1);
    assertEquals(await at(store, later).jobs.prune(EVERYTHING), 1);
    assertEquals(await store.jobs.get(JOB), undefined);
    assertEquals(await store.info.list(JOB), undefined);
    assertEquals(await store.jobs.ofTarget("/t", 5), []);
    assertEquals((await store.jobs.cancel(JOB)).kind, "not_found");
    assertEquals((await store.jobs.retry(JOB, jobOf(9), NO_LIMIT)).kind, "not_found");
    // The same request may come again, under the same uuid even: nothing of the first is left.
    const again = await create(store, jobOf(1, { idempotency, target: "/t" }));
    assertEquals([again.chain_results, await store.info.list(JOB)], [[], []]);
    assertEquals(await store.info.list(uuidOf<JobUuid>(2)), [{ b: 2 }]);
    assertEquals((await store.workflows.list({})).length, 1);
  });
  test("pruneKeys() forgets keys that are a day old, the oldest first, as many as asked for", async (store) => {
    for (let number = 1; number <= 5; number++) {
      const created_at = instantAfter(T0, number * 1000);
      const idempotency = { key: `k${number}`, request_sha256: "a".repeat(64) };
      await finish(store, await run(at(store, created_at), jobOf(number, { idempotency })));
    }
    assertEquals(await store.jobs.prune(EVERYTHING), 0);
    const later = instantAfter(T0, 86_400_000 + 4500);
    assertEquals(await at(store, later).jobs.pruneKeys(3), 3);
    assertEquals(await store.jobs.prune(EVERYTHING), 3);
    assertEquals(await numbers(store), [4, 5]);
    assertEquals(await at(store, later).jobs.pruneKeys(3), 1);
    assertEquals(await at(store, later).jobs.pruneKeys(3), 0);
    assertEquals(await store.jobs.prune(EVERYTHING), 1);
    assertEquals(await numbers(store), [5]);
  });
  test("pruneInfo() removes entries of jobs that are gone, as many as asked for", async (store) => {
    await finished(store, 2);
    await create(store, jobOf(3));
    for (const number of [1, 2, 3]) {
      const entries = Array.from({ length: 5 }, (_, n) => ({ n }));
      for (const entry of entries) {
        await store.info.append(uuidOf<JobUuid>(number), entry, T0, NO_LIMIT);
      }
    }
    assertEquals(await store.jobs.pruneInfo(7), 0);
    assertEquals(await store.jobs.prune(EVERYTHING), 2);
    assertEquals(await store.info.list(JOB), undefined);
    assertEquals(await store.jobs.pruneInfo(7), 7);
    assertEquals(await store.jobs.pruneInfo(7), 3);
    assertEquals(await store.jobs.pruneInfo(7), 0);
    assertEquals((await store.info.list(uuidOf<JobUuid>(3)))?.length, 5);
  });
  test("remaining jobs keep their workflow when others of it are removed", async (store) => {
    await finished(store, 3);
    await create(store, jobOf(4));
    const kept = await present(store, uuidOf<JobUuid>(4));
    assertEquals(await store.jobs.prune(EVERYTHING), 3);
    assertEquals(await present(store, uuidOf<JobUuid>(4)), kept);
    await store.jobs.cancel(kept.uuid);
    assertEquals(await store.jobs.prune(EVERYTHING), 1);
    // A workflow that no job was left of comes back with the next one.
    const chain = [taskOf("only")];
    await create(store, jobOf(5, { workflow: workflowOf({ chain }) }));
    assertEquals((await claim(store)).chain, chain);
  });
  test("after a prune, stats and counts still equal a recount", async (store) => {
    for (let number = 1; number <= 30; number++) {
      const created_at = instantAfter(T0, -number * 7 * 60_000);
      const job = await run(at(store, created_at), jobOf(number));
      if (number % 3 !== 0) await finish(store, job, number % 2 === 0 ? "failed" : "succeeded");
    }
    await assertStats(store, T0);
    assertEquals(await store.jobs.prune({ ...EVERYTHING, limit: 12 }), 12);
    await assertStats(store, T0);
    assertEquals(await store.jobs.prune(EVERYTHING), 8);
    for (const hours of [0, 1, 2, 30]) {
      await assertStats(store, instantAfter(T0, hours * 3_600_000));
    }
    assertEquals(await store.jobs.count({}), 10);
  });
}
