// What a body says to its callback, and what becomes of it.

import { assertEquals } from "@std/assert";
import type { JsonValue } from "../../src/domain/json.ts";
import type { SignalWord } from "../../src/wall/protocol.ts";
import type { TaskOutcome } from "../../src/sandbox/run_task.ts";
import { withPool } from "./bodies.ts";

interface Case {
  readonly says: string;
  readonly body: string;
  readonly outcome: TaskOutcome;
}

const success = (result: JsonValue): TaskOutcome => ({ kind: "success", result, job: {} });
const failure = (error: JsonValue): TaskOutcome => ({ kind: "failure", error, job: {} });
const signal = (word: SignalWord, result: JsonValue): TaskOutcome => (
  { kind: "signal", word, result, job: {} }
);

const CASES: readonly Case[] = [
  { says: "cb() succeeds with OK", body: "cb()", outcome: success("OK") },
  { says: "cb(null) succeeds with OK", body: "cb(null)", outcome: success("OK") },
  { says: "cb('') succeeds", body: "cb('')", outcome: success("OK") },
  { says: "cb(0) succeeds", body: "cb(0)", outcome: success("OK") },
  { says: "cb(false) succeeds", body: "cb(false)", outcome: success("OK") },
  { says: "a result is kept", body: "cb(null, {a: [1]})", outcome: success({ a: [1] }) },
  { says: "a text is a result", body: "cb(null, 'done')", outcome: success("done") },
  { says: "the result 0 is kept", body: "cb(null, 0)", outcome: success(0) },
  { says: "the result '' is kept", body: "cb(null, '')", outcome: success("") },
  { says: "the result false is kept", body: "cb(null, false)", outcome: success(false) },
  { says: "the result null is kept", body: "cb(null, null)", outcome: success(null) },
  { says: "an undefined result becomes OK", body: "cb(null, undefined)", outcome: success("OK") },
  { says: "a function as result becomes OK", body: "cb(null, cb)", outcome: success("OK") },
  { says: "a text is the error", body: "cb('no disk')", outcome: failure("no disk") },
  { says: "a result beside an error is dropped", body: "cb('no', 1)", outcome: failure("no") },
  {
    says: "an Error keeps name and message",
    body: "cb(new TypeError('no disk'))",
    outcome: failure({ name: "TypeError", message: "no disk" }),
  },
  {
    says: "an object keeps name and message only",
    body: "cb({name: 'Disk', message: 'none', code: 7})",
    outcome: failure({ name: "Disk", message: "none" }),
  },
  {
    says: "an object without either is reported as JSON",
    body: "cb({code: 7})",
    outcome: failure({ name: "Error", message: '{"code":7}' }),
  },
  {
    says: "an object with a statusCode is kept whole",
    body: "cb({statusCode: 404, restCode: 'ResourceNotFound', body: {message: 'gone'}})",
    outcome: failure({ statusCode: 404, restCode: "ResourceNotFound", body: { message: "gone" } }),
  },
  {
    says: "an Error with a statusCode is kept whole, with its message",
    body: "cb(Object.assign(new Error('gone'), {statusCode: 404}))",
    outcome: failure({ name: "Error", message: "gone", statusCode: 404 }),
  },
  { says: "a number is an error in words", body: "cb(42)", outcome: failure("42") },
  { says: "true is an error in words", body: "cb(true)", outcome: failure("true") },
  { says: "a symbol is an error in words", body: "cb(Symbol('x'))", outcome: failure("Symbol(x)") },
  { says: "cb('queue') is a signal", body: "cb('queue')", outcome: signal("queue", "OK") },
  {
    says: "cb('wait') takes a result",
    body: "cb('wait', {at: 1})",
    outcome: signal("wait", { at: 1 }),
  },
  { says: "cb('retry') is a signal", body: "cb('retry')", outcome: signal("retry", "OK") },
  { says: "cb('cancel') is a signal", body: "cb('cancel')", outcome: signal("cancel", "OK") },
  { says: "cb('queued') is an error", body: "cb('queued')", outcome: failure("queued") },
  {
    says: "cb(new String('wait')) is an error",
    body: "cb(new String('wait'))",
    outcome: failure({ name: "Error", message: '"wait"' }),
  },
  {
    says: "the first of two callbacks counts",
    body: "cb(null, 1); cb('late')",
    outcome: success(1),
  },
  {
    says: "a throw after the callback changes nothing",
    body: "cb(null, 1); throw 2",
    outcome: success(1),
  },
];

Deno.test("runTask() gives each form of callback its outcome", async (t) => {
  await withPool(async (run) => {
    for (const { says, body, outcome } of CASES) {
      await t.step(says, async () => {
        assertEquals(await run(`function (job, cb) { ${body} }`), outcome);
      });
    }
  });
});

Deno.test("runTask() takes named, anonymous, arrow and async functions", async () => {
  const sources = [
    "function prepare(job, cb) { cb(null, 1) }",
    "function (job, cb) { cb(null, 1) }",
    "(job, cb) => cb(null, 1)",
    "async (job, cb) => { await null; cb(null, 1) }",
    "async function (job, cb) { cb(null, 1) } // a comment at the end",
    "  /* first */ (job, cb) => {\n cb(null, 1)\n}\n",
  ];
  await withPool(async (run) => {
    for (const source of sources) assertEquals(await run(source), success(1));
  });
});

Deno.test("runTask() runs a body in sloppy mode, with the global object as `this`", async () => {
  await withPool(async (run) => {
    const source = "function (job, cb) { undeclared = 1; cb(null, this === globalThis) }";
    assertEquals(await run(source), success(true));
  });
});

Deno.test("runTask() hands the error and the job to a fallback", async () => {
  await withPool(async (run) => {
    const outcome = await run("function (err, job, cb) { cb(null, [err.message, job.a]) }", {
      kind: "fallback",
      error: { name: "Error", message: "no disk" },
      job: { a: 1 },
    });
    assertEquals(outcome, { kind: "success", result: ["no disk", 1], job: { a: 1 } });
  });
});

Deno.test("runTask() returns the job as the task left it, failed or not", async () => {
  await withPool(async (run) => {
    const job = { params: { a: 1 }, log: "kept by no one" };
    const set = "job.params.b = 2; job.log.info('x'); job.mark = [1];";
    const left = { params: { a: 1, b: 2 }, mark: [1] };
    assertEquals(await run(`(job, cb) => { ${set} cb() }`, { job }), {
      kind: "success",
      result: "OK",
      job: left,
    });
    assertEquals(await run(`(job, cb) => { ${set} cb('no') }`, { job }), {
      kind: "failure",
      error: "no",
      job: left,
    });
  });
});
