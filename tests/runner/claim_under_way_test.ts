// Jobs that begin before their claims are written: what they may do until then, and what becomes of
// them when the claim is refused.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JobStore } from "../../src/store/job_store.ts";
import type { Store } from "../../src/store/store.ts";
import { type ClockedStore, lifeOf, openClockedStore } from "../support/clocked_store.ts";
import { jobOf, RUNNER, taskOf, workflowOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { create, holdOf, JOB, present } from "../store/store_case.ts";
import {
  Clock,
  type ClockedRunner,
  openClockedRunner,
  type OpenTask,
  success,
} from "./clocked_runner.ts";
import { withPool, withRunner } from "./with_runner.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";

/** A job of one task. */
const ONE = jobOf(1, { workflow: workflowOf({ chain: [taskOf("only")] }) });
/** Another, whose claim is the first one of a life. */
const FIRST = jobOf(2, { workflow: workflowOf({ chain: [taskOf("first")] }) });

/** A store that writes no claim before it is let. */
function withheld(store: Store): { store: Store; let: () => void; fail: (error: Error) => void } {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  promise.catch(() => {});
  let failed = false;
  const hold: JobStore["hold"] = async (life, jobs) => {
    if (!failed) {
      await promise.catch((error) => {
        failed = true;
        throw error;
      });
    }
    return await store.jobs.hold(life, jobs);
  };
  return { store: { ...store, jobs: { ...store.jobs, hold } }, let: resolve, fail: reject };
}

/** Runs a test with a runner of two slots whose claims are withheld. */
function test(
  name: string,
  run: (
    store: ClockedStore,
    runner: ClockedRunner,
    claims: ReturnType<typeof withheld>,
    lines: string[],
    clock: Clock,
  ) => Promise<void>,
): void {
  Deno.test(name, async () => {
    const clock = new Clock();
    const store = await openClockedStore(":memory:", clock);
    const claims = withheld(store);
    const lines: string[] = [];
    const runner = openClockedRunner(claims.store, clock, RUNNER, 2, (line) => lines.push(line));
    try {
      await run(store, runner, claims, lines, clock);
    } finally {
      claims.let();
      await runner.runner.stop(0);
      await store.close();
    }
  });
}

const begun = ({ tasks }: ClockedRunner) => until("a task", () => tasks[0]);

/** Starts a runner and has it run a job: the first claim of a life is written before its job begins. */
async function started(store: Store, mine: ClockedRunner): Promise<void> {
  await create(store, FIRST);
  await mine.runner.start();
  const task = await begun(mine);
  task.end(success(task));
  await until("the first job to end", () => mine.runner.busy === 0);
}

/** Creates the job of one task under a runner that has begun. */
async function postTo(mine: ClockedRunner, store: Store): Promise<void> {
  await create(store, ONE);
  mine.runner.wake();
}

test(
  "a body begins while its job is still queued for everybody, and may act once the claim is written",
  async (store, mine, claims) => {
    await started(store, mine);
    await postTo(mine, store);
    const task = await begun(mine);
    const queued = await present(store);
    assertEquals([queued.execution, queued.starts, task.run.job.attempt], ["queued", 0, 1]);
    let may = false;
    const acting = task.run.mayAct?.().then(() => may = true);
    assertEquals((await store.jobs.stats()).current.queued, 1);
    assert(!may);
    claims.let();
    await acting;
    assertEquals((await present(store)).execution, "running");
    task.end(success(task));
    await until("the job to end", async () => (await present(store)).execution === "succeeded");
  },
);

test(
  "a job that was canceled before its claim ends at once, and has done nothing",
  async (store, mine, claims) => {
    await started(store, mine);
    await postTo(mine, store);
    const task = await begun(mine);
    const acting = assertRejects(() => task.run.mayAct?.() ?? Promise.resolve(), AgentError);
    assertEquals((await store.jobs.cancel(JOB)).kind, "changed");
    await until("the task to end", () => mine.tasks.length === 0);
    claims.let();
    await acting;
    await until("the slot to be free", () => mine.runner.busy === 0);
    const { execution, starts, started_at } = await present(store);
    assertEquals([execution, starts, started_at], ["canceled", 0, null]);
  },
);

test(
  "when a claim cannot be written, the body is stopped, the job stays queued, and starts again",
  async (store, mine, claims, lines, clock) => {
    await started(store, mine);
    await postTo(mine, store);
    const first = await begun(mine);
    claims.fail(new Error("The disk is full"));
    await until("the refusal", () => lines.some((line) => line.includes("jobs not claimed")));
    await until("the first task to end", () => mine.tasks.length === 0);
    clock.pass(1_000);
    mine.runner.wake();
    const second = await until("another task", () => mine.tasks.find((task) => task !== first));
    assertEquals(second.run.job.attempt, 1);
    second.end(success(second));
    await until("the job to end", async () => (await present(store)).execution === "succeeded");
    assertEquals((await present(store)).lease, 1);
  },
);

test(
  "a job for which no guest starts is queued again as if it had not started, and claimed a second later",
  async (store, mine, claims, lines, clock) => {
    await started(store, mine);
    await postTo(mine, store);
    const first = await begun(mine);
    clock.pass(30_000);
    first.end({ kind: "not_started", why: "Cannot start a guest" });
    await until("the line", () => lines.some((line) => line.includes("task not started")));
    claims.let();
    await until("the slot to be free", () => mine.runner.busy === 0);
    const { execution, starts, elapsed_ms, runner_id } = await present(store);
    assertEquals([execution, starts, elapsed_ms, runner_id], ["queued", 0, 0, null]);
    clock.pass(999);
    mine.runner.wake();
    await store.jobs.stats();
    assertEquals(mine.tasks, []);
    clock.pass(1);
    mine.runner.wake();
    const second = await begun(mine);
    assertEquals(second.run.job.attempt, 1);
    second.end(success(second));
    await until("the job to end", async () => (await present(store)).execution === "succeeded");
  },
);

test(
  "a fallback for which no guest starts waits for one, and its body is not run again",
  async (store, mine) => {
    const chain = [{ ...taskOf("only"), fallback: "a fallback" }];
    await create(store, jobOf(1, { workflow: workflowOf({ chain }) }));
    await mine.runner.start();
    const body = await begun(mine);
    body.end({ kind: "failure", error: "no", job: body.run.job });
    const denied = await until("the fallback", () => mine.tasks.find((task) => task !== body));
    denied.end({ kind: "not_started", why: "Cannot start a guest" });
    const fallback = await until("another try", () => mine.tasks.find((task) => task !== denied));
    assertEquals([denied.run.kind, fallback.run.kind], ["fallback", "fallback"]);
    fallback.end(success(fallback));
    await until("the job to end", async () => (await present(store)).execution === "succeeded");
    assertEquals((await present(store)).chain_results[0]?.attempts, 1);
  },
);

test(
  "a task that was interrupted before does not begin until its claim is written",
  async (store, mine, claims, _lines, clock) => {
    await create(store, FIRST);
    await mine.runner.start();
    const first = await begun(mine);
    // Nothing wakes the runner when the job is due: it learns of the job when that has broken off.
    await create(store, { ...ONE, exec_after: instantAfter(clock.now, 1_000) });
    clock.pass(1_000);
    const { jobs: [before] } = await store.jobs.claim(lifeOf(RUNNER, 2), 1);
    assert(before !== undefined);
    await store.jobs.abandon(holdOf(before));
    mine.runner.wake();
    await until("the job to be taken", () => mine.runner.busy === 2);
    for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve));
    assertEquals(mine.tasks, [first]);
    claims.let();
    const task = await until("another task", () => mine.tasks.find((task) => task !== first));
    assertEquals([task.run.job.attempt, (await present(store)).starts], [2, 2]);
    task.end(success(task));
  },
);

test(
  "the first job of a life is written as running before its body begins, so that a crash counts as a start",
  async (store, mine) => {
    await create(store, ONE);
    await mine.runner.start();
    const task = await begun(mine);
    const { execution, starts } = await present(store);
    assertEquals([execution, starts, task.run.mayAct], ["running", 1, undefined]);
  },
);

test(
  "a runner that stops releases the jobs that it has begun, and counts no start",
  async (store, mine, claims) => {
    await started(store, mine);
    await postTo(mine, store);
    await begun(mine);
    const stopped = mine.runner.stop(0);
    claims.let();
    await stopped;
    const { execution, starts, runner_id } = await present(store);
    assertEquals([execution, starts, runner_id], ["queued", 0, null]);
    assertEquals((await store.jobs.claim(lifeOf(RUNNER, 2), 0)).due, { kind: "ready" });
  },
);

Deno.test("a result that was refused together with its claim is not written under the next claim", async () => {
  const clock = new Clock();
  const store = await openClockedStore(":memory:", clock);
  const claims = withheld(store);
  const lines: string[] = [];
  let [full, went] = [false, 0];
  const jobs: JobStore = {
    ...claims.store.jobs,
    async recordTask(record, patient) {
      if (full) throw new Error("The disk is full");
      went += 1;
      return await store.jobs.recordTask(record, patient);
    },
    get(uuid) {
      went += 1;
      return store.jobs.get(uuid);
    },
  };
  const mine = openClockedRunner(
    { ...claims.store, jobs },
    clock,
    RUNNER,
    2,
    (line) => lines.push(line),
  );
  const logged = (words: string) => until(words, () => lines.some((line) => line.includes(words)));
  const ends = (task: OpenTask, result: string) =>
    task.end({ kind: "success", result, job: task.run.job });
  try {
    await started(store, mine);
    [full, went] = [true, 0];
    await postTo(mine, store);
    ends(await begun(mine), "of the first claim");
    await logged("task result not written");
    claims.fail(new Error("The disk is full"));
    await logged("jobs not claimed");
    clock.pass(1_000);
    mine.runner.wake();
    const second = await begun(mine);
    await until("the claim", async () => (await present(store)).execution === "running");
    full = false;
    await until("the first run to go on", () => went > 0);
    ends(second, "of the second claim");
    await until("the job to end", async () => (await present(store)).execution === "succeeded");
    assertEquals((await present(store)).chain_results[0]?.result, "of the second claim");
  } finally {
    await mine.runner.stop(0);
    await store.close();
  }
});

Deno.test("while claims are refused no guest is started", async () => {
  const clock = new Clock();
  const store = await openClockedStore(":memory:", clock);
  let full = false;
  let [refusals, begins] = [0, 0];
  const refuse = () => {
    refusals += 1;
    return Promise.reject(new Error("The disk is full"));
  };
  const jobs: JobStore = {
    ...store.jobs,
    async ready(life, limit, passedOver) {
      const found = await store.jobs.ready(life, limit, passedOver);
      begins += found.jobs.length;
      return found;
    },
    hold: (life, begun) => full ? refuse() : store.jobs.hold(life, begun),
    claim: (life, limit) => full && limit > 0 ? refuse() : store.jobs.claim(life, limit),
  };
  const mine = openClockedRunner({ ...store, jobs }, clock, RUNNER);
  try {
    await started(store, mine);
    [full, begins] = [true, 0];
    await postTo(mine, store);
    await until("the first task", () => refusals === 1 && mine.runner.busy === 0);
    for (let tried = 1; tried < 4; tried++) {
      clock.pass(1_000);
      mine.runner.wake();
      await until("another attempt", () => refusals > tried);
      assertEquals(begins, 1);
    }
    full = false;
    mine.runner.wake();
    const task = await begun(mine);
    assertEquals([task.run.job.attempt, (await present(store)).starts], [1, 1]);
    task.end(success(task));
  } finally {
    await mine.runner.stop(0);
    await store.close();
  }
});

Deno.test("in a guest: calls of capabilities and log lines wait for the claim, the body does not", async () => {
  const inner = await openSqliteStore(":memory:");
  const claims = withheld(inner);
  const performed: string[] = [];
  try {
    await withPool((pool) =>
      withRunner(pool, {
        store: claims.store,
        perform: (name) => {
          performed.push(name);
          return Promise.resolve(null);
        },
      }, async ({ post, jobWhen, finished }) => {
        const chain = [{ name: "plain", body: "(job, cb) => cb()" }];
        await finished(await post({ chain }));
        const body = "(job, cb) => { log.info('x'); info({ a: 1 }).then(() => cb(null, 'done')); }";
        const uuid = await post({ chain: [{ name: "acts", body }] });
        const plain = await post({ chain });
        await jobWhen(plain, "queued", ({ execution }) => execution === "queued");
        assertEquals(performed, []);
        claims.let();
        assertEquals((await finished(uuid)).chain_results[0]?.result, "done");
        assertEquals(performed.toSorted(), ["info", "log.info"]);
        await finished(plain);
      })
    );
  } finally {
    await inner.close();
  }
});

Deno.test("a runner that is stopped while new jobs go first starts no more jobs", async () => {
  const clock = new Clock();
  const store = await openClockedStore(":memory:", clock);
  for (const job of [FIRST, ONE]) await create(store, job);
  let ended = false;
  let stopped: Promise<void> | undefined;
  let claims = 0;
  const counted = <Args extends unknown[], T>(call: (...args: Args) => T) => (...args: Args) => {
    if (stopped !== undefined) claims += 1;
    return call(...args);
  };
  const { claim, ready } = store.jobs;
  const creating = () => {
    if (ended) stopped ??= mine.runner.stop(0);
    return ended ? Number.MAX_SAFE_INTEGER : 0;
  };
  const jobs = { ...store.jobs, claim: counted(claim), ready: counted(ready), creating };
  const mine = openClockedRunner({ ...store, jobs }, clock, RUNNER);
  await mine.runner.start();
  const task = await begun(mine);
  ended = true;
  task.end(success(task));
  await until("the stop", () => stopped !== undefined);
  await stopped;
  assertEquals(claims, 0);
  await store.close();
});
