// Capability calls and log lines: what reaches the agent, and what a task gets back.

import { assert, assertEquals } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { CAPABILITIES } from "../../src/wall/protocol.ts";
import type { Perform } from "../../src/sandbox/task_calls.ts";
import { endless, withPool } from "./bodies.ts";

interface Call {
  readonly name: string;
  readonly args: readonly unknown[];
}

/** Keeps the calls it is asked to perform. */
function recorder(answer: Perform = () => Promise.resolve(null)): {
  calls: Call[];
  perform: Perform;
} {
  const calls: Call[] = [];
  return {
    calls,
    perform: (name, args, signal) => {
      calls.push({ name, args });
      return answer(name, args, signal);
    },
  };
}

Deno.test("a task reaches every capability by its name", async () => {
  await withPool(async (run) => {
    const names = CAPABILITIES.filter((name) => !name.startsWith("log."));
    const { calls, perform } = recorder();
    const source = `async (job, cb) => { ${
      names.map((name) => `await ${name}("${name}", {a: 1});`).join(" ")
    } cb() }`;
    assertEquals((await run(source, { perform })).kind, "success");
    assertEquals(calls, names.map((name) => ({ name, args: [name, { a: 1 }] })));
  });
});

Deno.test("a task gets the answer of a capability, or its refusal with the code", async () => {
  await withPool(async (run) => {
    const source = `async (job, cb) => {
      const machine = await vmadm.get("x");
      const refused = await vmadm.boot("x").catch((e) => [e.name, e.code, e.message]);
      const defect = await vmadm.stop("x").catch((e) => [e.code, e.message]);
      cb(null, { machine, refused, defect });
    }`;
    const perform: Perform = (name) => {
      if (name === "vmadm.get") return Promise.resolve({ state: "running" });
      if (name === "vmadm.boot") {
        return Promise.reject(new AgentError("conflict", "Cannot boot x: it is running"));
      }
      throw new Error("an inner matter");
    };
    const outcome = await run(source, { perform });
    assert(outcome.kind === "success");
    assertEquals(outcome.result, {
      machine: { state: "running" },
      refused: ["Error", "conflict", "Cannot boot x: it is running"],
      defect: ["internal", "Cannot perform vmadm.stop: an internal error"],
    });
  });
});

Deno.test("a refused call that a body does not handle fails the task", async () => {
  await withPool(async (run) => {
    const perform = () => Promise.reject(new AgentError("host", "Cannot list: vmadm failed"));
    assertEquals(await run("(job, cb) => { vmadm.list() }", { perform }), {
      kind: "failure",
      error: { name: "Error", message: 'Cannot list: vmadm failed (task "prepare", line 1)' },
      job: {},
    });
  });
});

Deno.test("an aborted task has ended when its calls have ended", async () => {
  await withPool(async (run) => {
    const [called, aborted, stopped] = [
      Promise.withResolvers<void>(),
      Promise.withResolvers<void>(),
      Promise.withResolvers<void>(),
    ];
    const perform: Perform = async (_name, _args, signal) => {
      signal.addEventListener("abort", () => aborted.resolve());
      called.resolve();
      await stopped.promise;
      return null;
    };
    const stop = new AbortController();
    const order: string[] = [];
    const running = run("(job, cb) => { vmadm.stop('x') }", { perform, signal: stop.signal });
    const ended = running.then(({ kind }) => order.push(kind));
    await called.promise;
    stop.abort();
    await aborted.promise;
    order.push("vmadm stopped");
    stopped.resolve();
    await ended;
    assertEquals(order, ["vmadm stopped", "aborted"]);
  });
});

Deno.test("calls under way are aborted when the task ends, and later ones refused", async () => {
  await withPool(async (run) => {
    const signals: AbortSignal[] = [];
    const { calls, perform } = recorder((name, args, signal) => {
      signals.push(signal);
      return endless(name, args, signal);
    });
    const source = "(job, cb) => { vmadm.list(); cb(); vmadm.stop('late') }";
    assertEquals((await run(source, { perform })).kind, "success");
    // The second one is only a line of the log.
    assertEquals(calls.map(({ name }) => name), ["vmadm.list", "log.warn"]);
    assertEquals(signals.map(({ aborted }) => aborted), [true, true]);
  });
});

Deno.test("info() is written even when the body does not wait for it", async () => {
  await withPool(async (run) => {
    const written: unknown[] = [];
    const perform: Perform = async (_name, [entry], signal) => {
      // Another task comes and goes on the second guest: by then the first one has ended.
      assertEquals((await run("(job, cb) => cb()")).kind, "success");
      signal.throwIfAborted();
      written.push(entry);
      return null;
    };
    assertEquals((await run("(job, cb) => { info({a: 1}); cb() }", { perform })).kind, "success");
    assertEquals(written, [{ a: 1 }]);
  }, { slots: 2 });
});

Deno.test("log, console and job.log reach the agent as levels, words and fields", async () => {
  await withPool(async (run) => {
    const { calls, perform } = recorder();
    const source = `(job, cb) => {
      log.debug("d"); log.info("i", {a: 1}); log.warn("w"); log.error("e", {b: [2]});
      console.log("%s is %d", "a", 1, {c: 3}); console.error(new TypeError("bad"));
      job.log.trace("t"); job.log.info({a: 1}, "got %s", "b"); job.log.fatal(new Error("x"), "f");
      job.log.child({part: "p"}).warn("w");
      cb(null, [typeof job.log.info(), log.info("p") instanceof Promise]);
    }`;
    const outcome = await run(source, { perform });
    assert(outcome.kind === "success");
    assertEquals(outcome.result, ["boolean", true]);
    assertEquals(calls, [
      { name: "log.debug", args: ["d", {}] },
      { name: "log.info", args: ["i", { a: 1 }] },
      { name: "log.warn", args: ["w", {}] },
      { name: "log.error", args: ["e", { b: [2] }] },
      { name: "log.info", args: ['a is 1 {"c":3}', {}] },
      { name: "log.error", args: ["TypeError: bad", {}] },
      { name: "log.debug", args: ["t", {}] },
      { name: "log.info", args: ["got b", { a: 1 }] },
      { name: "log.error", args: ["f", { error: "Error: x" }] },
      { name: "log.warn", args: ["w", { part: "p" }] },
      { name: "log.info", args: ["p", {}] },
    ]);
  });
});

Deno.test("a second callback and a late error are logged", async () => {
  await withPool(async (run) => {
    const { calls, perform } = recorder();
    await run("(job, cb) => { cb(); cb('again'); throw new Error('late') }", { perform });
    assertEquals(calls, [
      {
        name: "log.warn",
        args: ["The callback was called again: only the first call counts", {}],
      },
      {
        name: "log.warn",
        args: ["An error came after the callback", {
          error: { name: "Error", message: 'late (task "prepare", line 1)' },
        }],
      },
    ]);
  });
});

Deno.test("log lines above the limit are dropped, and the last one says so", async () => {
  await withPool(async (run) => {
    const { calls, perform } = recorder();
    await run("(job, cb) => { for (let i = 0; i < 5000; i++) console.log(i); cb() }", { perform });
    assertEquals(calls.length, 2000);
    assertEquals(calls.at(-1)?.args[0], "Further log lines are dropped: 2000 were written");
  });
});

Deno.test("a log line that cannot be written does not fail its task", async () => {
  await withPool(async (run) => {
    const perform = () => Promise.reject(new Error("the disk is full"));
    const source = "(job, cb) => { const a = {}; a.a = a; log.info('x', a); cb() }";
    assertEquals((await run(source, { perform })).kind, "success");
  });
});

Deno.test("an answer that is too large is an error of the call", async () => {
  await withPool(async (run) => {
    const perform = () => Promise.resolve("x".repeat(5_000_000));
    const source = "(job, cb) => { vmadm.list().catch((e) => cb(null, e.code)) }";
    const outcome = await run(source, { perform });
    assert(outcome.kind === "success");
    assertEquals(outcome.result, "too_large");
  });
});

Deno.test("setTimeout() passes arguments, clearTimeout() stops, sleep() waits", async () => {
  await withPool(async (run) => {
    const source = `async (job, cb) => {
      const fired = [];
      const stopped = setTimeout(() => fired.push("stopped"), 1);
      clearTimeout(stopped);
      clearTimeout(undefined);
      setTimeout((...args) => fired.push(args), 1, "a", 2);
      await sleep(30);
      await sleep();
      cb(null, fired);
    }`;
    assertEquals(await run(source), { kind: "success", result: [["a", 2]], job: {} });
  });
});
