// The suite's part on leases: whose a job is, how others come by it, and that a runner which has
// lost it changes nothing.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { RunnerLife } from "../../src/store/run_store.ts";
import type { Store } from "../../src/store/store.ts";
import {
  jobOf,
  OTHER_RUNNER,
  resultOf,
  RUNNER,
  T0,
  taskOf,
  uuidOf,
  workflowOf,
} from "../support/job.ts";
import {
  claim,
  create,
  finish,
  holdOf,
  JOB,
  present,
  recordOf,
  run,
  type Test,
} from "./store_case.ts";
import {
  beginAgain,
  claimJobs,
  type ClockedStore,
  dueOf,
  leaseUntil,
  lifeOf,
  rescueAt,
} from "../support/clocked_store.ts";

const THIRD_RUNNER = `${OTHER_RUNNER}-third` as typeof RUNNER;
const MINUTE_LATER = instantAfter(T0, 60_000);

/** Tries every write under a hold, and checks that none of them counts. */
async function assertPowerless(store: Store, held: Job): Promise<void> {
  const before = await store.jobs.get(held.uuid);
  const late = resultOf("late");
  const next = { kind: "succeed" } as const;
  assertFalse(await store.jobs.recordTask(recordOf(held, { kind: "continue" }, { entry: late })));
  assertFalse(await store.jobs.recordTask(recordOf(held, next, { entry: late })));
  assertFalse(await store.jobs.recordTask(recordOf(held, { kind: "cb_wait" }, { entry: late })));
  const retried = { kind: "cb_retry" } as const;
  assertFalse(
    await store.jobs.recordTask(recordOf(held, retried, { entry: late, successor: jobOf(77) })),
  );
  assertFalse(await store.jobs.release(holdOf(held), 99));
  assertFalse(await store.jobs.abandon(holdOf(held)));
  assertEquals(await store.jobs.get(held.uuid), before);
  assertEquals(await store.jobs.get(uuidOf<JobUuid>(77)), undefined);
}

export function leaseTests(test: Test): void {
  test("a write under an old claim changes nothing, even if the same runner has claimed the job again", async (store) => {
    const first = await run(store);
    assertEquals(await rescueAt(store, OTHER_RUNNER, T0), 1);
    await assertPowerless(store, first);
    const second = await claim(store);
    assertEquals(second.runner_id, first.runner_id);
    assert(second.lease !== first.lease);
    await assertPowerless(store, first);
    assert(await store.jobs.recordTask(recordOf(second, { kind: "continue" })));
    assertEquals((await present(store)).chain_results.length, 1);
    await assertPowerless(store, first);
  });
  test("a runner that lost its job to another one changes nothing", async (store) => {
    const first = await run(store);
    await rescueAt(store, OTHER_RUNNER, T0);
    const second = await claim(store, T0, OTHER_RUNNER);
    await assertPowerless(store, first);
    await assertPowerless(store, { ...first, lease: second.lease });
    assertEquals((await present(store)).runner_id, OTHER_RUNNER);
  });
  test("a claim ends with the job, and in every way in which the job leaves its runner", async (store) => {
    const ways: ((job: Job) => Promise<unknown>)[] = [
      (job) => finish(store, job),
      (job) => store.jobs.release(holdOf(job), 0),
      (job) => store.jobs.abandon(holdOf(job)),
      (job) => store.jobs.cancel(job.uuid),
      (job) => store.jobs.recordTask(recordOf(job, { kind: "cb_wait" })),
      (job) => store.jobs.recordTask(recordOf(job, { kind: "cb_queue" })),
    ];
    for (const [index, leave] of ways.entries()) {
      const job = await run(store, jobOf(index + 1));
      await leave(job);
      await assertPowerless(store, job);
      await store.jobs.cancel(job.uuid);
    }
  });

  test("rescue() queues the jobs of a runner whose lease has ended, with their starts counted", async (store) => {
    await create(store, jobOf(1));
    await claim(store, T0, OTHER_RUNNER);
    await run(store, jobOf(2));
    assertEquals(await rescueAt(store, RUNNER, T0), 1);
    const job = await present(store);
    assertEquals([job.execution, job.starts, job.runner_id], ["queued", 1, null]);
    assertEquals((await present(store, uuidOf<JobUuid>(2))).execution, "running");
    assertEquals((await claim(store)).starts, 2);
  });
  test("renew() keeps others away until the lease is over, counted from each renewal", async (store) => {
    await leaseUntil(store, RUNNER, MINUTE_LATER);
    await run(store);
    const rescuedAt = (ms: number) => rescueAt(store, OTHER_RUNNER, instantAfter(MINUTE_LATER, ms));
    assertEquals(await rescuedAt(-60_000), 0);
    assertEquals(await rescuedAt(-1), 0);
    await leaseUntil(store, RUNNER, instantAfter(MINUTE_LATER, 5000));
    assertEquals(await rescuedAt(4999), 0);
    assertEquals((await present(store)).execution, "running");
    assertEquals(await rescuedAt(5000), 1);
    assertEquals((await present(store)).execution, "queued");
    assertEquals(await rescuedAt(6000), 0);
  });
  test("a restarted runner takes over its own jobs at once, and no job of others", async (store) => {
    await leaseUntil(store, RUNNER, MINUTE_LATER);
    await leaseUntil(store, OTHER_RUNNER, MINUTE_LATER);
    await run(store, jobOf(1));
    await create(store, jobOf(2));
    await claim(store, T0, OTHER_RUNNER);
    assertEquals(await rescueAt(store, RUNNER, T0), 0);
    assertEquals(await beginAgain(store, RUNNER, T0), 1);
    assertEquals((await present(store)).execution, "queued");
    assertEquals((await present(store, uuidOf<JobUuid>(2))).runner_id, OTHER_RUNNER);
  });
  test("a second runner with the id of a live one takes none of its jobs", async (store) => {
    const [mine, other] = [lifeOf(RUNNER), lifeOf(RUNNER, 2)];
    assertEquals(await store.jobs.begin(mine, [], 60_000), { kind: "begun", rescued: 0 });
    const job = await run(store);
    const held = { kind: "held", left_ms: 60_000 } as const;
    assertEquals(await store.jobs.begin(other, [], 60_000), held);
    // A life that it took for the last one is not: it comes from an old copy.
    const older = [lifeOf(RUNNER, 3).incarnation];
    assertEquals(await store.jobs.begin(other, older, 60_000), held);
    assertEquals(await present(store), job);
    assertEquals((await store.jobs.renew(other, [], 60_000)).kind, "superseded");
    await create(store, jobOf(2));
    assertEquals((await store.jobs.claim(other, 1)).jobs, []);
    assertEquals((await store.jobs.claim(mine, 1)).jobs.length, 1);
  });
  test("once a runner's lease is over, or it has ended, a new life may begin, and the old one has lost its jobs", async (store) => {
    const [first, second, third] = [1, 2, 3].map((number) => lifeOf(RUNNER, number)) as [
      RunnerLife,
      RunnerLife,
      RunnerLife,
    ];
    await store.jobs.begin(first, [], 60_000);
    const job = await run(store);
    const ended = [first.incarnation];
    assertEquals(await store.jobs.begin(second, ended, 60_000), { kind: "begun", rescued: 1 });
    await assertPowerless(store, job);
    assertEquals((await store.jobs.renew(first, [holdOf(job)], 60_000)).kind, "superseded");
    assertEquals((await store.jobs.claim(first, 1)).jobs, []);
    await store.jobs.claim(second, 1);
    assertEquals((await store.jobs.begin(third, ended, 60_000)).kind, "held");
    (store as ClockedStore).clock.now = MINUTE_LATER;
    assertEquals(await store.jobs.begin(third, ended, 60_000), { kind: "begun", rescued: 1 });
  });
  test("a lease that was granted by a fast clock does not delay the next life for long", async (store) => {
    (store as ClockedStore).clock.now = instantAfter(T0, 86_400_000);
    await store.jobs.begin(lifeOf(RUNNER), [], 60_000);
    (store as ClockedStore).clock.now = T0;
    assertEquals((await store.jobs.begin(lifeOf(RUNNER, 2), [], 60_000)).kind, "begun");
  });
  test("a live runner does not rescue its own jobs", async (store) => {
    await run(store);
    assertEquals(await rescueAt(store, RUNNER, MINUTE_LATER), 0);
    assertEquals((await present(store)).execution, "running");
  });
  test("of two simultaneous rescues, each job is counted once", async (store) => {
    for (let number = 1; number <= 10; number++) await create(store, jobOf(number));
    await claimJobs(store, THIRD_RUNNER, 10, T0);
    const rescued = await Promise.all([
      rescueAt(store, RUNNER, T0),
      rescueAt(store, OTHER_RUNNER, T0),
    ]);
    assertEquals(rescued[0] + rescued[1], 10);
    assertEquals(await store.jobs.count({ execution: "queued" }), 10);
  });
  test("rescue() does not change jobs without a claim", async (store) => {
    const waiting = await run(store, jobOf(1));
    await store.jobs.recordTask(recordOf(waiting, { kind: "cb_wait" }));
    await finish(store, await run(store, jobOf(2)));
    await create(store, jobOf(3, { exec_after: MINUTE_LATER }));
    const before = await store.jobs.list({});
    assertEquals(await beginAgain(store, OTHER_RUNNER, MINUTE_LATER), 0);
    assertEquals(await store.jobs.list({}), before);
  });
  test("rescued jobs keep what was recorded, and the time that it took", async (store) => {
    const job = await run(store);
    await store.jobs.recordTask(recordOf(job, { kind: "continue" }, {
      params: { a: 1 },
      props: { b: 2 },
      elapsed_ms: 1234,
    }));
    await rescueAt(store, OTHER_RUNNER, T0);
    const again = await claim(store, T0, OTHER_RUNNER);
    assertEquals([again.params, again.props, again.elapsed_ms], [{ a: 1 }, { b: 2 }, 1234]);
    assertEquals([again.chain_results.length, again.starts], [1, 2]);
  });
  test("the oncancel chain of a canceled job survives the death of its runner", async (store) => {
    await run(store, jobOf(1, { workflow: workflowOf({ oncancel: [taskOf("undo")] }) }));
    await store.jobs.cancel(JOB);
    assertEquals(await rescueAt(store, OTHER_RUNNER, T0), 1);
    assertEquals(await dueOf(store), { kind: "ready" });
    const job = await claim(store, T0, OTHER_RUNNER);
    assertEquals([job.execution, job.phase, job.runner_id], ["canceled", "oncancel", OTHER_RUNNER]);
  });
}
