import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { instantAfter, systemNow } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { GuestPool } from "../../src/sandbox/pool.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { until } from "../support/until.ts";
import { withPool, withRunner } from "./with_runner.ts";

const OK = "function (job, cb) { cb(); }";
const FAIL = "function (job, cb) { cb('no such disk'); }";
const NEVER = "function (job, cb) {}";

/** All that is said of the runner runs on one pool of guests, which is slow to start. */
const CASES: [name: string, run: (pool: GuestPool) => Promise<void>][] = [];
function test(name: string, run: (pool: GuestPool) => Promise<void>): void {
  CASES.push([name, run]);
}

const names = (entries: Job["chain_results"]) => entries.map(({ name }) => name);

test("a job runs its chain in order, hands on what tasks set, and succeeds", (pool) =>
  withRunner(pool, {}, async ({ post, finished, messages }) => {
    const uuid = await post({
      chain: [
        { name: "first", body: "function (job, cb) { job.seen = [job.params.a]; cb(null, 1); }" },
        { name: "second", body: "async (job, cb) => { job.params.b = job.seen[0] + 1; cb(); }" },
      ],
    }, { params: { a: 41 } });
    const job = await finished(uuid);
    assertEquals(job.execution, "succeeded");
    assertEquals(job.chain_results.map(({ result, error }) => [result, error]), [
      [1, ""],
      ["OK", ""],
    ]);
    assertEquals([job.params, job.props], [{ a: 41, b: 42 }, { seen: [41] }]);
    assertEquals(messages.filter((message) => message === "job finished").length, 1);
  }));

test("an empty chain succeeds at once", (pool) =>
  withRunner(pool, {}, async ({ post, finished }) => {
    const job = await finished(await post({}));
    assertEquals([job.execution, job.chain_results], ["succeeded", []]);
  }));

test("a failure ends the chain; onerror sees the error, and the job still fails", (pool) =>
  withRunner(pool, {}, async ({ post, finished }) => {
    const job = await finished(
      await post({
        chain: [{ name: "make", body: FAIL }, { name: "never", body: OK }],
        onerror: [{ name: "undo", body: "function (job, cb) { cb(null, 'undid ' + job.error); }" }],
      }),
    );
    assertEquals(job.execution, "failed");
    assertEquals(names(job.chain_results), ["make"]);
    assertEquals(job.chain_results[0]?.error, "no such disk");
    assertEquals(job.onerror_results[0]?.result, "undid no such disk");
  }));

test("retry: 2 runs a failing body three times, then its fallback with the last error", (pool) =>
  withRunner(pool, {}, async ({ post, finished }) => {
    const job = await finished(
      await post({
        chain: [{
          name: "stubborn",
          retry: 2,
          body: "function (job, cb) { job.runs = (job.runs || 0) + 1; cb('run ' + job.runs); }",
          fallback: "function (err, job, cb) { cb(null, err + ' of ' + job.runs); }",
        }],
      }),
    );
    assertEquals(job.execution, "succeeded");
    assertEquals([job.chain_results[0]?.attempts, job.chain_results[0]?.result], [3, "run 3 of 3"]);
  }));

test("for clients of node-workflow retry: 2 is two executions in all, and 0 is one", (pool) =>
  withRunner(pool, { retryCountsFirst: true }, async ({ post, finished }) => {
    for (const [retry, executions] of [[2, 2], [1, 1], [0, 1]]) {
      const job = await finished(
        await post({ chain: [{ name: "f", retry: retry ?? 0, body: FAIL }] }),
      );
      assertEquals(job.chain_results[0]?.attempts, executions);
    }
  }));

test("the workflow's timeout also ends the pause before another execution", (pool) =>
  withRunner(pool, {}, async ({ post, finished }) => {
    const job = await finished(
      await post({ timeout: 1, chain: [{ name: "f", retry: 1, retry_delay: 60, body: FAIL }] }),
    );
    assertEquals([job.execution, job.chain_results[0]?.error], ["failed", "workflow timeout"]);
  }));

test("a body that never answers ends at its own timeout, and the slot goes on", (pool) =>
  withRunner(pool, { slots: 1 }, async ({ post, finished }) => {
    const uuid = await post({ chain: [{ name: "deaf", timeout: 1, body: NEVER }] });
    const after = await post({ chain: [{ name: "next", body: OK }] });
    assertEquals((await finished(uuid)).chain_results[0]?.error, "task timeout error");
    assertEquals((await finished(after)).execution, "succeeded");
  }));

test("the workflow's timeout ends an endless loop, and onerror has a time of its own", (pool) =>
  withRunner(pool, {}, async ({ post, finished }) => {
    const job = await finished(
      await post({
        // The undo has as long, on a machine that does much besides.
        timeout: 4,
        chain: [{ name: "busy", body: "function (job, cb) { for (;;) {} }" }],
        onerror: [{ name: "undo", body: OK }],
      }),
    );
    assertEquals(job.execution, "failed");
    assertEquals(job.chain_results[0]?.error, "workflow timeout");
    assertEquals(job.onerror_results[0]?.result, "OK");
  }));

test("cb('wait') frees the slot; a resume goes on with the next task", (pool) =>
  withRunner(pool, { slots: 1 }, async ({ post, finished, jobWhen, store, runner }) => {
    const uuid = await post({
      chain: [
        { name: "order", body: "function (job, cb) { cb('wait', 'ordered'); }" },
        { name: "use", body: "function (job, cb) { cb(null, job.chain_results[0].result); }" },
      ],
    });
    const waiting = await jobWhen(uuid, "waiting", (job) => job.execution === "waiting");
    assertEquals(waiting.chain_results[0]?.result, "ordered");
    const other = await post({ chain: [{ name: "other", body: OK }] });
    assertEquals((await finished(other)).execution, "succeeded");
    await store.jobs.resume(uuid, { kind: "result", result: "delivered" });
    runner.wake();
    const job = await finished(uuid);
    assertEquals(job.chain_results.map(({ result }) => result), ["delivered", "delivered"]);
  }));

test("cb('queue') goes on with the next task later, without onerror", (pool) =>
  withRunner(pool, {}, async ({ post, finished }) => {
    const job = await finished(
      await post({
        chain: [
          { name: "again", body: "function (job, cb) { cb('queue'); }" },
          { name: "done", body: OK },
        ],
        onerror: [{ name: "undo", body: OK }],
      }),
    );
    assertEquals(job.execution, "succeeded");
    assertEquals(job.chain_results.map(({ error }) => error), ["queue", ""]);
    assertEquals(job.onerror_results, []);
  }));

test("cb('retry') ends the job as retried and makes another, up to max_attempts", (pool) =>
  withRunner(pool, {}, async ({ post, store, jobWhen }) => {
    const uuid = await post({
      max_attempts: 3,
      chain: [{ name: "again", body: "function (job, cb) { cb('retry'); }" }],
    });
    const first = await jobWhen(uuid, "retried", (job) => job.execution === "retried");
    const jobs = await until("three attempts", async () => {
      const jobs = (await store.jobs.list({})).map(({ job }) => job);
      return jobs.length === 3 && jobs.every((job) => job.execution === "retried") && jobs;
    });
    const [third, second] = jobs;
    assertEquals(first.props.next_attempt, second?.uuid ?? "");
    assertEquals(second?.props, {
      num_attempts: 1,
      prev_attempt: first.uuid,
      next_attempt: third?.uuid ?? "",
    });
    assertEquals(third?.props, {
      num_attempts: 2,
      prev_attempt: second?.uuid ?? "",
      next_attempt_refused: "attempt 3 was the last that max_attempts allows",
    });
  }));

test("cb('retry') of a job whose workflow was deleted makes no other, and says why", (pool) =>
  withRunner(pool, {}, async ({ post, store, jobWhen }) => {
    const uuid = await post({
      chain: [
        { name: "ask", body: "function (job, cb) { cb('wait'); }" },
        { name: "again", body: "function (job, cb) { cb('retry'); }" },
      ],
    });
    const { workflow_uuid } = await jobWhen(uuid, "waiting", (job) => job.execution === "waiting");
    await store.workflows.remove(workflow_uuid);
    await store.jobs.resume(uuid, { kind: "result", result: "OK" });
    const job = await jobWhen(uuid, "retried", (job) => job.execution === "retried");
    assertEquals(job.props, { next_attempt_refused: `workflow ${workflow_uuid} was deleted` });
    assertEquals((await store.jobs.list({})).length, 1);
  }));

test("a cancel kills the running task, and the oncancel chain follows on the same slot", (pool) =>
  withRunner(pool, { slots: 1 }, async ({ post, jobWhen, store, runner }) => {
    const uuid = await post({
      chain: [{ name: "busy", body: "function (job, cb) { for (;;) {} }" }],
      onerror: [{ name: "never", body: OK }],
      oncancel: [{ name: "undo", body: "function (job, cb) { cb(null, 'undone'); }" }],
    });
    await jobWhen(uuid, "running", (job) => job.execution === "running");
    assertEquals((await store.jobs.cancel(uuid)).kind, "changed");
    const job = await jobWhen(uuid, "undone", (job) => job.oncancel_results.length === 1);
    assertEquals(job.execution, "canceled");
    assertEquals([job.chain_results, job.onerror_results], [[], []]);
    assertEquals(job.oncancel_results[0]?.result, "undone");
    await until("slot to be free", () => runner.busy === 0);
  }));

test("cb('cancel') ends the job as canceled and runs oncancel, not onerror", (pool) =>
  withRunner(pool, {}, async ({ post, jobWhen }) => {
    const uuid = await post({
      chain: [{ name: "stop", body: "function (job, cb) { cb('cancel'); }" }],
      onerror: [{ name: "never", body: OK }],
      oncancel: [{ name: "undo", body: OK }],
    });
    const job = await jobWhen(uuid, "undone", (job) => job.oncancel_results.length === 1);
    assertEquals([job.execution, job.runner_id], ["canceled", null]);
    assertEquals(job.onerror_results, []);
  }));

test("a job is not run before its exec_after, and others go before it", (pool) =>
  withRunner(pool, { slots: 1 }, async ({ post, finished }) => {
    const exec_after = instantAfter(systemNow(), 5000);
    const later = await post({ chain: [{ name: "later", body: OK }] }, { exec_after });
    const now = await post({ chain: [{ name: "now", body: OK }] });
    const before = (await finished(now)).started_at ?? "";
    const started = (await finished(later)).started_at ?? "";
    assert(before !== "" && before < started, `${before} is not before ${started}`);
    assert(started >= exec_after, `${started} is before ${exec_after}`);
  }));

test("stop() gives running jobs back to the queue, their start not counted", (pool) =>
  withRunner(pool, {}, async ({ post, jobWhen, store, runner }) => {
    const uuid = await post({ chain: [{ name: "long", body: NEVER }] });
    await jobWhen(uuid, "running", (job) => job.execution === "running");
    await runner.stop(0);
    const job = await store.jobs.get(uuid);
    assertEquals([job?.execution, job?.starts, job?.runner_id], ["queued", 0, null]);
  }));

test("stop() lets the present task end, and the next one waits for the next start", (pool) =>
  withRunner(pool, {
    perform: async (_name, _args, signal) => {
      called = true;
      await until("the stop", () => stopping || signal.aborted);
      return null;
    },
  }, async ({ post, store, runner }) => {
    called = stopping = false;
    const uuid = await post({
      chain: [
        { name: "present", body: "async (job, cb) => { await vnc.wait('x'); cb(null, 'ended'); }" },
        { name: "next", body: OK },
      ],
    });
    await until("the task", () => called);
    const stopped = runner.stop(60_000);
    stopping = true;
    await stopped;
    const job = await store.jobs.get(uuid);
    assertEquals([job?.execution, names(job?.chain_results ?? [])], ["queued", ["present"]]);
  }));
let called = false;
let stopping = false;

test("an error in a body names the task and the line in it", (pool) =>
  withRunner(pool, {}, async ({ post, finished }) => {
    const body = "function (job, cb) {\n  var x = 1;\n  x.missing.field = 2;\n}";
    const job = await finished(await post({ chain: [{ name: "broken", body }] }));
    const error = JSON.stringify(job.chain_results[0]?.error);
    assertStringIncludes(error, "broken");
    assertStringIncludes(error, "3");
  }));

test("jobs of a backlog end even while many new ones are written", async (pool) => {
  const store = await openSqliteStore(":memory:");
  let asked = 0;
  const creating = () => {
    asked += 1;
    return 1_000;
  };
  const busy = { ...store, jobs: { ...store.jobs, creating } };
  try {
    await withRunner(pool, { store: busy }, async ({ post, finished }) => {
      const chain = [{ name: "only", body: OK }];
      const uuids = await Promise.all(Array.from({ length: 12 }, () => post({ chain })));
      for (const uuid of uuids) assertEquals((await finished(uuid)).execution, "succeeded");
    });
  } finally {
    await store.close();
  }
  assert(asked > 0);
});

Deno.test("the runner claims due jobs and carries them to their end", async (t) => {
  await withPool(async (pool) => {
    for (const [name, run] of CASES) await t.step(name, () => run(pool));
  });
});
