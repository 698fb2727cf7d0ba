// The rules by which the chaos tests judge must find what breaks them, and nothing else.

import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { type Asked, brokenBetween, brokenEnd, brokenExecutions, brokenIn } from "./job_rules.ts";
import { objectsOf } from "./raw_connection.ts";
import { SLOW, WAITING } from "./workloads.ts";

const NOTHING: Asked = { cancel: "no", resume: "no", retry: "no" };
const RESUMED: Asked = { ...NOTHING, resume: "done", resumed: { result: "there", error: "" } };

function entryOf(name: string, fields: JsonObject = {}): JsonObject {
  const times = { started_at: "2026-01-01T00:00:01.000Z", finished_at: "2026-01-01T00:00:02.000Z" };
  return { name, result: { token: `${name}1` }, error: "", ...times, attempts: 1, ...fields };
}

/** A job of three tasks of which so many are recorded. */
function jobOf(execution: string, results: JsonObject[], fields: JsonObject = {}): JsonObject {
  const final = ["success", "failure", "canceled", "retried"].includes(execution);
  return {
    uuid: "u",
    execution,
    chain: [{ name: "first" }, { name: "second" }, { name: "third" }],
    chain_results: results,
    exec_after: "2026-01-01T00:00:00.000Z",
    started_at: "2026-01-01T00:00:01.000Z",
    ...(final ? { finished_at: "2026-01-01T00:00:09.000Z" } : {}),
    ...Object.fromEntries(results.map(({ name }) => [String(name), `${name}1`])),
    ...fields,
  };
}

const [FIRST, SECOND, THIRD] = [entryOf("first"), entryOf("second"), entryOf("third")] as const;
const WAITS = entryOf("second", { error: "wait" });
const CAME_BACK = entryOf("second", { result: "there", error: "" });

Deno.test("the rules accept a job that continues, is resumed and ends", () => {
  const lives = [
    jobOf("queued", []),
    jobOf("running", [FIRST]),
    jobOf("queued", [FIRST]),
    jobOf("success", [FIRST, SECOND, THIRD]),
  ];
  for (const [at, after] of lives.entries()) {
    assertEquals(brokenBetween(lives[Math.max(at - 1, 0)] as JsonObject, after, NOTHING), []);
    assertEquals(brokenIn(after, SLOW, NOTHING), []);
  }
  assertEquals(
    brokenBetween(jobOf("waiting", [FIRST, WAITS]), jobOf("queued", [FIRST, CAME_BACK]), RESUMED),
    [],
  );
});

const BETWEEN: Record<string, readonly [JsonObject, JsonObject, Asked]> = {
  "a result that is gone": [jobOf("running", [FIRST]), jobOf("running", []), NOTHING],
  "a result that is another one": [
    jobOf("running", [FIRST]),
    jobOf("running", [entryOf("first", { result: { token: "other" } })]),
    NOTHING,
  ],
  "a final state that changes": [jobOf("failure", []), jobOf("success", []), NOTHING],
  "a finished job that changes": [
    jobOf("success", [FIRST]),
    jobOf("success", [FIRST, SECOND]),
    NOTHING,
  ],
  "a canceled job that goes on": [
    jobOf("canceled", [FIRST]),
    jobOf("canceled", [FIRST, SECOND]),
    NOTHING,
  ],
  "a start that moves": [
    jobOf("running", []),
    jobOf("running", [], { started_at: "2026" }),
    NOTHING,
  ],
  "a wait that nobody ended": [jobOf("waiting", [WAITS]), jobOf("queued", [CAME_BACK]), NOTHING],
  "another result than the resume sent": [
    jobOf("waiting", [FIRST, WAITS]),
    jobOf("queued", [FIRST, entryOf("second", { result: "elsewhere" })]),
    RESUMED,
  ],
  "a next attempt that nobody asked for": [
    jobOf("failure", []),
    jobOf("failure", [], { next_attempt: "v" }),
    NOTHING,
  ],
};

for (const [what, [before, after, asked]] of Object.entries(BETWEEN)) {
  Deno.test(`the rules find ${what}`, () => {
    assert(brokenBetween(before, after, asked).length > 0);
  });
}

const ALONE: Record<string, readonly [JsonObject, Asked]> = {
  "an acknowledged cancel that is gone": [jobOf("running", []), { ...NOTHING, cancel: "done" }],
  "a cancel that nobody asked for": [jobOf("canceled", []), NOTHING],
  "an acknowledged resume that is gone": [jobOf("waiting", [FIRST, WAITS]), RESUMED],
  "an acknowledged retry that is gone": [jobOf("failure", []), { ...NOTHING, retry: "done" }],
  "a second result of a task": [jobOf("running", [FIRST, FIRST]), NOTHING],
  "results out of order": [jobOf("running", [SECOND, FIRST]), NOTHING],
  "a result without what its task left on the job": [
    jobOf("running", [FIRST], { first: "other" }),
    NOTHING,
  ],
  "a job that began too early": [
    jobOf("running", [], { exec_after: "2026-01-01T00:00:05.000Z" }),
    NOTHING,
  ],
};

for (const [what, [job, asked]] of Object.entries(ALONE)) {
  Deno.test(`the rules find ${what}`, () => {
    assert(brokenIn(job, WAITING, asked).length > 0);
  });
}

function began(...tasks: string[]): JsonObject[] {
  return tasks.map((token) => ({ began: token.slice(0, -1), token }));
}

Deno.test("the rules find an execution after the recorded one", () => {
  const job = jobOf("running", [FIRST]);
  assertEquals(brokenExecutions(job, began("first0", "first1", "second1"), SLOW, 2), []);
  assert(brokenExecutions(job, began("first1", "first2"), SLOW, 2).length > 0);
  assert(brokenExecutions(job, began("first1", "second1", "first1"), SLOW, 3).length > 0);
});

Deno.test("the rules detect more executions than the agent had starts", () => {
  const job = jobOf("running", [FIRST]);
  assert(brokenExecutions(job, began("first0", "first1"), SLOW, 1).length > 0);
});

Deno.test("the rules find a job that never ends, and one with another end", () => {
  const done = [FIRST, SECOND, THIRD];
  assertEquals(brokenEnd(jobOf("success", done), SLOW, NOTHING), []);
  assert(brokenEnd(jobOf("running", done), SLOW, NOTHING).length > 0);
  assert(brokenEnd(jobOf("failure", done), SLOW, NOTHING).length > 0);
  assert(brokenEnd(jobOf("success", [FIRST]), SLOW, NOTHING).length > 0);
});

Deno.test("objectsOf() finds the objects of a list wherever its pieces are cut", async () => {
  const list = [{ text: 'a "}" \\ and {', inner: { list: [{}, "]"] } }, {}, { ä: "ö😀" }];
  const bytes = new TextEncoder().encode(JSON.stringify(list));
  for (let size = 1; size <= bytes.length; size++) {
    const pieces = async function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size);
    };
    assertEquals(await Array.fromAsync(objectsOf(pieces())), list);
  }
});
