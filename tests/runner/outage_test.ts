// The runner and a store that loses answers, is away, or has other agents at work on it.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import type { JobStore } from "../../src/store/job_store.ts";
import type { Store } from "../../src/store/store.ts";
import { claimJobs, type ClockedStore, openClockedStore } from "../support/clocked_store.ts";
import { jobOf, OTHER_RUNNER, RUNNER, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { create, JOB, present } from "../store/store_case.ts";
import { Clock, type ClockedRunner, openClockedRunner, success } from "./clocked_runner.ts";
import { NO_LIMIT } from "../support/limits.ts";

const LEASE_MS = 60_000;

/** The store as one that agents share, whose jobs are all free. */
function withFreeJobs(store: ClockedStore): ClockedStore {
  const { jobs } = store;
  return {
    ...store,
    shared: true,
    jobs: {
      ...jobs,
      create: (job, max) => jobs.create({ ...job, props: { ...job.props, placement: "any" } }, max),
      ready: async (life) => ({ ...await jobs.claim(life, 0), free: true }),
    },
  };
}

/** Runs a test with a store that agents share; runners that it has opened are stopped afterwards. */
function test(
  name: string,
  run: (
    store: ClockedStore,
    clock: Clock,
    open: (through: Store, id?: typeof RUNNER, slots?: number) => ClockedRunner,
  ) => Promise<void>,
): void {
  Deno.test(name, async () => {
    const clock = new Clock();
    const store = withFreeJobs(await openClockedStore(":memory:", clock));
    const opened: ClockedRunner[] = [];
    try {
      await run(store, clock, (through, id = RUNNER, slots = 1) => {
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

const begun = ({ tasks }: ClockedRunner, name?: string) =>
  until(
    `task ${name ?? "any"}`,
    () => tasks.find(({ run }) => name === undefined || run.taskName === name),
  );

/** The same store, of which one call of a method is made and its answer lost. */
function losing(
  store: Store,
  method: "claim" | "recordTask",
  which: (args: unknown) => boolean,
): Store {
  let lost = false;
  const lossy = async <T>(args: unknown, call: () => Promise<T>): Promise<T> => {
    const answer = await call();
    if (lost || !which(args)) return answer;
    lost = true;
    throw new Error("The connection was lost after the commit");
  };
  const { jobs } = store;
  const methods: Partial<JobStore> = method === "claim"
    ? { claim: (life, limit) => lossy(limit, () => jobs.claim(life, limit)) }
    : { recordTask: (record) => lossy(record.entry?.name, () => jobs.recordTask(record)) };
  return { ...store, jobs: { ...jobs, ...methods } };
}

test(
  "a task's end whose answer was lost is recorded once, and the next task runs",
  async (store, _clock, open) => {
    const chain = ["a", "b", "c"].map((name) => taskOf(name));
    await create(store, jobOf(1, { workflow: workflowOf({ chain }) }));
    const mine = open(losing(store, "recordTask", (name) => name === "a"));
    await mine.runner.start();
    for (const name of ["a", "b", "c"]) {
      const task = await begun(mine, name);
      task.end(success(task));
    }
    await until("the job to end", async () => (await present(store)).execution === "succeeded");
    const { chain_results } = await present(store);
    assertEquals(chain_results.map(({ name }) => name), ["a", "b", "c"]);
  },
);

test(
  "a job whose claim lost its answer is run once, by the runner that claimed it",
  async (store, _clock, open) => {
    await create(store, jobOf(1));
    const mine = open(losing(store, "claim", (limit) => limit !== 0), RUNNER, 2);
    await mine.runner.start();
    const task = await begun(mine);
    assertEquals([task.uuid, task.run.job.attempt], [JOB, 1]);
    await create(store, jobOf(2));
    mine.runner.wake();
    await until("both jobs to run", () => mine.tasks.length === 2);
    assertEquals((await present(store)).lease, 1);
  },
);

test("an outage is tried again and again, and is one line of the log", async (store, clock) => {
  const lines: string[] = [];
  let failures = 0;
  let isAway = true;
  const claim: JobStore["claim"] = (...call) => {
    if (!isAway) return store.jobs.claim(...call);
    failures += 1;
    return Promise.reject(new Error("nobody answers"));
  };
  const away = { ...store, jobs: { ...store.jobs, claim } };
  const { runner } = openClockedRunner(away, clock, RUNNER, 3, (line) => lines.push(line));
  const said = () => lines.filter((line) => line.includes("jobs not claimed")).length;
  try {
    await runner.start();
    for (const outage of [1, 2]) {
      const before = failures;
      await until("some attempts", () => {
        runner.wake();
        return failures >= before + 3;
      });
      assertEquals(said(), outage);
      isAway = false;
      await create(store, jobOf(outage));
      await until("the job to be claimed", async () => {
        runner.wake();
        return (await present(store, uuidOf(outage))).execution === "running";
      });
      isAway = true;
    }
  } finally {
    await runner.stop(0);
  }
});

test(
  "successors keep target and requested params, even if a task changed the params",
  async (store, _clock, open) => {
    const workflow = workflowOf({ chain: [taskOf("set"), taskOf("again")] });
    await store.workflows.create(workflow, { max: NO_LIMIT });
    await create(store, jobOf(1, { workflow, target: "/t", params: { a: 1 } }));
    const mine = open(store);
    await mine.runner.start();
    const set = await begun(mine, "set");
    set.end({
      kind: "success",
      result: "OK",
      job: { ...set.run.job, params: { a: 1, seen: true } },
    });
    const again = await begun(mine, "again");
    assertEquals(again.run.job.params, { a: 1, seen: true });
    again.end({ kind: "signal", word: "retry", result: "", job: again.run.job });
    await until("the successor", async () => (await present(store)).execution === "retried");
    const { props } = await present(store);
    const successor = await present(store, props.next_attempt as JobUuid);
    assertEquals(successor.params, { a: 1 });
    const equal = await store.jobs.create(
      jobOf(2, { workflow, target: "/t", params: { a: 1 } }),
      NO_LIMIT,
    );
    assertEquals(equal, { kind: "duplicate", job_uuid: successor.uuid });
  },
);

test(
  "a host with a fast clock does not take jobs of one that has just renewed",
  async (store, _clock, open) => {
    await create(store, jobOf(1));
    const mine = open(store);
    await mine.runner.start();
    await begun(mine);
    const ahead = new Clock();
    ahead.pass(LEASE_MS + 1000);
    const other = openClockedRunner(store, ahead, OTHER_RUNNER);
    await other.runner.start();
    // It looks for what others left as soon as it begins, and for jobs after that.
    await create(store, jobOf(2));
    other.runner.wake();
    const task = await begun(other);
    assertEquals([task.uuid, (await present(store)).runner_id], [uuidOf<JobUuid>(2), RUNNER]);
    await other.runner.stop(0);
  },
);

test(
  "a runner that is woken and finds no job asks again after a while, not at full speed",
  async (store, _clock, open) => {
    let claims = 0;
    const taken = Promise.withResolvers<void>();
    const { jobs } = store;
    const claim: JobStore["claim"] = async (life, limit) => {
      if (limit === 0) return await jobs.claim(life, 0);
      claims += 1;
      if (claims === 1) taken.resolve();
      // The job is another host's.
      return { jobs: [], due: { kind: "ready" } };
    };
    await create(store, jobOf(1));
    const mine = open({ ...store, jobs: { ...jobs, claim } });
    await mine.runner.start();
    await taken.promise;
    for (let turn = 0; turn < 1000; turn++) await new Promise((resolve) => setImmediate(resolve));
    assert(claims < 5, `${claims} claims in 1000 turns of the event loop`);
  },
);

/** A store that is away while `cut` says so. */
function cutOff(store: Store, cut: () => boolean): Store {
  const { jobs } = store;
  const through = <T>(call: () => Promise<T>): Promise<T> =>
    cut() ? Promise.reject(new Error("The store is away")) : call();
  return {
    ...store,
    jobs: {
      ...jobs,
      begin: (...args) => through(() => jobs.begin(...args)),
      renew: (...args) => through(() => jobs.renew(...args)),
      rescue: (...args) => through(() => jobs.rescue(...args)),
      claim: (...args) => through(() => jobs.claim(...args)),
      recordTask: (record) => through(() => jobs.recordTask(record)),
    },
  };
}

test(
  "a runner that cannot reach a shared store ends its guest before another takes the job",
  async (store, clock, open) => {
    let cut = false;
    await create(store, jobOf(1));
    const mine = open(cutOff(store, () => cut));
    await mine.runner.start();
    await begun(mine);
    cut = true;
    clock.pass(LEASE_MS * 2 / 3);
    mine.runner.wake();
    await until("the guest to be ended", () => mine.tasks.length === 0);
    const other = open(store, OTHER_RUNNER);
    await other.runner.start();
    assertEquals((await present(store)).runner_id, RUNNER);
    clock.pass(LEASE_MS / 3);
    other.runner.wake();
    await begun(other);
    // The store is back, and its first runner finds that it has lost the job.
    cut = false;
    clock.pass(1000);
    mine.runner.wake();
    await until("the slot to be free", () => mine.runner.busy === 0);
    assertEquals([mine.tasks.length, other.tasks.length], [0, 1]);
  },
);

test(
  "a job that no other host took during an outage continues here, without another start",
  async (store, clock, open) => {
    let cut = false;
    await create(store, jobOf(1));
    const mine = open(cutOff(store, () => cut));
    await mine.runner.start();
    const first = await begun(mine);
    cut = true;
    clock.pass(LEASE_MS * 2 / 3);
    mine.runner.wake();
    await until("the guest to be ended", () => mine.tasks.length === 0);
    await until("the slot to be free", () => mine.runner.busy === 0);
    cut = false;
    mine.runner.wake();
    const again = await begun(mine);
    assert(again !== first);
    assertEquals([again.run.job.attempt, (await present(store)).starts], [1, 1]);
    again.end(success(again));
    await begun(mine, "second");
    assertEquals((await present(store)).chain_results.length, 1);
  },
);

test(
  "a job whose pending write succeeds after an outage continues here",
  async (store, clock, open) => {
    let cut = false;
    let unwritten = true;
    await create(store, jobOf(1));
    const recordTask: JobStore["recordTask"] = async (record) => {
      if (unwritten) throw new Error("The store is away for this write");
      return await store.jobs.recordTask(record);
    };
    const mine = open(cutOff({ ...store, jobs: { ...store.jobs, recordTask } }, () => cut));
    await mine.runner.start();
    const task = await begun(mine);
    cut = true;
    task.end(success(task));
    clock.pass(LEASE_MS * 2 / 3);
    mine.runner.wake();
    cut = false;
    const renewed = mine.renewals.length;
    await until("a renewal", () => {
      mine.runner.wake();
      return mine.renewals.length > renewed;
    });
    assertEquals(mine.runner.busy, 1);
    unwritten = false;
    await begun(mine, "second");
    assertEquals((await present(store)).chain_results.length, 1);
  },
);

Deno.test("an outage of a store of one host ends no task, however long it is", async () => {
  const clock = new Clock();
  const store = await openClockedStore(":memory:", clock);
  let cut = false;
  const mine = openClockedRunner(cutOff(store, () => cut), clock, RUNNER);
  await create(store, jobOf(1));
  await mine.runner.start();
  const task = await begun(mine);
  await until("the claim", async () => (await present(store)).execution === "running");
  cut = true;
  clock.pass(30 * LEASE_MS);
  mine.runner.wake();
  task.end(success(task));
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  assertEquals(await store.jobs.count({ execution: "running" }), 1);
  cut = false;
  await begun(mine, "second");
  assertEquals((await present(store)).chain_results.length, 1);
  await mine.runner.stop(0);
  await store.close();
});

test(
  "a cancel through another agent ends the guest with the next renewal",
  async (store, clock, open) => {
    for (const oncancel of [[], [taskOf("undo")]]) {
      const number = oncancel.length + 1;
      await create(store, jobOf(number, { workflow: workflowOf({ oncancel }) }));
      const mine = open(store);
      await mine.runner.start();
      await begun(mine);
      await store.jobs.cancel(uuidOf<JobUuid>(number));
      clock.pass(LEASE_MS / 3);
      mine.runner.wake();
      if (oncancel.length > 0) {
        const undo = await begun(mine, "undo");
        assertEquals(mine.tasks.length, 1);
        undo.end(success(undo));
      }
      await until("the slot to be free", () => mine.runner.busy === 0);
      assertEquals(mine.tasks, []);
      assertEquals((await present(store, uuidOf<JobUuid>(number))).execution, "canceled");
      await mine.runner.stop(0);
    }
  },
);

test(
  "a runner whose life was ended by another stops its guests, and claims nothing until it has begun again",
  async (store, clock, open) => {
    await create(store, jobOf(1));
    const mine = open(store);
    await mine.runner.start();
    await begun(mine);
    // The state folder was copied with the machine: the copy knows of this life.
    const copy = open(store);
    await copy.runner.start();
    const task = await begun(copy);
    assertEquals(task.run.job.attempt, 2);
    clock.pass(LEASE_MS / 3);
    mine.runner.wake();
    await until("its guest to be ended", () => mine.tasks.length === 0);
    await create(store, jobOf(2));
    mine.runner.wake();
    copy.runner.wake();
    await until("the first runner to wait", () => mine.runner.busy === 0);
    assertEquals(mine.tasks, []);
    assertEquals(await claimJobs(store, RUNNER, 1), []);
    assertEquals((await present(store)).runner_id, RUNNER);
    task.end(success(task));
    await begun(copy, "second");
  },
);
