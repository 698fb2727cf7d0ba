// How errors of a body are reported: with the task's name and the line that its author counts.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { TaskOutcome } from "../../src/sandbox/run_task.ts";
import { withPool } from "./bodies.ts";

function messageOf(outcome: TaskOutcome): string {
  if (outcome.kind !== "failure") throw new Error(`Expected a failure: ${JSON.stringify(outcome)}`);
  const { error } = outcome;
  if (typeof error === "string") return error;
  return error !== null && typeof error === "object" && "message" in error
    ? String(error.message)
    : JSON.stringify(error);
}

Deno.test("runTask() shows the line of an error as the author counts", async (t) => {
  const cases: Record<string, string> = {
    "a throw in the first line": "(job, cb) => { throw new Error('x') }@1",
    "a throw in the third line": "function (job, cb) {\n\n  null.x;\n}@3",
    "a throw in a function of the body":
      "(job, cb) => {\n  const f = () => {\n    job.a.b;\n  };\n  f();\n}@3",
    "a rejection of an async body": "async (job, cb) => {\n await null;\n null.x;\n}@3",
    "a rejection that nobody handles":
      "(job, cb) => {\n (async () => {\n  await null;\n  null.x;\n })();\n}@4",
    "a throw in a timer": "(job, cb) => {\n setTimeout(() => {\n  null.x;\n }, 1);\n}@3",
    "a throw after sleep()": "async (job, cb) => {\n await sleep(1);\n null.x;\n}@3",
    "a capability that refuses": "async (job, cb) => {\n\n\n await vmadm.get('x');\n}@4",
  };
  await withPool(async (run) => {
    const perform = () => Promise.reject(new Error("not shown to tasks"));
    for (const [name, text] of Object.entries(cases)) {
      await t.step(name, async () => {
        const [source = "", line] = text.split("@");
        const message = messageOf(await run(source, { perform, taskName: "set up / disks" }));
        assertStringIncludes(message, `(task "set up / disks", line ${line})`);
      });
    }
  });
});

Deno.test("runTask() repeats a bounded part of the name of a task in its errors", async () => {
  await withPool(async (run) => {
    const taskName = "n".repeat(1_000_000);
    const outcome = await run("() => { throw new Error('x') }", { taskName });
    assert(outcome.kind === "failure");
    const message = `x (task "${"n".repeat(255)}", line 1)`;
    assertEquals(outcome.error, { name: "Error", message });
  });
});

Deno.test("runTask() keeps the name of a thrown error", async () => {
  await withPool(async (run) => {
    assertEquals(await run("(job, cb) => { throw new RangeError('far') }"), {
      kind: "failure",
      error: { name: "RangeError", message: 'far (task "prepare", line 1)' },
      job: {},
    });
  });
});

Deno.test("runTask() reports a thrown value that is no Error", async () => {
  await withPool(async (run) => {
    assertEquals(messageOf(await run("() => { throw 'a text' }")), 'a text (task "prepare")');
    assertEquals(messageOf(await run("() => { throw null }")), 'null (task "prepare")');
    assertEquals(messageOf(await run("() => { throw {a: 1} }")), '{"a":1} (task "prepare")');
    const hostile = "() => { throw new Proxy({}, { get() { throw 1 }, has() { throw 2 } }) }";
    assertStringIncludes(messageOf(await run(hostile)), "cannot be read");
  });
});

Deno.test("runTask() fails a task whose result or job is no JSON", async () => {
  await withPool(async (run) => {
    const said = async (statements: string) => messageOf(await run(`(job, cb) => {${statements}}`));
    assertStringIncludes(
      await said("cb(null, 1n)"),
      "Cannot record the result: it holds a BigInt, expected",
    );
    assertStringIncludes(
      await said("const a = {}; a.a = a; cb(null, a)"),
      "result: it holds itself",
    );
    assertStringIncludes(
      await said("job.job = job; cb()"),
      "Cannot record the job: it holds itself, expected",
    );
    assertStringIncludes(await said("job.toJSON = () => 1; cb()"), "it is not an object");
    const refused = await run("async (job, cb) => { await info({ at: 1n }); cb(); }");
    assertStringIncludes(
      messageOf(refused),
      "Cannot call info with these arguments: it holds a BigInt, expected a number or a text",
    );
    assertStringIncludes(await said("cb(null, 'x'.repeat(2e6))"), "over 1048576 characters");
    assertStringIncludes(await said("cb(null, 'x'.repeat(1e8))"), "over 1048576 characters");
    assertStringIncludes(await said("job.a = 'x'.repeat(5e6); cb()"), "over 4194304 characters");
    assertEquals(await run("(job, cb) => { job.job = job; cb('no disk') }"), {
      kind: "failure",
      error: "no disk",
      job: null,
    });
  });
});

Deno.test("runTask() refuses a source that is not one function, and names why", async () => {
  await withPool(async (run) => {
    const said = async (source: string) => messageOf(await run(source));
    assertStringIncludes(await said("1 + 1"), "is not a function definition");
    assertStringIncludes(
      await said("() => {}), (globalThis.x = 1"),
      "is not a function definition",
    );
    assertStringIncludes(await said("function (job, cb) { a b }"), "is not a function definition");
    assertStringIncludes(
      await said("(job, cb) => {\n  import('node:fs');\n}"),
      "in line 2, column 3",
    );
  });
});

Deno.test("a stack shows the frames of the task and nothing of what runs it", async (t) => {
  const at = (...places: string[]) =>
    places.map((place) => `\n    at ${place.replace("@", "task://[prepare]")}`).join("");
  const cases: Record<string, [string, string]> = {
    "of an error that is made": [
      "function body(job, cb) {\n  const e = () => new Error('x');\n  cb(null, e().stack);\n}",
      `Error: x${at("e (@:2:19)", "body (@:3:12)")}`,
    ],
    "of an error of the language": [
      "(job, cb) => {\n  try { null.x } catch (e) { cb(null, e.stack) }\n}",
      `TypeError: Cannot read properties of null (reading 'x')${at("@:2:14")}`,
    ],
    "after a wait": [
      "async (job, cb) => {\n  const e = async () => { await sleep(1); return new Error('x') };\n" +
      "  cb(null, (await e()).stack);\n}",
      `Error: x${at("e (@:2:50)", "async @:3:13")}`,
    ],
    "in a timer": [
      "(job, cb) => {\n  setTimeout(() => cb(null, new Error('x').stack), 1);\n}",
      `Error: x${at("@:2:29")}`,
    ],
    "of a refusal by the globals": [
      "(job, cb) => {\n  try { setTimeout('x') } catch (e) { cb(null, e.stack) }\n}",
      `TypeError: setTimeout() takes a function${at("@:2:9")}`,
    ],
    "of a refusal by the agent": [
      "async (job, cb) => {\n  await vmadm.get('x').catch((e) => cb(null, e.stack));\n}",
      `Error: Cannot perform vmadm.get: an internal error${at("@:2:15")}`,
    ],
    "of a trace that is captured": [
      "(job, cb) => {\n  const o = { toString: () => 'o' };\n  Error.captureStackTrace(o);\n" +
      "  cb(null, o.stack);\n}",
      `o${at("@:3:9")}`,
    ],
  };
  await withPool(async (run) => {
    const perform = () => Promise.reject(new Error("not shown to tasks"));
    for (const [name, [source, result]] of Object.entries(cases)) {
      await t.step(name, async () => {
        assertEquals(await run(source, { perform }), { kind: "success", result, job: {} });
      });
    }
  });
});

Deno.test("runTask() fails an async body that returns while nothing can call its cb", async () => {
  await withPool(async (run) => {
    const said = async (source: string) => messageOf(await run(source));
    const returned = 'Task "prepare" returned without calling cb, and nothing of it is pending';
    assertEquals(await said("async () => {}"), returned);
    assertEquals(await said("async () => { await sleep(1); await vmadm.list() }"), returned);
    assertEquals(await said("async () => { setTimeout(() => {}, 5) }"), returned);
  });
});

Deno.test("runTask() waits for a callback that an async body has left to a timer", async () => {
  await withPool(async (run) => {
    const source = "async (job, cb) => { setTimeout(() => cb(null, 'later'), 5) }";
    assertEquals(await run(source), { kind: "success", result: "later", job: {} });
  });
});
