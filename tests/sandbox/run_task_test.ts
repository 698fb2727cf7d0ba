// Time, abort and isolation: what ends a task, and that nothing of it reaches another one.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { until } from "../support/until.ts";
import { meet, withPool } from "./bodies.ts";

const OK = "(job, cb) => cb()";
const LOOP = "() => { for (;;); }";

Deno.test("runTask() kills the guest of a task whose time is up", async () => {
  await withPool(async (run, pool) => {
    await run(OK);
    const before = pool.pids();
    assertEquals(await run(LOOP, { timeoutMs: 100 }), { kind: "timeout" });
    assertEquals(pool.pids().filter((pid) => !before.includes(pid)).length, 1);
    assertEquals((await run(OK)).kind, "success");
  });
});

Deno.test("runTask() lets a body that never calls back wait for its timeout", async () => {
  await withPool(async (run) => {
    assertEquals(await run("function (job, cb) {}", { timeoutMs: 100 }), { kind: "timeout" });
    assertEquals(await run("() => new Promise(() => {})", { timeoutMs: 100 }), { kind: "timeout" });
  });
});

Deno.test("runTask() takes a timeout that is longer than timers are", async () => {
  await withPool(async (run) => {
    assertEquals((await run(OK, { timeoutMs: 2 ** 40 })).kind, "success");
  });
});

Deno.test("runTask() answers an abort before the guest would have ended", async () => {
  await withPool(async (run, pool) => {
    await run(OK);
    const before = pool.pids();
    const controller = new AbortController();
    const seen = Promise.withResolvers<AbortSignal>();
    const outcome = run("async (job, cb) => { await vmadm.list(); cb() }", {
      signal: controller.signal,
      perform: (_name, _args, signal) => {
        seen.resolve(signal);
        return new Promise(() => {});
      },
    });
    const callSignal = await seen.promise;
    assertEquals(callSignal.aborted, false);
    controller.abort();
    assertEquals(await outcome, { kind: "aborted" });
    assert(callSignal.aborted);
    assertEquals(pool.pids().filter((pid) => !before.includes(pid)).length, 1);
    assertEquals((await run(OK)).kind, "success");
  });
});

Deno.test("runTask() does not start a task that was given up before", async () => {
  await withPool(async (run) => {
    assertEquals(await run(OK, { signal: AbortSignal.abort() }), { kind: "aborted" });
  });
});

Deno.test("runTask() refuses a job that is too large", async () => {
  await withPool(async (run) => {
    const outcome = await run(OK, { job: { text: "x".repeat(3_000_000) } });
    assert(outcome.kind === "failure");
    assertMatch(JSON.stringify(outcome.error), /its job is over 2097152 characters/);
  });
});

Deno.test("runTask() tells that a task ran out of memory", async () => {
  await withPool(async (run) => {
    const source = "() => { const a = []; for (;;) a.push(new Array(1000).fill(1.5)) }";
    const outcome = await run(source, { taskName: "hoard" });
    assert(outcome.kind === "failure");
    assertEquals(outcome.job, null);
    assertMatch(
      JSON.stringify(outcome.error),
      /OutOfMemory.*Task \\"hoard\\" was lost: its process .*memory.*the limit is 128 MiB/,
    );
    assertEquals((await run(OK)).kind, "success");
  });
});

Deno.test("a task does not see the globals of another", async () => {
  await withPool(async (run, pool) => {
    const leave = "(job, cb) => { leaked = 1; Object.prototype.leaked = 1; " +
      "Array.prototype.push = null; vmadm = null; cb() }";
    const look = "(job, cb) => cb(null, [typeof leaked, typeof [].push, typeof vmadm.get])";
    const before = pool.pids();
    for (let round = 0; round < 4; round++) {
      await run(leave);
      const outcome = await run(look);
      assert(outcome.kind === "success");
      assertEquals(outcome.result, ["undefined", "function", "function"]);
    }
    assertEquals(pool.pids(), before);
  });
});

Deno.test("the timers of a task end with it", async () => {
  await withPool(async (run, pool) => {
    const calls: string[] = [];
    const perform = (name: string) => {
      calls.push(name);
      return Promise.resolve(null);
    };
    await run("(job, cb) => { setTimeout(() => { info({}); log.info('x') }, 20); cb() }", {
      perform,
    });
    // Both guests sleep past the timer, so it would have fired in one of them.
    await Promise.all(
      pool.pids().map(() => run("async (job, cb) => { await sleep(60); cb() }", { perform })),
    );
    assertEquals(calls, []);
  });
});

Deno.test("a task that runs on after its callback loses its guest, not its outcome", async () => {
  await withPool(async (run, pool) => {
    await run(OK);
    const before = pool.pids();
    const outcome = await run(
      "(job, cb) => { cb(null, 'done'); (async () => { for (;;) await null })() }",
    );
    assertEquals(outcome, { kind: "success", result: "done", job: {} });
    await until("a new guest", () => pool.pids().some((pid) => !before.includes(pid)));
    assertEquals((await run(OK)).kind, "success");
  });
});

Deno.test("tasks run side by side in as many guests as there are", async () => {
  await withPool(async (run) => {
    const outcomes = await meet(run);
    assertEquals(outcomes.map(({ kind }) => kind), ["success", "success"]);
  });
});

Deno.test("a task that cannot get a guest waits for one", async () => {
  await withPool(async (run) => {
    const tasks = Array.from({ length: 12 }, () => run("async (job, cb) => cb(null, 1)"));
    for (const outcome of await Promise.all(tasks)) assertEquals(outcome.kind, "success");
  });
});
