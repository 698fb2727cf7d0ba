// The suite's part on jobs that begin before they are claimed: what ready() answers, and which of them
// hold() gives to their runner.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { Store } from "../../src/store/store.ts";
import { at, beginAgain, claimJobs, lifeOf } from "../support/clocked_store.ts";
import { jobOf, RUNNER, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import {
  assertStats,
  create,
  holdOf,
  JOB,
  present,
  recordOf,
  run,
  type Test,
} from "./store_case.ts";

const LIFE = lifeOf(RUNNER);
const LATER = instantAfter(T0, 60_000);

const ready = (store: Store, limit = 9, passedOver: readonly JobUuid[] = []) =>
  store.jobs.ready(LIFE, limit, new Set(passedOver));

/** The claims of jobs that have begun, written at once. */
async function hold(store: Store, jobs: readonly Job[], life = LIFE): Promise<readonly JobUuid[]> {
  const held = store.jobs.hold(life, jobs);
  store.jobs.hurry();
  return await held;
}

export function readyTests(test: Test): void {
  test("ready() returns jobs as claim() would, and leaves them queued", async (store) => {
    const made = await create(store, jobOf(1));
    const { jobs, due } = await ready(store);
    assertEquals(due, { kind: "none" });
    assertEquals(await present(store), made);
    await assertStats(store, T0);
    assertEquals(await hold(store, jobs), [JOB]);
    assertEquals([await present(store)], jobs);
    assertEquals([jobs[0]?.execution, jobs[0]?.starts, jobs[0]?.lease], ["running", 1, 1]);
    await assertStats(store, T0);
  });
  test("ready() returns jobs in the order of claim(), without those that are skipped", async (store) => {
    const other = workflowOf({ uuid: uuidOf(70), name: "other" });
    for (const number of [1, 2, 3, 4]) await create(store, jobOf(number));
    await create(store, jobOf(5, { workflow: other }));
    const uuids = async (limit: number, passedOver: readonly JobUuid[] = []) => {
      const { jobs, due } = await ready(store, limit, passedOver);
      return [jobs.map(({ uuid }) => uuid), due.kind];
    };
    const [all] = await uuids(9);
    assertEquals(await uuids(5), [all, "none"]);
    assertEquals(await uuids(2), [all?.slice(0, 2), "ready"]);
    assertEquals(await uuids(2, all?.slice(0, 3) as JobUuid[]), [all?.slice(3), "none"]);
    assertEquals(await uuids(9, all as JobUuid[]), [[], "none"]);
    assertEquals((await claimJobs(store, RUNNER, 9)).map(({ uuid }) => uuid), all);
  });
  test("ready() answers delayed jobs once they are due, behind those that were ready", async (store) => {
    await create(store, jobOf(1, { exec_after: LATER }));
    await create(store, jobOf(2));
    const { jobs, due } = await ready(store);
    assertEquals(jobs.map(({ uuid }) => uuid), [uuidOf<JobUuid>(2)]);
    assertEquals(due, { kind: "in", ms: 60_000 });
    const late = await ready(at(store, LATER));
    assertEquals(late.jobs.map(({ uuid }) => uuid), [uuidOf<JobUuid>(2), JOB]);
    // A clock that is set back takes nothing away.
    assertEquals((await hold(at(store, T0), late.jobs)).length, 2);
  });
  test("ready() answers each of many jobs until it is claimed or canceled, while others are made", async (store) => {
    const numbers = Array.from({ length: 90 }, (_, at) => 3 * at);
    await Promise.all(numbers.map((number) => create(store, jobOf(number + 1))));
    await Promise.all(
      numbers.map((number) => create(store, jobOf(number + 2, { exec_after: LATER }))),
    );
    const late = at(store, LATER);
    const answered: JobUuid[] = [];
    for (const number of numbers) {
      const { jobs, due } = await ready(late, 4, answered.slice(-3));
      if (number % 2 === 0) await create(store, jobOf(number + 3));
      const gone = jobs[number % 4];
      if (gone !== undefined) await store.jobs.cancel(gone.uuid);
      const held = await hold(late, jobs);
      assertEquals(held.length, jobs.length - (gone === undefined ? 0 : 1));
      answered.push(...jobs.map(({ uuid }) => uuid));
      if (jobs.length < 4) assertEquals(due.kind, "none");
    }
    const { jobs } = await ready(late, 9);
    assertEquals([new Set(answered).size, jobs], [answered.length, []]);
    const { current } = await store.jobs.stats();
    assertEquals([answered.length, current.queued], [225, 0]);
  });
  test("hold() gives a runner no job that was canceled meanwhile, and charges it no start", async (store) => {
    for (const number of [1, 2]) await create(store, jobOf(number));
    const { jobs } = await ready(store);
    await store.jobs.cancel(JOB);
    assertEquals(await hold(store, jobs), [uuidOf<JobUuid>(2)]);
    const canceled = await present(store);
    assertEquals([canceled.execution, canceled.starts, canceled.runner_id], ["canceled", 0, null]);
    assertEquals([canceled.lease, canceled.started_at], [0, null]);
    const begun = jobs.find(({ uuid }) => uuid === JOB) as Job;
    assertFalse(await store.jobs.recordTask(recordOf(begun, { kind: "succeed" })));
    assertFalse(await store.jobs.release(holdOf(begun), 1));
    assertEquals(await present(store), canceled);
  });
  test("hold() gives a runner no job that was claimed and given back meanwhile", async (store) => {
    await create(store, jobOf(1));
    const { jobs } = await ready(store);
    const [claimed] = await claimJobs(store, `${RUNNER}-other` as typeof RUNNER, 1);
    assertEquals(await hold(store, jobs), []);
    await store.jobs.release(holdOf(claimed as Job, `${RUNNER}-other` as typeof RUNNER), 0);
    assertEquals(await hold(store, jobs), []);
    assertEquals((await present(store)).execution, "queued");
  });
  test("hold() claims an oncancel chain, but not for a runner that had read the job before the cancel", async (store) => {
    const workflow = workflowOf({ oncancel: [taskOf("undo")] });
    await store.jobs.release(holdOf(await run(store, jobOf(1, { workflow }))), 0);
    const before = (await ready(store)).jobs;
    await store.jobs.cancel(JOB);
    assertEquals(await hold(store, before), []);
    const { jobs } = await ready(store);
    assertEquals(await hold(store, jobs), [JOB]);
    assertEquals([await present(store)], jobs);
    assertEquals([jobs[0]?.execution, jobs[0]?.phase], ["canceled", "oncancel"]);
  });
  test("a crash before hold() leaves the job queued, without a start; one after it is rescued", async (store) => {
    for (const number of [1, 2]) await create(store, jobOf(number));
    const { jobs } = await ready(store, 1);
    await hold(store, jobs);
    assertEquals((await ready(store)).jobs.length, 1);
    assertEquals(await beginAgain(store, RUNNER), 1);
    const starts = [1, 2].map(async (number) => (await present(store, uuidOf(number))).starts);
    assertEquals(await Promise.all(starts), [1, 0]);
    assertEquals(await store.jobs.count({ execution: "queued" }), 2);
  });
  test("a life that has ended gets no job from hold() or claim()", async (store) => {
    await create(store, jobOf(1));
    await store.jobs.begin(LIFE, [], 60_000);
    const { jobs } = await ready(store);
    await beginAgain(store, RUNNER);
    assertEquals(await hold(store, jobs), []);
    assertEquals((await ready(store)).jobs, []);
    assertEquals((await hold(store, jobs, lifeOf(RUNNER, 2))).length, 1);
    // The claim is the one that the ended life would have made, and is not its own.
    assertEquals(await hold(store, jobs), []);
    // A call that is repeated after its answer was lost gets the same one.
    assertEquals((await hold(store, jobs, lifeOf(RUNNER, 2))).length, 1);
  });
  test("ready() answers no more large jobs than may be read at once, and one at least", async (store) => {
    const params = { text: "x".repeat(700_000) };
    for (const number of [1, 2]) await create(store, jobOf(number, { params }));
    const { jobs, due } = await ready(store);
    assertEquals([jobs.length, due.kind], [1, "ready"]);
    assert((await ready(store, 9, [JOB])).jobs.length === 1);
  });
}
