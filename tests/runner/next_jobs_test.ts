// Which jobs a runner begins next, and when it asks its store again: rarely where that is a server.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JobOrder, OrderRules } from "../../src/store/job_store.ts";
import { NextJobs } from "../../src/runner/next_jobs.ts";
import { lifeOf, openClockedStore } from "../support/clocked_store.ts";
import { jobOf, RUNNER, T0, uuidOf, workflowOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { fleetTests, HOSTS, statementsOf } from "../store/postgres_fleet.ts";
import { create } from "../store/store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const fleetTest = fleetTests();
const [ONE] = HOSTS;
const RULES: OrderRules = {
  unfinishedMax: 1_000,
  workflowBytesMax: 10_000,
  needsTasks: false,
  showing: { wording: "document", now: T0, masksSecrets: false },
};
function orderOf(number: number, fields: Partial<JobOrder> = {}): JobOrder {
  const { workflow, ...job } = jobOf(number);
  return { ...job, workflow_uuid: workflow.uuid, ...fields };
}
const uuidsOf = (numbers: readonly number[]) => numbers.map((number) => uuidOf<JobUuid>(number));

fleetTest(
  "jobs that were read ahead start without another read, for a short time",
  async ({ one }) => {
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
    nowMs = 600;
    const third = await next.take(4, new Set(uuidsOf([1])));
    assertEquals(third.ready.map(({ uuid }) => uuid), uuidsOf([2]));
  },
);

fleetTest("a job that was read ahead and canceled since is not claimed", async ({ one }) => {
  for (const number of [1, 2]) await create(one, jobOf(number));
  const next = new NextJobs({ store: one, life: lifeOf(ONE), monotonicMs: () => 0 });
  await next.take(1, new Set());
  await one.jobs.cancel(uuidOf<JobUuid>(2));
  const { ready } = await next.take(1, new Set());
  assertEquals(ready.map(({ uuid }) => uuid), uuidsOf([2]));
  assertEquals(await one.jobs.hold(lifeOf(ONE), ready), []);
  assertEquals((await one.jobs.get(uuidOf<JobUuid>(2)))?.starts, 0);
});

fleetTest("a job that was read ahead and dropped is read again", async ({ one }) => {
  for (const number of [1, 2]) await create(one, jobOf(number));
  const next = new NextJobs({ store: one, life: lifeOf(ONE), monotonicMs: () => 0 });
  await next.take(1, new Set());
  next.forget();
  assert(await statementsOf(() => next.take(1, new Set())) > 0);
});

/** The number of the only job that is taken, whether the store was asked, and when to look again. */
async function taken(next: NextJobs, passedOver: readonly number[] = []) {
  const passed = new Set(uuidsOf(passedOver));
  let found: Awaited<ReturnType<NextJobs["take"]>> | undefined;
  const asked = await statementsOf(async () => found = await next.take(4, passed)) > 0;
  return { jobs: found?.ready.map(({ uuid }) => uuid), asked, due: found?.due };
}

fleetTest(
  "a job that was just made begins without a read while nothing else is ready",
  async ({ one }) => {
    await one.workflows.create(workflowOf(), { max: NO_LIMIT });
    let nowMs = 0;
    const next = new NextJobs({ store: one, life: lifeOf(ONE), monotonicMs: () => nowMs });
    one.jobs.follow((notice) => {
      if (notice.kind === "queued" && notice.made !== undefined) next.made(notice.made);
      else if (notice.kind === "queued") next.look();
      else if (notice.kind === "delayed") next.delayed(notice.ms);
    });
    // Nothing is known yet.
    await one.jobs.order(orderOf(1), RULES);
    assertEquals(await taken(next), { jobs: uuidsOf([1]), asked: true, due: { kind: "none" } });
    await one.jobs.order(orderOf(2), RULES);
    assertEquals(await taken(next, [1]), {
      jobs: uuidsOf([2]),
      asked: false,
      due: { kind: "ready" },
    });
    assertEquals(await taken(next, [1, 2]), { jobs: [], asked: false, due: { kind: "none" } });
    // A read found it, and it began, before it was known that it was made.
    await one.jobs.order(orderOf(3), RULES);
    assertEquals((await taken(next, [1, 2, 3])).jobs, []);
    // One that is delayed is due in time.
    await one.jobs.order(orderOf(4, { exec_after: instantAfter(T0, 500) }), RULES);
    assertEquals((await taken(next, [1, 2, 3])).due, { kind: "in", ms: 500 });
    // Another agent, and a retry on this one, make others ready.
    await one.jobs.cancel(uuidOf<JobUuid>(3));
    await one.jobs.retry(uuidOf<JobUuid>(3), jobOf(5), NO_LIMIT);
    await until("the word of a job", async () => (await taken(next, [1, 2, 3])).jobs?.length === 1);
    // A notice may be missing.
    nowMs = 2_000;
    assertEquals((await taken(next, [1, 2, 3, 5])).asked, true);
  },
);

Deno.test("with a store of one host every claim reads the queue again", async () => {
  const store = await openClockedStore();
  for (const number of [1, 2]) await create(store, jobOf(number));
  const next = new NextJobs({ store, life: lifeOf(RUNNER), monotonicMs: () => 0 });
  const { ready, due } = await next.take(1, new Set());
  assertEquals([ready.map(({ uuid }) => uuid), due.kind], [uuidsOf([1]), "ready"]);
  await store.jobs.cancel(uuidOf<JobUuid>(2));
  assertEquals((await next.take(1, new Set(uuidsOf([1])))).ready, []);
  await store.close();
});
