// The suite's part on claiming, and on giving back what was claimed.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { jobOf, OTHER_RUNNER, RUNNER, T0, uuidOf } from "../support/job.ts";
import { claim, create, finish, holdOf, JOB, present, run, type Test } from "./store_case.ts";
import { claimJobs, dueOf } from "../support/clocked_store.ts";

export function claimTests(test: Test): void {
  test("claim() gives a job to one of two runners", async (store) => {
    await create(store, jobOf(1));
    const claims = await Promise.all([RUNNER, OTHER_RUNNER].map(async (runner) => {
      return { runner, jobs: await claimJobs(store, runner, 1, T0) };
    }));
    const [owner, ...others] = claims.filter(({ jobs }) => jobs.length > 0);
    assertEquals(others, []);
    const [job] = owner?.jobs ?? [];
    assertEquals([job?.execution, job?.runner_id, job?.starts], ["running", owner?.runner, 1]);
    assertEquals(await store.jobs.get(JOB), job);
  });
  test("claim() gives each of many jobs to one of many runners", async (store) => {
    await Promise.all(Array.from({ length: 40 }, (_, number) => create(store, jobOf(number))));
    const runners = Array.from(
      { length: 8 },
      (_, number) => `${RUNNER}-${number}` as typeof RUNNER,
    );
    const claims = await Promise.all(runners.map((runner) => claimJobs(store, runner, 10, T0)));
    const uuids = claims.flat().map((job) => job.uuid);
    assertEquals([uuids.length, new Set(uuids).size], [40, 40]);
    assert(claims.every((jobs) => jobs.length <= 10));
  });
  test("claim() takes no more jobs than asked for", async (store) => {
    for (const number of [1, 2, 3]) await create(store, jobOf(number));
    assertEquals((await claimJobs(store, RUNNER, 2, T0)).length, 2);
    assertEquals((await claimJobs(store, RUNNER, 2, T0)).length, 1);
    assertEquals((await claimJobs(store, RUNNER, 2, T0)).length, 0);
  });
  test("claim() skips a job whose exec_after is in the future", async (store) => {
    const later = instantAfter(T0, 1000);
    await create(store, jobOf(1, { exec_after: later }));
    await create(store, jobOf(2));
    assertEquals((await claimJobs(store, RUNNER, 5, T0)).map((job) => job.uuid), [
      uuidOf<JobUuid>(2),
    ]);
    assertEquals(await claimJobs(store, RUNNER, 5, instantAfter(later, -1)), []);
    assertEquals((await claim(store, later)).uuid, JOB);
  });
  test("delayed jobs become ready in the order of their due times", async (store) => {
    const dues = [5, 3, 1, 4, 2];
    for (const number of dues) {
      await create(store, jobOf(number, { exec_after: instantAfter(T0, number * 1000) }));
    }
    const late = instantAfter(T0, 10_000);
    for (const number of [1, 2, 3, 4, 5]) {
      const [job] = await claimJobs(store, RUNNER, 1, late);
      assertEquals(job?.uuid, uuidOf<JobUuid>(number));
    }
  });
  test("claim() records the time of the first start, and counts every start", async (store) => {
    const first = await run(store);
    assertEquals([first.started_at, first.starts], [T0, 1]);
    await store.jobs.abandon(holdOf(first));
    const second = await claim(store, instantAfter(T0, 5000));
    assertEquals([second.started_at, second.starts], [T0, 2]);
    assertEquals(second.claimable_at, null);
  });

  test("nextDue() reports a ready job, else the time of the first delayed one, else none", async (store) => {
    const [soon, later] = [instantAfter(T0, 1000), instantAfter(T0, 2000)];
    assertEquals(await dueOf(store), { kind: "none" });
    await create(store, jobOf(1, { exec_after: later }));
    assertEquals(await dueOf(store), { kind: "at", instant: later });
    await create(store, jobOf(2, { exec_after: soon }));
    assertEquals(await dueOf(store), { kind: "at", instant: soon });
    await create(store, jobOf(3));
    assertEquals(await dueOf(store), { kind: "ready" });
    const job = await claim(store);
    assertEquals(await dueOf(store), { kind: "at", instant: soon });
    await store.jobs.cancel(uuidOf<JobUuid>(2));
    await store.jobs.cancel(JOB);
    assertEquals(await dueOf(store), { kind: "none" });
    await finish(store, job);
    assertEquals(await dueOf(store), { kind: "none" });
  });

  test("release() uncounts the start of its claim, and keeps the elapsed time", async (store) => {
    const job = await run(store);
    assertFalse(await store.jobs.release(holdOf(job, OTHER_RUNNER), 7));
    assert(await store.jobs.release(holdOf(job), 7));
    const released = await present(store);
    assertEquals([released.execution, released.starts, released.runner_id], ["queued", 0, null]);
    assertEquals(released.elapsed_ms, 7);
    assertEquals(await dueOf(store), { kind: "ready" });
    const again = await claim(store);
    assertEquals([again.starts, again.elapsed_ms], [1, 7]);
  });
  test("abandon() queues one job of its runner again, and its start stays counted", async (store) => {
    const job = await run(store);
    assertFalse(await store.jobs.abandon({ ...holdOf(job), lease: job.lease + 1 }));
    assert(await store.jobs.abandon(holdOf(job)));
    const abandoned = await present(store);
    assertEquals([abandoned.execution, abandoned.starts, abandoned.runner_id], ["queued", 1, null]);
    assertEquals(await dueOf(store), { kind: "ready" });
  });
  test("a job is released only once", async (store) => {
    const job = await run(store);
    const given = await Promise.all([
      store.jobs.release(holdOf(job), 1),
      store.jobs.abandon(holdOf(job)),
      store.jobs.release(holdOf(job), 1),
    ]);
    assertEquals(given.filter((held) => held).length, 1);
  });
}
