// Time, abort and isolation: what ends a task, and that nothing of it reaches another one.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { selfOfRun } from "../support/agent_process.ts";
import { until } from "../support/until.ts";
import { findGuestTools } from "../../src/sandbox/guest_command.ts";
import { endless, meet, withPool } from "./bodies.ts";

const OK = "(job, cb) => cb()";
const LOOP = "() => { for (;;); }";

Deno.test("runTask() kills the guest of a task whose time is up", async () => {
  await withPool(async (run, pool) => {
    await run(OK);
    const before = pool.pids();
    assertEquals(await run(LOOP, { timeoutMs: 100 }), { kind: "timeout" });
    assertEquals(before.filter((pid) => !pool.pids().includes(pid)).length, 1);
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
      perform: (name, args, signal) => {
        seen.resolve(signal);
        return endless(name, args, signal);
      },
    });
    const callSignal = await seen.promise;
    assertEquals(callSignal.aborted, false);
    controller.abort();
    assertEquals(await outcome, { kind: "aborted" });
    assert(callSignal.aborted);
    assertEquals(before.filter((pid) => !pool.pids().includes(pid)).length, 1);
    assertEquals((await run(OK)).kind, "success");
  });
});

Deno.test("runTask() does not start a task that was given up before", async () => {
  await withPool(async (run) => {
    assertEquals(await run(OK, { signal: AbortSignal.abort() }), { kind: "aborted" });
  });
});

Deno.test("runTask() refuses a job that is too large, and says what makes it so", async () => {
  await withPool(async (run) => {
    const job = { uuid: "x", params: { text: "x".repeat(1_000_000) }, chain_results: [] };
    const chain_results = Array.from({ length: 9 }, () => ({ result: "x".repeat(1_000_000) }));
    const outcome = await run(OK, { job: { ...job, chain_results }, taskName: "prepare" });
    assertEquals(outcome, {
      kind: "failure",
      error: {
        name: "RangeError",
        message: 'Cannot run "prepare": its job has 10000177 characters of JSON (chain_results ' +
          "9000127, params 1000011, uuid 3), expected at most 8388608",
      },
      job: null,
    });
  });
});

Deno.test("runTask() runs a job with the largest params beside many large results", async () => {
  await withPool(async (run) => {
    // Three bytes a character, which is the most there is.
    const text = (length: number) => "\u20ac".repeat(length);
    const job = {
      params: { text: text(1_000_000) },
      chain_results: Array.from({ length: 6 }, () => ({ result: text(1_048_000) })),
    };
    const source = `(job, cb) => {
      job.more = job.params.text;
      cb(null, job.chain_results.reduce((sum, { result }) => sum + result.length, 0) +
        "\u20ac".repeat(1_000_000));
    }`;
    const outcome = await run(source, { job });
    assert(outcome.kind === "success");
    assertEquals(outcome.result, `6288000${text(1_000_000)}`);
    assertEquals(outcome.job, { params: job.params, more: text(1_000_000) });
  });
});

Deno.test("runTask() returns nothing of the job that only the engine sets", async () => {
  await withPool(async (run) => {
    const job = { uuid: "x", chain: [{ body: OK }], chain_results: [], params: {}, mark: 1 };
    const source = "(job, cb) => { job.uuid = 'y'; job.chain.push(1); cb(null, job.uuid) }";
    assertEquals(await run(source, { job }), {
      kind: "success",
      result: "y",
      job: { params: {}, mark: 1 },
    });
  });
});

Deno.test("runTask() fails a task that nests too deep, and keeps its guest", async () => {
  await withPool(async (run, pool) => {
    await meet(run);
    const before = pool.pids();
    const deep = "let deep = {}; for (let level = 0; level < 150; level++) deep = { deep };";
    const said = async (statements: string) => {
      const outcome = await run(`async (job, cb) => { ${deep} ${statements} }`);
      return [outcome.kind, "error" in outcome ? outcome.error : outcome];
    };
    const reported = (noun: string) => [
      "failure",
      {
        name: "RangeError",
        message: `Cannot record the ${noun}: it is nested deeper than 100 levels`,
      },
    ];
    assertEquals(await said("cb(null, deep)"), reported("result"));
    assertEquals(await said("job.deep = deep; cb()"), reported("job"));
    assertEquals(await said("cb({statusCode: 500, deep})"), reported("error"));
    assertEquals(await said("await vmadm.get(deep)"), [
      "failure",
      {
        name: "Error",
        message: "Cannot call vmadm.get: one of its arguments is nested deeper than 100 levels " +
          '(task "prepare", line 1)',
      },
    ]);
    assertEquals(
      (await run(`(job, cb) => { ${deep} log.info("x", {deep}); cb() }`)).kind,
      "success",
    );
    assertEquals(pool.pids(), before);
  });
});

Deno.test("runTask() says that a task ran out of memory", async () => {
  await withPool(async (run) => {
    const source = "() => { const a = []; for (;;) a.push(new Array(1000).fill(1.5)) }";
    const outcome = await run(source, { taskName: "hoard" });
    assert(outcome.kind === "failure");
    assertEquals(outcome.job, null);
    assertMatch(
      JSON.stringify(outcome.error),
      /OutOfMemory.*Task \\"hoard\\" was lost: its process .*memory/,
    );
    // The heap of Deno from source has a bound of its own; the binary's has that of its process.
    const limit = selfOfRun().compiled ? 256 : 128;
    assertStringIncludes(JSON.stringify(outcome.error), `(the limit is ${limit} MiB)`);
    assertEquals((await run(OK)).kind, "success");
  });
});

Deno.test("runTask() says that a task took too much memory outside its heap", async (t) => {
  const { missing } = await findGuestTools();
  await t.step({
    name: "a task whose buffers exceed the limit is ended",
    ignore: missing.includes("cat"),
    fn: () =>
      withPool(async (run) => {
        // Above both limits: that of the system, or where it sets none, that of the watch.
        const source = `async () => {
          const hoard = [];
          while (hoard.length < 300) hoard.push(new Uint8Array(1e6).fill(1));
          await sleep(1e9);
        }`;
        const outcome = await run(source, { taskName: "hoard" });
        assert(outcome.kind === "failure");
        assertMatch(
          JSON.stringify(outcome.error),
          missing.includes("prlimit")
            ? /OutOfMemory.*Task \\"hoard\\" was lost: its process took \d+ MiB of memory \(the limit is 320/
            // At the limit of the system either the buffer or V8's next page finds no room.
            : /Array buffer allocation failed \(task \\"hoard\\"|"OutOfMemory".*Task \\"hoard\\" was lost/,
        );
        assertEquals((await run(OK)).kind, "success");
      }),
  });
});

Deno.test("a task does not get the guest whose memory the last one has used up", async () => {
  await withPool(async (run, pool) => {
    await meet(run);
    const before = pool.pids();
    // Kept to the end, and within what the data segment holds and a watch would take longer to see.
    const source = `(job, cb) => {
      const hoard = [];
      while (hoard.length < 15) hoard.push(new Uint8Array(16e6).fill(1));
      cb(null, hoard.length);
    }`;
    assertEquals(await run(source), { kind: "success", result: 15, job: {} });
    assertEquals(before.filter((pid) => !pool.pids().includes(pid)).length, 1);
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
    assertEquals(before.filter((pid) => !pool.pids().includes(pid)), []);
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

Deno.test("a task that runs on after its callback keeps its outcome, and its guest is killed", async () => {
  await withPool(async (run, pool) => {
    await run(OK);
    const before = pool.pids();
    const outcome = await run(
      "(job, cb) => { cb(null, 'done'); (async () => { for (;;) await null })() }",
    );
    assertEquals(outcome, { kind: "success", result: "done", job: {} });
    await until("its end", () => before.some((pid) => !pool.pids().includes(pid)));
    assertEquals((await run(OK)).kind, "success");
  });
});

Deno.test("what a task does after its end reaches neither the agent nor the next task", async () => {
  await withPool(async (run, pool) => {
    await meet(run);
    const before = pool.pids();
    const calls: string[] = [];
    const perform = (name: string) => {
      calls.push(name);
      return Promise.resolve(null);
    };
    const late = `async (job, cb) => {
      const pending = new Promise((resolve) => { setTimeout(resolve, 5) });
      cb(null, "told");
      setTimeout(() => { info({}); cb("late") }, 0);
      pending.then(() => info({}));
      Promise.reject(new Error("nobody handles this"));
      for (let turn = 0; turn < 1000; turn++) await null;
      info({});
      log.warn("late");
      cb("late");
      Promise.reject(new Error("nor this"));
      throw new Error("nor this");
    }`;
    for (let round = 0; round < 10; round++) {
      const outcome = await run(late, { perform });
      assertEquals(outcome, { kind: "success", result: "told", job: {} });
      assertEquals(await run("async (job, cb) => { await sleep(8); cb(null, 2) }", { perform }), {
        kind: "success",
        result: 2,
        job: {},
      });
    }
    // What it still asked for is in the log of its job.
    assertEquals(calls.filter((name) => name !== "log.warn"), []);
    assertEquals(pool.pids(), before);
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
