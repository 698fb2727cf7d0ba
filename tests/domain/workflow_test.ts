import { assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { randomUuid, type WorkflowUuid } from "../../src/domain/id.ts";
import type { WorkflowLimits } from "../../src/domain/job/workflow.ts";
import { parseWorkflow } from "../support/parsed_workflow.ts";
import { uuidOf } from "../support/job.ts";

const UUID = uuidOf<WorkflowUuid>(1);
const BODY = "function (job, cb) { cb(); }";
const LIMITS: WorkflowLimits = {
  tasksMax: 3,
  sourceCharsMax: 100,
  retryMax: 10,
  timeoutSecondsMax: 3600,
};

function parse(body: unknown) {
  return parseWorkflow(body, UUID, randomUuid, LIMITS);
}

function refusal(body: unknown): [string, string][] {
  const error = assertThrows(() => parse(body), AgentError);
  assertEquals(error.code, "invalid_argument");
  return error.errors.map(({ field, code }) => [field, code]);
}

Deno.test("parseWorkflow() keeps unknown keys of workflow and tasks as they were sent", () => {
  const sent = { note: { a: [1, null] }, chain: [{ body: BODY, tags: ["x"] }], name: "x" };
  const workflow = parse(sent);
  assertEquals(workflow.note, { a: [1, null] });
  assertEquals(workflow.chain[0]?.tags, ["x"]);
  assertEquals(Object.keys(workflow.chain[0] ?? {}), ["body", "tags", "uuid"]);
});

Deno.test("parseWorkflow() refuses a misspelling of a missing field", () => {
  const ofTask = {
    timeOut: "timeout",
    Timeout: "timeout",
    time_out: "timeout",
    timout: "timeout",
    tiemout: "timeout",
    retries: "retry",
    retryDelay: "retry_delay",
    "retry-delay": "retry_delay",
    fallBack: "fallback",
    names: "name",
  };
  for (const [key, known] of Object.entries(ofTask)) {
    const body = { name: "x", chain: [{ body: BODY, [key]: 1 }] };
    assertEquals(refusal(body), [[`chain[0].${key}`, "UnknownField"]], key);
    assertThrows(() => parse(body), AgentError, `is unknown: the nearest known name is "${known}"`);
  }
  assertEquals(refusal({ name: "x", chian: [] }), [["chian", "UnknownField"]]);
  assertEquals(refusal({ name: "x", onError: [], maxAttempts: 3 }), [
    ["onError", "UnknownField"],
    ["maxAttempts", "UnknownField"],
  ]);
});

Deno.test("parseWorkflow() keeps a key similar to a present field, and one similar to none", () => {
  const task = { name: "a", body: BODY, timeout: 1, timeouts: [1, 2], names: ["b"] };
  const workflow = parse({ name: "x", chain: [task], chains: 2, version: "1.0.0" });
  assertEquals([workflow.chains, workflow.version], [2, "1.0.0"]);
  assertEquals([workflow.chain[0]?.timeouts, workflow.chain[0]?.names], [[1, 2], ["b"]]);
  const others = "description comment note notes doc docs tags type label id owner author title " +
    "code when delay params inputs uuid kind step group order by url env";
  for (const key of others.split(" ")) {
    assertEquals(parse({ name: "x", chain: [{ body: BODY, [key]: "1" }] }).chain.length, 1, key);
  }
});

Deno.test("parseWorkflow() compares a limited number of names, and keeps the others", () => {
  const keys = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`key${index}`, index]));
  assertEquals(refusal({ name: "x", ...keys(999), chian: [] }), [["chian", "UnknownField"]]);
  const beyond = parse({
    name: "x",
    chain: [{ body: BODY, ...keys(500) }],
    ...keys(500),
    onEror: 1,
  });
  assertEquals(beyond.onEror, 1);
});

Deno.test("parseWorkflow() treats an empty body as missing", () => {
  assertEquals(refusal({ name: "x", chain: [{ body: "" }], onerror: [{}] }), [
    ["chain[0].body", "Missing"],
    ["onerror[0].body", "Missing"],
  ]);
});

Deno.test("parseWorkflow() adds no defaults for timeout and retry", () => {
  const workflow = parse({ name: "x", chain: [{ body: BODY }] });
  assertEquals(Object.keys(workflow).sort(), ["chain", "name", "onerror", "uuid"]);
  assertEquals(Object.keys(workflow.chain[0] ?? {}), ["body", "uuid"]);
});

Deno.test("parseWorkflow() keeps a task's valid uuid, and refuses anything else there", () => {
  const uuid = uuidOf(7);
  const { chain } = parse({
    name: "x",
    chain: [{ uuid, body: BODY }, { uuid: "mine", body: BODY }, { uuid: 7, body: BODY }],
  });
  assertEquals<string | undefined>(chain[0]?.uuid, uuid);
  assertEquals(new Set(chain.map((task) => task.uuid)).size, 3);
  assertEquals([chain[1]?.uuid.length, chain[2]?.uuid.length], [36, 36]);
});

Deno.test("parseWorkflow() accepts the same task in two chains", () => {
  const task = { body: BODY, name: "shared" };
  const workflow = parse({ name: "x", chain: [task, task], onerror: [task], oncancel: [task] });
  const all = [...workflow.chain, ...workflow.onerror, ...workflow.oncancel ?? []];
  assertEquals(new Set(all.map(({ uuid }) => uuid)).size, 4);
});

Deno.test("parseWorkflow() accepts absent, null and empty lists of tasks", () => {
  for (const chain of [undefined, null, []]) {
    const workflow = parse({ name: "x", chain, onerror: chain });
    assertEquals([workflow.chain, workflow.onerror], [[], []]);
  }
});

Deno.test("parseWorkflow() uses the uuid argument, and drops wf_uuid", () => {
  const workflow = parse({ uuid: uuidOf(9), wf_uuid: uuidOf(9), name: "x" });
  assertEquals([workflow.uuid, workflow.wf_uuid], [UUID, undefined]);
});

Deno.test("parseWorkflow() accepts values at their limits and refuses larger ones", () => {
  const body = `function (a) { ${"/".repeat(2)}${" ".repeat(79)}\n}`;
  const task = { body, retry: 10, timeout: 3600, retry_delay: 0 };
  assertEquals(body.length <= 100, true);
  parse({ name: "n".repeat(255), timeout: 3600, chain: [task, task, task] });
  parse({ name: "x", timeout: 1, chain: [{ body: BODY, retry: 0, timeout: 1 }] });
  assertEquals(refusal({ name: "n".repeat(256) }), [["name", "TooLarge"]]);
  assertEquals(refusal({ name: "x", chain: [task, task, task, task] }), [["chain", "TooLarge"]]);
  const long = `function () { ${" ".repeat(100)} }`;
  assertEquals(refusal({ name: "x", chain: [{ body: long, fallback: long }] }), [
    ["chain[0].body", "TooLarge"],
    ["chain[0].fallback", "TooLarge"],
  ]);
  assertEquals(
    refusal({ name: "x", timeout: 3601, onerror: [{ body: BODY, retry: 11, timeout: 3601 }] }),
    [["timeout", "TooLarge"], ["onerror[0].retry", "TooLarge"], ["onerror[0].timeout", "TooLarge"]],
  );
});

Deno.test("parseWorkflow() names what is wrong in oncancel too", () => {
  assertEquals(refusal({ name: "x", oncancel: [{ body: 7 }] }), [["oncancel[0].body", "Invalid"]]);
  assertEquals(refusal({ name: "x", oncancel: "x" }), [["oncancel", "Invalid"]]);
});

Deno.test("parseWorkflow() reads own properties only", () => {
  assertEquals(refusal(JSON.parse('{"__proto__":{"name":"x"}}')), [["name", "Missing"]]);
  const workflow = parse(JSON.parse('{"name":"x","__proto__":{"a":1}}'));
  assertEquals(JSON.stringify(workflow).includes('"__proto__":{"a":1}'), true);
});
