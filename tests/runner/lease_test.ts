// What the runner does for its leases, and with the time and the jobs that an earlier life left.

import { assert, assertEquals } from "@std/assert";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Store } from "../../src/store/store.ts";
import { claim, create, JOB, present } from "../store/store_case.ts";
import { jobOf, OTHER_RUNNER, RUNNER, T0, taskOf, workflowOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { Clock, type ClockedRunner, openClockedRunner, success } from "./clocked_runner.ts";
import { leaseUntil, openClockedStore, rescueAt } from "../support/clocked_store.ts";

const LEASE_MS = 60_000;

/** Runs a test with a store and a clock; runners that it has opened are stopped afterwards. */
function test(
  name: string,
  run: (
    store: Store,
    clock: Clock,
    open: (id?: typeof RUNNER, slots?: number, through?: Store) => ClockedRunner,
  ) => Promise<void>,
): void {
  Deno.test(name, async () => {
    const clock = new Clock();
    const store = await openClockedStore(":memory:", clock);
    const opened: ClockedRunner[] = [];
    try {
      await run(store, clock, (id = RUNNER, slots = 1, through = store) => {
        const runner = openClockedRunner(through, clock, id, slots);
        opened.push(runner);
        return runner;
      });
    } finally {
      for (const { runner } of opened) await runner.stop(0);
      await store.close();
    }
  });
}

const begun = ({ tasks }: ClockedRunner, count = 1) =>
  until(`${count} tasks to have begun`, () => tasks.length === count && tasks[0]);

test(
  "a runner renews its lease while jobs run, and nobody else takes them",
  async (store, clock, open) => {
    const mine = open();
    await create(store, jobOf(1));
    await mine.runner.start();
    await begun(mine);
    // It has the lease since it began.
    for (let third = 2; third <= 12; third++) {
      clock.pass(LEASE_MS / 3);
      mine.runner.wake();
      await until("the lease to be renewed", () => mine.renewals.length === third);
      assertEquals(mine.renewals.at(-1), instantAfter(clock.now, LEASE_MS));
      assertEquals(await rescueAt(store, OTHER_RUNNER, clock.now), 0);
    }
    assertEquals(mine.tasks.length, 1);
  },
);

test(
  "a renewal that the store answers after the end of a job does not count it as lost",
  async (store, clock, open) => {
    const written = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    const { jobs } = store;
    const recordTask: typeof jobs.recordTask = async (...call) => {
      const recorded = await jobs.recordTask(...call);
      written.resolve();
      await answered.promise;
      return recorded;
    };
    const mine = open(RUNNER, 1, { ...store, jobs: { ...jobs, recordTask } });
    await create(store, jobOf(1, { workflow: workflowOf({ chain: [taskOf("only")] }) }));
    await mine.runner.start();
    const task = await begun(mine);
    task.end(success(task));
    await written.promise;
    clock.pass(LEASE_MS / 3);
    mine.runner.wake();
    await until("the lease to be renewed", () => mine.renewals.length === 2);
    answered.resolve();
    await until("the slot to be free", () => mine.runner.busy === 0);
    await create(store, jobOf(2));
    mine.runner.wake();
    await begun(mine);
    // A lost job would have had it renewed again before the next claim.
    assertEquals(mine.renewals.length, 2);
  },
);

test(
  "a runner that stood still for too long has lost its job, and changes nothing",
  async (store, clock, open) => {
    const mine = open();
    await create(store, jobOf(1));
    await mine.runner.start();
    const task = await begun(mine);
    clock.pass(LEASE_MS);
    await leaseUntil(store, OTHER_RUNNER, instantAfter(clock.now, LEASE_MS));
    assertEquals(await rescueAt(store, OTHER_RUNNER, clock.now), 1);
    const job = await claim(store, clock.now, OTHER_RUNNER);
    task.end(success(task));
    await until("the slot to be free", () => mine.runner.busy === 0);
    assertEquals(await present(store), job);
  },
);

test(
  "an idle runner takes over the jobs of another one whose lease has ended",
  async (store, clock, open) => {
    await leaseUntil(store, OTHER_RUNNER, instantAfter(T0, LEASE_MS));
    await create(store, jobOf(1));
    await claim(store, T0, OTHER_RUNNER);
    const mine = open();
    await mine.runner.start();
    clock.pass(LEASE_MS - 1);
    mine.runner.wake();
    assertEquals((await present(store)).runner_id, OTHER_RUNNER);
    clock.pass(LEASE_MS);
    mine.runner.wake();
    const { run } = await begun(mine);
    assertEquals(run.job.attempt, 2);
  },
);

test(
  "the time since the last renewal counts from its sending, not from its answer",
  async (store, clock, open) => {
    const asked = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    const { jobs } = store;
    const slow: Store = {
      ...store,
      shared: true,
      jobs: {
        ...jobs,
        renew: async (...call) => {
          const outcome = await jobs.renew(...call);
          asked.resolve();
          await answered.promise;
          return outcome;
        },
        // Nothing but the timer looks at the time from here on.
        claim: async (life, limit, which) => {
          if (clock.ms > 0) await closed.promise;
          return await jobs.claim(life, limit, which);
        },
      },
    };
    await create(store, jobOf(1, { workflow: { ...workflowOf(), placement: "any" } }));
    const mine = open(RUNNER, 2, slow);
    await mine.runner.start();
    await begun(mine);
    clock.pass(LEASE_MS / 3);
    mine.runner.wake();
    await asked.promise;
    for (let third = 1; third <= 2; third++) {
      // Looks at the clocks: the process has not stood still.
      await mine.runner.mayAct(false);
      clock.pass(LEASE_MS / 3);
    }
    await mine.runner.mayAct(false);
    answered.resolve();
    // Counted from the answer it would take two thirds of the lease.
    const ended = until("the guest to be ended", () => mine.tasks.length === 0, LEASE_MS / 2);
    await ended.finally(() => closed.resolve());
  },
);

test(
  "a process that was suspended for half a lease renews its claims before it acts",
  async (store, clock, open) => {
    const mine = open(RUNNER, 1, { ...store, shared: true });
    await create(store, jobOf(1));
    await mine.runner.start();
    await begun(mine);
    const renewals = mine.renewals.length;
    clock.pass(LEASE_MS / 2 - 1);
    await mine.runner.mayAct(false);
    clock.pass(LEASE_MS / 2);
    const before = mine.renewals.length;
    await mine.runner.mayAct(false);
    assert(mine.renewals.length > before && before >= renewals);
  },
);

test("a restarted runner takes over its own jobs at once", async (store, _clock, open) => {
  await leaseUntil(store, RUNNER, instantAfter(T0, LEASE_MS));
  await create(store, jobOf(1));
  await claim(store);
  const mine = open();
  await mine.runner.start();
  const { run } = await begun(mine);
  assertEquals(run.job.attempt, 2);
  assertEquals((await present(store)).starts, 2);
});

test("the time that a job has run counts on after a drain", async (store, clock, open) => {
  const workflow = workflowOf({ timeout: 100, onerror: [taskOf("undo")] });
  await create(store, jobOf(1, { workflow }));
  const first = open();
  await first.runner.start();
  const task = await begun(first);
  assertEquals(task.run.timeoutMs, 100_000);
  clock.pass(15_000);
  task.end(success(task));
  await until("the next task to have begun", () => first.tasks[0]?.run.taskName === "second");
  clock.pass(45_000);
  await first.runner.stop(0);
  const between = await present(store);
  assertEquals([between.execution, between.elapsed_ms, between.starts], ["queued", 60_000, 0]);
  // What passes while nothing runs does not count.
  clock.pass(3_600_000);

  const second = open();
  await second.runner.start();
  const again = await begun(second);
  assertEquals([again.run.taskName, again.run.timeoutMs], ["second", 40_000]);
  clock.pass(40_000);
  again.end({ kind: "timeout" });
  await until("onerror to have begun", () => second.tasks[0]?.run.taskName === "undo");
  assertEquals(second.tasks[0]?.run.timeoutMs, 100_000);
  assertEquals((await present(store)).chain_results[1]?.error, "workflow timeout");
});

test(
  "a job that was released with its time used up does not start again",
  async (store, clock, open) => {
    await create(store, jobOf(1, { workflow: workflowOf({ timeout: 10 }) }));
    const first = open();
    await first.runner.start();
    await begun(first);
    clock.pass(10_000);
    await first.runner.stop(0);
    const second = open();
    await second.runner.start();
    await until("the job to have ended", async () => (await present(store)).execution === "failed");
    const [entry] = (await present(store)).chain_results;
    assertEquals([entry?.error, entry?.attempts], ["workflow timeout", 0]);
  },
);

test(
  "a job that was lost and claimed again runs once, and is undone once",
  async (store, clock, open) => {
    const mine = open(RUNNER, 2);
    await create(store, jobOf(1, { workflow: workflowOf({ oncancel: [taskOf("undo")] }) }));
    await mine.runner.start();
    const lost = await begun(mine);
    clock.pass(LEASE_MS);
    assertEquals(await rescueAt(store, OTHER_RUNNER), 1);
    mine.runner.wake();
    // The renewal tells that the first run has lost the job: its guest is ended.
    await until("the second run", () => mine.tasks.length === 1 && mine.tasks[0] !== lost);
    await store.jobs.cancel(JOB);
    const undo = await until(
      "undo to have begun",
      () => mine.tasks.find(({ run }) => run.taskName === "undo"),
    );
    lost.end(success(lost));
    undo.end(success(undo));
    await until("all runs to have ended", () => mine.runner.busy === 0);
    assertEquals(mine.tasks, []);
    assertEquals((await present(store)).oncancel_results.length, 1);
  },
);

test(
  "a job that is canceled during a drain has the full time for its oncancel chain",
  async (store, clock, open) => {
    const workflow = workflowOf({ timeout: 100, oncancel: [taskOf("undo")] });
    await create(store, jobOf(1, { workflow }));
    const { jobs } = store;
    const first = open(RUNNER, 1, {
      ...store,
      jobs: {
        ...jobs,
        // The cancel comes right behind the result of the task.
        recordTask: async (record) => {
          const [held] = await Promise.all([jobs.recordTask(record), jobs.cancel(JOB)]);
          return held;
        },
      },
    });
    await first.runner.start();
    const task = await begun(first);
    clock.pass(99_000);
    const stopped = first.runner.stop(60_000);
    task.end(success(task));
    await stopped;
    const between = await present(store);
    assertEquals([between.execution, between.phase, between.elapsed_ms], [
      "canceled",
      "oncancel",
      0,
    ]);
    const second = open();
    await second.runner.start();
    assertEquals((await begun(second)).run.timeoutMs, 100_000);
  },
);
