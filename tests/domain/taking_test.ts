// What a host runs of a shared store: the digest of tasks, and who is refused.

import { assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { refusalOf, tasksDigest } from "../../src/domain/taking.ts";

const BODY = "(job, cb) => cb()";
const TASKS = { chain: [{ name: "one", body: BODY, retry: 1 }], onerror: [] };
const JOB = { ...TASKS, name: "nightly", props: { ordered_by: "token:ops" } };
const judge = (allow_workflow: string[], allow_caller: string[] = [], job = JOB) =>
  refusalOf({ allow_workflow, allow_caller }, job, undefined);

Deno.test("tasksDigest() does not depend on the tasks' uuids, or on the order of their fields", async () => {
  const digest = await tasksDigest(TASKS);
  const copy = {
    chain: [{ uuid: "x", retry: 1, body: BODY, name: "one" }],
    onerror: [],
    oncancel: [],
  };
  assertEquals(await tasksDigest(copy), digest);
  const others = [
    { ...TASKS, chain: [{ name: "one", body: `${BODY} `, retry: 1 }] },
    { ...TASKS, chain: [{ name: "one", body: BODY, retry: 1, fallback: BODY }] },
    { ...TASKS, onerror: TASKS.chain },
    { ...TASKS, oncancel: TASKS.chain },
    { chain: [], onerror: TASKS.chain },
  ];
  for (const other of others) assertNotEquals(await tasksDigest(other), digest);
});

Deno.test("refusalOf() allows a name with any tasks, and a name with a digest only with these tasks", async () => {
  const digest = await tasksDigest(TASKS);
  assertEquals(await judge([]), undefined);
  assertEquals(await judge(["nightly"]), undefined);
  assertEquals(await judge(["other", `nightly@${digest}`]), undefined);
  for (const entry of ["other", `other@${digest}`, `nightly@sha256:${"0".repeat(64)}`, "builtin"]) {
    const words = await judge([entry]);
    assertStringIncludes(String(words), `runs no workflow "nightly" with the tasks ${digest}`);
  }
  const named = { ...JOB, name: "builtin" };
  assertStringIncludes(String(await judge(["builtin"], [], named)), 'runs no workflow "builtin"');
});

Deno.test("refusalOf() allows the agent's own tasks, but only under their own uuid", async () => {
  const taking = { allow_workflow: ["builtin"], allow_caller: [] };
  assertEquals(await refusalOf(taking, JOB, TASKS), undefined);
  const changed = { ...JOB, chain: [{ name: "one", body: "(job, cb) => cb(null, 1)" }] };
  assertStringIncludes(String(await refusalOf(taking, changed, TASKS)), "policy.allow_workflow");
});

Deno.test("refusalOf() refuses unlisted callers, even for the agent's own workflows", async () => {
  assertEquals(await judge([], ["loopback", "token:ops"]), undefined);
  const words = await refusalOf({ allow_workflow: [], allow_caller: ["loopback"] }, JOB, TASKS);
  assertEquals(
    words,
    'runs no job that "token:ops" has ordered: policy.allow_caller lists loopback',
  );
  const unsaid = await refusalOf({ allow_workflow: [], allow_caller: ["loopback"] }, {
    ...JOB,
    props: {},
  }, TASKS);
  assertStringIncludes(String(unsaid), 'that "unknown" has ordered');
});
