// The suite's part on leases: whose a job is, how others come by it, and that a runner which has
// lost it changes nothing.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
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
  assertFalse(await store.jobs.release(holdOf(held), 99, T0));
  assertFalse(await store.jobs.abandon(holdOf(held), T0));
  assertEquals(await store.jobs.get(held.uuid), before);
  assertEquals(await store.jobs.get(uuidOf<JobUuid>(77)), undefined);
}

export function leaseTests(test: Test): void {
  test("a write under an older lease changes nothing, also when its runner has the job again", async (store) => {
    const first = await run(store);
    assertEquals(await store.jobs.rescue(OTHER_RUNNER, T0, false), 1);
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
    await store.jobs.rescue(OTHER_RUNNER, T0, false);
    const second = await claim(store, T0, OTHER_RUNNER);
    await assertPowerless(store, first);
    await assertPowerless(store, { ...first, lease: second.lease });
    assertEquals((await present(store)).runner_id, OTHER_RUNNER);
  });
  test("a hold ends with the job, and with each way in which the job leaves its runner", async (store) => {
    const ways: ((job: Job) => Promise<unknown>)[] = [
      (job) => finish(store, job),
      (job) => store.jobs.release(holdOf(job), 0, T0),
      (job) => store.jobs.abandon(holdOf(job), T0),
      (job) => store.jobs.cancel(job.uuid, T0),
      (job) => store.jobs.recordTask(recordOf(job, { kind: "cb_wait" })),
      (job) => store.jobs.recordTask(recordOf(job, { kind: "cb_queue" })),
    ];
    for (const [index, leave] of ways.entries()) {
      const job = await run(store, jobOf(index + 1));
      await leave(job);
      await assertPowerless(store, job);
      await store.jobs.cancel(job.uuid, T0);
    }
  });

  test("rescue() queues what a runner without a lease left, its starts counted", async (store) => {
    await create(store, jobOf(1));
    await claim(store, T0, OTHER_RUNNER);
    await run(store, jobOf(2));
    assertEquals(await store.jobs.rescue(RUNNER, T0, false), 1);
    const job = await present(store);
    assertEquals([job.execution, job.starts, job.runner_id], ["queued", 1, null]);
    assertEquals((await present(store, uuidOf<JobUuid>(2))).execution, "running");
    assertEquals((await claim(store)).starts, 2);
  });
  test("renew() keeps others away until the lease is over, and each renewal counts anew", async (store) => {
    await store.jobs.renew(RUNNER, MINUTE_LATER);
    await run(store);
    const rescuedAt = (ms: number) =>
      store.jobs.rescue(OTHER_RUNNER, instantAfter(MINUTE_LATER, ms), false);
    assertEquals(await rescuedAt(-60_000), 0);
    assertEquals(await rescuedAt(-1), 0);
    await store.jobs.renew(RUNNER, instantAfter(MINUTE_LATER, 5000));
    assertEquals(await rescuedAt(4999), 0);
    assertEquals((await present(store)).execution, "running");
    assertEquals(await rescuedAt(5000), 1);
    assertEquals((await present(store)).execution, "queued");
    assertEquals(await rescuedAt(6000), 0);
  });
  test("a runner of an earlier life takes up its own jobs at once, and leaves those of others", async (store) => {
    await store.jobs.renew(RUNNER, MINUTE_LATER);
    await store.jobs.renew(OTHER_RUNNER, MINUTE_LATER);
    await run(store, jobOf(1));
    await create(store, jobOf(2));
    await claim(store, T0, OTHER_RUNNER);
    assertEquals(await store.jobs.rescue(RUNNER, T0, false), 0);
    assertEquals(await store.jobs.rescue(RUNNER, T0, true), 1);
    assertEquals((await present(store)).execution, "queued");
    assertEquals((await present(store, uuidOf<JobUuid>(2))).runner_id, OTHER_RUNNER);
  });
  test("a runner does not take its own jobs for left behind while it lives", async (store) => {
    await run(store);
    assertEquals(await store.jobs.rescue(RUNNER, MINUTE_LATER, false), 0);
    assertEquals((await present(store)).execution, "running");
  });
  test("of two that rescue together each job counts once", async (store) => {
    for (let number = 1; number <= 10; number++) await create(store, jobOf(number));
    await store.jobs.claim(THIRD_RUNNER, 10, T0);
    const rescued = await Promise.all([
      store.jobs.rescue(RUNNER, T0, false),
      store.jobs.rescue(OTHER_RUNNER, T0, false),
    ]);
    assertEquals(rescued[0] + rescued[1], 10);
    assertEquals(await store.jobs.count({ execution: "queued" }), 10);
  });
  test("rescue() leaves alone what nobody holds", async (store) => {
    const waiting = await run(store, jobOf(1));
    await store.jobs.recordTask(recordOf(waiting, { kind: "cb_wait" }));
    await finish(store, await run(store, jobOf(2)));
    await create(store, jobOf(3, { exec_after: MINUTE_LATER }));
    const before = await store.jobs.list({});
    assertEquals(await store.jobs.rescue(OTHER_RUNNER, MINUTE_LATER, true), 0);
    assertEquals(await store.jobs.list({}), before);
  });
  test("rescued jobs keep what was recorded, and the time that it took", async (store) => {
    const job = await run(store);
    await store.jobs.recordTask(recordOf(job, { kind: "continue" }, {
      params: { a: 1 },
      props: { b: 2 },
      elapsed_ms: 1234,
    }));
    await store.jobs.rescue(OTHER_RUNNER, T0, false);
    const again = await claim(store, T0, OTHER_RUNNER);
    assertEquals([again.params, again.props, again.elapsed_ms], [{ a: 1 }, { b: 2 }, 1234]);
    assertEquals([again.chain_results.length, again.starts], [1, 2]);
  });
  test("the oncancel chain of a canceled job survives the death of its runner", async (store) => {
    await run(store, jobOf(1, { workflow: workflowOf({ oncancel: [taskOf("undo")] }) }));
    await store.jobs.cancel(JOB, T0);
    assertEquals(await store.jobs.rescue(OTHER_RUNNER, T0, false), 1);
    assertEquals(await store.jobs.nextDue(), { kind: "ready" });
    const job = await claim(store, T0, OTHER_RUNNER);
    assertEquals([job.execution, job.phase, job.runner_id], ["canceled", "oncancel", OTHER_RUNNER]);
  });
}
