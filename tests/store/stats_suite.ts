// The suite's part on stats: they are kept, not counted, so they are held against a count.

import { assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { type Instant, instantAfter } from "../../src/domain/instant.ts";
import { jobOf, OTHER_RUNNER, RUNNER, T0, uuidOf } from "../support/job.ts";
import { assertStats, create, holdOf, JOB, recordOf, type Test } from "./store_case.ts";
import { at, claimJobs, rescueAt } from "../support/clocked_store.ts";

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
      await create(at(store, instantAfter(T0, -minutes * MINUTE_MS)), jobOf(index + 1));
    }
    await at(store, T0).jobs.cancel(JOB);
    const stats = await store.jobs.stats();
    assertEquals([stats.current.queued, stats.current.canceled], [1, 1]);
    assertEquals(stats.past_hour.queued, 2);
    assertEquals(stats.past_24h.queued, 2);
    assertEquals(stats.all_time.queued, 2);
  });
  test("the borders of the windows are exact to the millisecond", async (store) => {
    const borders = [60, 120, 1440].map((minutes) => minutes * MINUTE_MS);
    for (const [index, ms] of borders.entries()) {
      await create(at(store, instantAfter(T0, -ms)), jobOf(2 * index));
      await create(at(store, instantAfter(T0, -ms - 1)), jobOf(2 * index + 1));
    }
    const { current, past_hour, past_24h, all_time } = await at(store, T0).jobs.stats();
    const queued = [current, past_hour, past_24h, all_time].map((window) => window.queued);
    assertEquals(queued, [1, 2, 2, 1]);
    await assertStats(store, T0);
  });
  test("a window that begins within a minute or a second counts the jobs after its beginning", async (store) => {
    for (let job = 0; job < 24; job++) {
      await create(at(store, instantAfter(T0, job * 5_250)), jobOf(job));
    }
    await at(store, T0).jobs.cancel(uuidOf<JobUuid>(7));
    for (const ms of [0, 1, 999, 5_249, 5_250, 5_251, 31_500, 36_750, 59_999, 60_000, 63_001]) {
      await assertStats(store, instantAfter(T0, 60 * MINUTE_MS + ms));
    }
  });
  test("jobs move through the windows as they age, and a clock that is set back moves them back", async (store) => {
    for (let minute = 0; minute < 40; minute++) {
      await create(at(store, instantAfter(T0, minute * 61_007)), jobOf(minute));
    }
    for (const hours of [0, 0.25, 0.5, 1, 1.3, 1.7, 2, 2.5, 24, 24.4, 25, 48, -1, -48]) {
      await assertStats(store, instantAfter(T0, hours * 60 * MINUTE_MS + 13));
    }
  });
  for (const seed of [1, 2, 3]) {
    test(`after random operations stats equal a recount, seed ${seed}`, async (store) => {
      const random = randomFrom(seed);
      const below = (limit: number) => Math.floor(random() * limit);
      let made = 0;
      let now: Instant = T0;
      const operations: (() => Promise<unknown>)[] = [
        () => create(at(store, now), jobOf(++made)),
        () => at(store, now).jobs.cancel(uuidOf<JobUuid>(1 + below(made + 1))),
        () => {
          const uuid = uuidOf<JobUuid>(1 + below(made + 1));
          const failed = { kind: "error", error: "no", result: "" } as const;
          const resume = below(2) === 0 ? failed : { kind: "result", result: 1 } as const;
          return at(store, now).jobs.resume(uuid, resume);
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
            await store.jobs.recordTask(recordOf(job, next));
          }
        },
        async () => {
          for (const job of await claimJobs(store, RUNNER, 1, now)) {
            await at(store, now).jobs.release(holdOf(job), 1);
          }
        },
        () => rescueAt(store, OTHER_RUNNER, now),
        () =>
          at(store, now).jobs.prune({
            age_ms: below(300) * MINUTE_MS,
            finished_max: 5 + below(20),
            limit: 1 + below(5),
          }),
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
