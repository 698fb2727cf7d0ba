// The suite's part on the order of claims: fair between workflows, whatever the clock says.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { type Instant, instantAfter } from "../../src/domain/instant.ts";
import type { NewJob } from "../../src/domain/job/job.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, OTHER_RUNNER, RUNNER, T0, uuidOf, workflowOf } from "../support/job.ts";
import { create, holdOf, recordOf, type Test } from "./store_case.ts";
import { at, claimJobs, dueOf, rescueAt } from "../support/clocked_store.ts";

const DAY_MS = 86_400_000;
const [A, B, C] = [1, 2, 3].map((number) => workflowOf({ uuid: uuidOf<WorkflowUuid>(number) })) as [
  NewJob["workflow"],
  NewJob["workflow"],
  NewJob["workflow"],
];

/** Writes jobs of one workflow, numbered from `first`. */
async function post(
  store: Store,
  workflow: NewJob["workflow"],
  first: number,
  count: number,
  fields: Partial<NewJob> = {},
): Promise<void> {
  const numbers = Array.from({ length: count }, (_, index) => first + index);
  await Promise.all(
    numbers.map((number) => create(store, jobOf(number, { workflow, ...fields }))),
  );
}

/** Claims one by one, as a runner with one slot does. */
async function claimOneByOne(store: Store, count: number, now: Instant = T0) {
  const jobs = [];
  for (let index = 0; index < count; index++) {
    jobs.push(...await claimJobs(store, RUNNER, 1, now));
  }
  return jobs;
}

export function fairnessTests(test: Test): void {
  test("a thousand ready jobs of one workflow do not delay the single job of another", async (store) => {
    await post(store, A, 1, 1000);
    await post(store, B, 5000, 1);
    const claimed = await claimOneByOne(store, 3);
    assert(claimed.some((job) => job.workflow_uuid === B.uuid));
    // The same when the first workflow has been served for a while.
    await claimJobs(store, RUNNER, 300, T0);
    await post(store, B, 6000, 1);
    assert((await claimOneByOne(store, 3)).some((job) => job.workflow_uuid === B.uuid));
    assert((await claimJobs(store, RUNNER, 2000, T0)).length > 600);
  });
  test("jobs that come back as fast as they are claimed do not starve those that wait", async (store) => {
    const others = [2, 3, 4].map((number) => workflowOf({ uuid: uuidOf<WorkflowUuid>(number) }));
    await post(store, A, 1, 20);
    for (const [index, workflow] of others.entries()) await post(store, workflow, 1000 + index, 1);
    let served = 0;
    for (let number = 2000; number < 2120; number++) {
      const [job] = await claimJobs(store, RUNNER, 1, T0);
      const workflow = others.find(({ uuid }) => uuid === job?.workflow_uuid);
      if (workflow === undefined) served += 1;
      else await post(store, workflow, number, 1);
    }
    assertEquals(served, 20);
  });
  test("workflows with many ready jobs take turns", async (store) => {
    for (const [index, workflow] of [A, B, C].entries()) {
      await post(store, workflow, 100 * index, 30);
    }
    const order = (await claimOneByOne(store, 60)).map((job) => job.workflow_uuid);
    for (let begin = 0; begin < order.length; begin += 15) {
      const part = order.slice(begin, begin + 15);
      for (const { uuid } of [A, B, C]) {
        const share = part.filter((of) => of === uuid).length;
        assert(share >= 4 && share <= 6, `${uuid} has ${share} of 15 claims`);
      }
    }
  });
  test("the jobs of one workflow are claimed in the order of their creation", async (store) => {
    for (let number = 1; number <= 12; number++) await create(store, jobOf(number));
    const order = (await claimOneByOne(store, 12)).map((job) => job.uuid);
    assertEquals(order, Array.from({ length: 12 }, (_, index) => uuidOf<JobUuid>(index + 1)));
  });
  test("delayed jobs hold up no other before they are due, and then do not wait behind all others", async (store) => {
    const later = instantAfter(T0, 60_000);
    await post(store, A, 1, 200, { exec_after: later });
    await post(store, B, 1000, 200);
    const early = await claimJobs(store, RUNNER, 50, T0);
    assertEquals(new Set(early.map((job) => job.workflow_uuid)), new Set([B.uuid]));
    assertEquals(early.length, 50);
    const due = await claimOneByOne(store, 20, later);
    const share = due.filter((job) => job.workflow_uuid === A.uuid).length;
    assert(share >= 8 && share <= 12, `${share} of 20 claims are of the delayed jobs`);
  });
  test("a delayed job is claimed when due, even if its workflow always has ready jobs", async (store) => {
    const later = instantAfter(T0, 1000);
    await create(store, jobOf(9999, { exec_after: later }));
    await post(store, A, 1, 20);
    for (let round = 0; round < 60; round++) {
      await create(store, jobOf(100 + round));
      const [job] = await claimJobs(store, RUNNER, 1, later);
      if (job?.uuid === uuidOf<JobUuid>(9999)) return;
    }
    throw new Error("The delayed job was not claimed in 60 rounds");
  });
  test("a job that queues itself again and again does not starve others", async (store) => {
    await post(store, A, 1, 1);
    await post(store, B, 100, 10);
    const order = [];
    for (let round = 0; round < 12; round++) {
      const [job] = await claimJobs(store, RUNNER, 1, T0);
      assert(job !== undefined);
      order.push(job.workflow_uuid);
      if (job.workflow_uuid !== A.uuid) continue;
      await store.jobs.recordTask(recordOf(job, { kind: "cb_queue" }));
    }
    assert(order.filter((uuid) => uuid === B.uuid).length >= 5, order.join(" "));
  });

  test("a clock that is set back by a day delays nothing that was ready", async (store) => {
    const [created, queued, released, rescued, resumed] = [1, 2, 3, 4, 5].map((number) =>
      jobOf(number)
    ) as [NewJob, NewJob, NewJob, NewJob, NewJob];
    for (const job of [queued, released, resumed]) await create(store, job);
    for (const job of await claimJobs(store, RUNNER, 3, T0)) {
      if (job.uuid === queued.uuid) {
        await store.jobs.recordTask(recordOf(job, { kind: "cb_queue" }));
      } else if (job.uuid === resumed.uuid) {
        await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" }));
      } else await store.jobs.release(holdOf(job), 0);
    }
    await store.jobs.resume(resumed.uuid, { kind: "result", result: "" });
    const before = (await claimJobs(store, RUNNER, 9, T0)).map((job) => holdOf(job));
    for (const hold of before) await store.jobs.abandon(hold);
    await create(store, rescued);
    const [left] = (await claimJobs(store, OTHER_RUNNER, 9, T0)).filter((job) =>
      job.uuid === rescued.uuid
    );
    assert(left !== undefined);
    await rescueAt(store, RUNNER, T0);
    await create(store, created);
    const back = instantAfter(T0, -DAY_MS);
    assertEquals(await dueOf(store), { kind: "ready" });
    const claimed = (await claimJobs(store, RUNNER, 9, back)).map((job) => job.uuid);
    assertEquals(claimed.sort(), [1, 2, 3, 4, 5].map((number) => uuidOf<JobUuid>(number)));
  });
  test("jobs that are created after the clock was set back are ready at once", async (store) => {
    await post(store, A, 1, 5);
    const back = instantAfter(T0, -DAY_MS);
    await post(at(store, back), B, 100, 1);
    const claimed = await claimOneByOne(store, 3, back);
    assert(claimed.some((job) => job.workflow_uuid === B.uuid));
    assertEquals((await claimJobs(store, RUNNER, 9, back)).length, 3);
  });
}
