// The suite's part on stats: they are kept, not counted, so they are held against a count.

import { assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { type Instant, instantAfter } from "../../src/domain/instant.ts";
import { jobOf, OTHER_RUNNER, RUNNER, T0, uuidOf } from "../support/job.ts";
import { assertStats, create, holdOf, JOB, recordOf, type Test } from "./store_case.ts";
import { claimJobs, rescueAt } from "../support/clocked_store.ts";

const MINUTE_MS = 60_000;

/** The minimal standard generator: equal seeds, equal numbers from 0 to below 1. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = state * 48_271 % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

export function statsTests(test: Test): void {
  test("stats count each job once, in the window of its age, at its present execution", async (store) => {
    const minutesAgo = [0, 59, 61, 119, 121, 1439, 1441, 100_000];
    for (const [index, minutes] of minutesAgo.entries()) {
      await create(store, jobOf(index + 1, { created_at: instantAfter(T0, -minutes * MINUTE_MS) }));
    }
    await store.jobs.cancel(JOB, T0);
    const stats = await store.jobs.stats(T0);
    assertEquals([stats.current.queued, stats.current.canceled], [1, 1]);
    assertEquals(stats.past_hour.queued, 2);
    assertEquals(stats.past_24h.queued, 2);
    assertEquals(stats.all_time.queued, 2);
  });
  test("the borders of the windows are exact to the millisecond", async (store) => {
    const borders = [60, 120, 1440].map((minutes) => minutes * MINUTE_MS);
    for (const [index, ms] of borders.entries()) {
      await create(store, jobOf(2 * index, { created_at: instantAfter(T0, -ms) }));
      await create(store, jobOf(2 * index + 1, { created_at: instantAfter(T0, -ms - 1) }));
    }
    const { current, past_hour, past_24h, all_time } = await store.jobs.stats(T0);
    const queued = [current, past_hour, past_24h, all_time].map((window) => window.queued);
    assertEquals(queued, [1, 2, 2, 1]);
    await assertStats(store, T0);
  });
  test("jobs move through the windows as they age, and a clock that is set back moves them back", async (store) => {
    for (let minute = 0; minute < 40; minute++) {
      const created_at = instantAfter(T0, minute * 61_007);
      await create(store, jobOf(minute, { created_at }));
    }
    for (const hours of [0, 0.25, 0.5, 1, 1.3, 1.7, 2, 2.5, 24, 24.4, 25, 48, -1, -48]) {
      await assertStats(store, instantAfter(T0, hours * 60 * MINUTE_MS + 13));
    }
  });
  for (const seed of [1, 2, 3]) {
    test(`stats are a recount after random operations, seed ${seed}`, async (store) => {
      const random = randomFrom(seed);
      const below = (limit: number) => Math.floor(random() * limit);
      let made = 0;
      let now: Instant = T0;
      const operations: (() => Promise<unknown>)[] = [
        () => create(store, jobOf(++made, { created_at: now, exec_after: now })),
        () => store.jobs.cancel(uuidOf<JobUuid>(1 + below(made + 1)), now),
        () => {
          const uuid = uuidOf<JobUuid>(1 + below(made + 1));
          const failed = { kind: "error", error: "no", result: "" } as const;
          const resume = below(2) === 0 ? failed : { kind: "result", result: 1 } as const;
          return store.jobs.resume(uuid, resume, now);
        },
        async () => {
          const nexts = [
            { kind: "succeed" },
            { kind: "fail", onerror: false },
            { kind: "cb_wait" },
            { kind: "cb_queue" },
            { kind: "cb_cancel", oncancel: false },
            { kind: "cb_retry" },
            { kind: "continue" },
          ] as const;
          for (const job of await claimJobs(store, RUNNER, 1 + below(3), now)) {
            const next = nexts[below(nexts.length)] ?? { kind: "cb_wait" };
            await store.jobs.recordTask(recordOf(job, next, { now }));
          }
        },
        async () => {
          for (const job of await claimJobs(store, RUNNER, 1, now)) {
            await store.jobs.release(holdOf(job), 1, now);
          }
        },
        () => rescueAt(store, OTHER_RUNNER, now),
        () =>
          store.jobs.prune({
            finished_before: instantAfter(now, -below(300) * MINUTE_MS),
            finished_max: 5 + below(20),
            limit: 1 + below(5),
          }, now),
      ];
      for (let step = 0; step < 250; step++) {
        now = instantAfter(now, (below(20) - 4) * MINUTE_MS + below(60_000));
        await operations[Math.min(below(10), operations.length - 1)]?.();
        if (step % 25 === 0) await assertStats(store, now);
      }
      for (const hours of [0, 1, 2, 24, 100]) {
        await assertStats(store, instantAfter(now, hours * 60 * MINUTE_MS));
      }
    });
  }
}
