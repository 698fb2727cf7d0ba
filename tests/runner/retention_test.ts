import { assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { openRetention, type RetentionOptions } from "../../src/runner/retention.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, T0, uuidOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { at, openClockedStore } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

const DAY_MS = 86_400_000;

/** Runs a test with a store of finished jobs that are 0, 1, 2 … days old, and one unfinished job. */
async function withFinished(
  days: number,
  options: Pick<RetentionOptions, "keepSeconds" | "finishedMax">,
  run: (store: Store) => Promise<void>,
): Promise<void> {
  const store = await openClockedStore();
  for (let day = days - 1; day >= 0; day--) {
    await at(store, instantAfter(T0, -day * DAY_MS)).jobs.create(jobOf(day + 1), NO_LIMIT);
    await store.jobs.cancel(uuidOf<JobUuid>(day + 1));
  }
  await at(store, instantAfter(T0, -1000 * DAY_MS)).jobs.create(jobOf(9999), NO_LIMIT);
  store.clock.now = T0;
  const retention = openRetention({ store, ...options, log: silentLog });
  try {
    await run(store);
  } finally {
    await retention.stop();
    await store.close();
  }
}

const countIs = (store: Store, jobs: number) =>
  until(`${jobs} jobs to be left`, async () => await store.jobs.count({}) === jobs);

Deno.test("retention removes jobs that ended before their time, and none that is unfinished", async () => {
  await withFinished(5, { keepSeconds: () => 3 * 86_400, finishedMax: 100 }, async (store) => {
    await countIs(store, 4);
    const left = (await store.jobs.list({})).map(({ job }) => job.uuid);
    assertEquals(left, [9999, 1, 2, 3].map((number) => uuidOf<JobUuid>(number)));
  });
});

Deno.test("retention removes the oldest of too many jobs, over several writes", async () => {
  await withFinished(450, { keepSeconds: () => 0, finishedMax: 10 }, async (store) => {
    await countIs(store, 11);
    const { current, past_24h, all_time } = await store.jobs.stats();
    assertEquals([current.canceled, past_24h.canceled, all_time.canceled], [1, 1, 8]);
  });
});

Deno.test("retention keeps everything that is within both limits", async () => {
  await withFinished(3, { keepSeconds: () => 0, finishedMax: 3 }, async (store) => {
    await countIs(store, 4);
  });
});
