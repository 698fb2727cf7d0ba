// Likely mistakes: what is warned of, and what must not be, since a list of false alarms is not read.

import { assertEquals } from "@std/assert";
import { mistakesOf } from "../../src/cli/workflow/mistakes.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { PROVISION_MACHINE } from "../../src/machines/workflows/provision_machine.ts";
import { workflowOf } from "../trial_run.ts";

/** The messages for a workflow of one task. */
function ofTask(task: JsonObject): string[] {
  return mistakesOf({ name: "x", chain: [{ body: "(job, cb) => cb()", ...task }] })
    .map(({ message }) => message.replace("chain[0].", ""));
}

Deno.test("a body or fallback that cannot call its callback is a mistake", () => {
  const never = (name: string) => `never mentions its callback ${name}: the task cannot succeed`;
  const none = "takes no callback: the task cannot succeed";
  const bodies: readonly (readonly [body: string, words: string])[] = [
    ["function (job, cb) { job.done = true; }", never("cb")],
    ["(job, done) => { job.cb = done2; }", never("done")],
    ["async (job, cb) => 'returned'", never("cb")],
    ["(job, cb = null) => {}", never("cb")],
    ["(job) => {}", none],
    ["() => arguments[1]()", none],
    ["async function () {}", none],
  ];
  for (const [body, words] of bodies) assertEquals(ofTask({ body }), [`body ${words}`], body);
  assertEquals(ofTask({ fallback: "(err, job) => { log.warn(err); }" }), [`fallback ${none}`]);
  assertEquals(ofTask({ fallback: "(err, job, cb) => {}" }), [`fallback ${never("cb")}`]);
});

Deno.test("a body that mentions its callback in any way is accepted", () => {
  const bodies = [
    "(job, cb) => setTimeout(cb, 10)",
    "(job, cb) => { const end = () => cb(null, 1); end(); }",
    "(job, cb) => Promise.resolve().then(() => cb(), cb)",
    "(job, cb, next = () => cb()) => next()",
    "(...args) => args[1]()",
    "(job, ...rest) => rest[0]()",
    "function (job) { arguments[1](); }",
    "(job, { call }) => call()",
    "function (job, cb) { return { cb }; } // the end",
  ];
  for (const body of bodies) assertEquals(ofTask({ body }), [], body);
  assertEquals(ofTask({ fallback: "(err, job, cb) => cb(err)" }), []);
});

Deno.test("a timeout that looks like milliseconds is a mistake", () => {
  const mistake = (timeout: number) =>
    `timeout is in seconds: if ${timeout} means milliseconds, write ${timeout / 1000}`;
  for (const timeout of [1000, 5000, 30_000, 60_000, 120_000, 300_000, 900_000, 1_800_000]) {
    assertEquals(ofTask({ timeout }), [mistake(timeout)]);
    assertEquals(mistakesOf({ name: "x", timeout, chain: [{}] })[0]?.message, mistake(timeout));
  }
  for (const timeout of [1, 60, 90, 900, 1800, 3600, 7200, 36_000, 43_200, 86_400, 432_000]) {
    assertEquals(ofTask({ timeout }), [], String(timeout));
  }
});

Deno.test("two tasks with one name are a mistake in one list, but not in two", () => {
  const task = { name: "undo", body: "(job, cb) => cb()" };
  const twice = { name: "x", chain: [task, { ...task, name: "other" }, task], onerror: [task] };
  assertEquals(mistakesOf(twice).map(({ message }) => message), [
    "chain[2].name is also that of chain[0]: results, logs and retries cannot tell them apart",
  ]);
});

Deno.test("a workflow without tasks is a mistake: it can be stored, but no job can be created from it", () => {
  for (const workflow of [{ name: "x" }, { name: "x", chain: [] }, { name: "x", "chain[]": [] }]) {
    assertEquals(mistakesOf(workflow).map(({ field }) => field), ["chain"]);
  }
});

Deno.test("the built-in workflow, and what was read back from an agent, have no mistakes", () => {
  assertEquals(mistakesOf({ ...PROVISION_MACHINE.definition }), []);
  const body = "(job, cb) => cb()";
  const stored: JsonObject = JSON.parse(JSON.stringify(workflowOf({ chain: [{ body }] })));
  assertEquals(mistakesOf({ ...stored, wf_uuid: "" }), []);
});

Deno.test("mistakes are reported for otherwise invalid workflows too, and never throw", () => {
  const wrong: readonly JsonObject[] = [
    { chain: 3 },
    { chain: [null, 3, "x", [], { body: "(" }, { body: 3, fallback: {}, name: {} }] },
    { name: "x", chain: [{ body: "(".repeat(100_000) }], timeout: "1000" },
    { name: "x", chain: [{ body: `(job, cb) => ${"[".repeat(20_000)}${"]".repeat(20_000)}` }] },
  ];
  for (const workflow of wrong) assertEquals(mistakesOf(workflow), []);
  assertEquals(mistakesOf({ chain: [{ timeout: 5000, body: 3 }] }).length, 1);
});
