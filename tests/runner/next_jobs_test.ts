// Which jobs a runner begins next, and when it asks its store again: rarely where that is a server.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { NextJobs } from "../../src/runner/next_jobs.ts";
import { lifeOf, openClockedStore } from "../support/clocked_store.ts";
import { jobOf, RUNNER, T0, uuidOf } from "../support/job.ts";
import { fleetTests, HOSTS, statementsOf } from "../store/postgres_fleet.ts";
import { create } from "../store/store_case.ts";

const fleetTest = fleetTests();
const [ONE] = HOSTS;
const uuidsOf = (numbers: readonly number[]) => numbers.map((number) => uuidOf<JobUuid>(number));

fleetTest("jobs that were read along begin without another read, for a moment", async ({ one }) => {
  for (const number of [1, 2, 3, 4, 5]) await create(one, jobOf(number));
  let nowMs = 0;
  const next = new NextJobs({ store: one, life: lifeOf(ONE), monotonicMs: () => nowMs });
  const first = await next.take(2, new Set());
  assertEquals(first.ready.map(({ uuid }) => uuid), uuidsOf([1, 2]));
  assertEquals(first.due, { kind: "ready" });
  nowMs = 40;
  let second = first;
  assertEquals(await statementsOf(async () => second = await next.take(2, new Set())), 0);
  assertEquals(second.ready.map(({ uuid }) => uuid), uuidsOf([3, 4]));
  // As if it had been read now.
  const begun = instantAfter(T0, 40);
  assertEquals(second.ready.map((job) => [job.started_at, job.elapsed_at]), [
    [begun, begun],
    [begun, begun],
  ]);
  assertEquals(await one.jobs.hold(lifeOf(ONE), second.ready), uuidsOf([3, 4]));
  await one.jobs.cancel(uuidOf<JobUuid>(5));
  nowMs = 200;
  const third = await next.take(4, new Set(uuidsOf([1])));
  assertEquals(third.ready.map(({ uuid }) => uuid), uuidsOf([2]));
});

fleetTest("a job that was read along and canceled since is not held", async ({ one }) => {
  for (const number of [1, 2]) await create(one, jobOf(number));
  const next = new NextJobs({ store: one, life: lifeOf(ONE), monotonicMs: () => 0 });
  await next.take(1, new Set());
  await one.jobs.cancel(uuidOf<JobUuid>(2));
  const { ready } = await next.take(1, new Set());
  assertEquals(ready.map(({ uuid }) => uuid), uuidsOf([2]));
  assertEquals(await one.jobs.hold(lifeOf(ONE), ready), []);
  assertEquals((await one.jobs.get(uuidOf<JobUuid>(2)))?.starts, 0);
});

fleetTest("what was read along and is forgotten is read again", async ({ one }) => {
  for (const number of [1, 2]) await create(one, jobOf(number));
  const next = new NextJobs({ store: one, life: lifeOf(ONE), monotonicMs: () => 0 });
  await next.take(1, new Set());
  next.forget();
  assert(await statementsOf(() => next.take(1, new Set())) > 0);
});

Deno.test("a store of one host is asked each time", async () => {
  const store = await openClockedStore();
  for (const number of [1, 2]) await create(store, jobOf(number));
  const next = new NextJobs({ store, life: lifeOf(RUNNER), monotonicMs: () => 0 });
  const { ready, due } = await next.take(1, new Set());
  assertEquals([ready.map(({ uuid }) => uuid), due.kind], [uuidsOf([1]), "ready"]);
  await store.jobs.cancel(uuidOf<JobUuid>(2));
  assertEquals((await next.take(1, new Set(uuidsOf([1])))).ready, []);
  await store.close();
});
