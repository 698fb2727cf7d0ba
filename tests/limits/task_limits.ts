// The limits of what tasks return, change, call and say.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import {
  CALL_CHARS_MAX,
  ERROR_CHARS_MAX,
  JOB_CHARS_MAX,
  JOB_LEFT_CHARS_MAX,
  LOG_CHARS_MAX,
} from "../../src/wall/task_limits.ts";
import type { AgentProcess } from "../support/agent_process.ts";
import { type LimitGroup, ran, type Reach, resultsOf } from "./limit_case.ts";

function errorOf(job: JsonObject): string {
  assertEquals(job.execution, "failure", JSON.stringify(job));
  return JSON.stringify(resultsOf(job).at(-1)?.error);
}

function assertSuccess(job: JsonObject): void {
  assertEquals(job.execution, "success", JSON.stringify(job));
}

async function infoOf(agent: AgentProcess, job: JsonObject): Promise<JsonObject[]> {
  const entries = (await agent.get(`/jobs/${job.uuid}/info`)).body.items as JsonObject[];
  return entries.filter((entry) => entry.log !== undefined || entry.entry !== undefined);
}

const result: Reach = async (agent, value) => {
  const body = (chars: number) => `(job, cb) => cb(null, "y".repeat(${chars - 2}))`;
  assertSuccess(await ran(agent, [body(value)]));
  const error = errorOf(await ran(agent, [body(value + 1)]));
  assertStringIncludes(error, `Cannot record the result: its JSON is over ${value} characters`);
};

const error: Reach = async (agent, value) => {
  const body = `(job, cb) => cb("y".repeat(${value + 100}))`;
  assertEquals(errorOf(await ran(agent, [body])), JSON.stringify("y".repeat(value)));
};

const jobLeft: Reach = async (agent, value) => {
  const body = (chars: number) => `(job, cb) => { job.set = "y".repeat(${chars}); cb(); }`;
  assertSuccess(await ran(agent, [body(value - 200)]));
  const reported = errorOf(await ran(agent, [body(value)]));
  assertStringIncludes(reported, `Cannot record the job: its JSON is over ${value} characters`);
};

const job: Reach = async (agent, value) => {
  const chars = 1_000_000;
  const body = `(job, cb) => cb(null, "y".repeat(${chars}))`;
  const count = Math.ceil(value / chars) + 1;
  const reported = errorOf(await ran(agent, Array<string>(count).fill(body)));
  assertStringIncludes(reported, `expected at most ${value}`);
};

const call: Reach = async (agent, value) => {
  const body = `async (job, cb) => cb(null, await info({ entry: "y".repeat(${value}) }))`;
  assertStringIncludes(errorOf(await ran(agent, [body])), `${value} characters`);
};

const logChars: Reach = async (agent, value) => {
  const logged = await ran(agent, [`(job, cb) => { log.info("y".repeat(${value + 50})); cb(); }`]);
  assertSuccess(logged);
  const [line] = await infoOf(agent, logged);
  const text = String(line?.message);
  assert(text.startsWith("y".repeat(value - 50)) && text.length <= value, `${text.length}`);
};

const infoEntries: Reach = async (agent, value) => {
  const body = (count: number) =>
    `async (job, cb) => { for (let i = 0; i < ${count}; i++) await info({ entry: i }); cb(); }`;
  const full = await ran(agent, [body(value)]);
  assertSuccess(full);
  assertEquals((await infoOf(agent, full)).length, value);
  const reported = errorOf(await ran(agent, [body(value + 1)]));
  assertStringIncludes(reported, `has appended ${value} entries`);
};

const infoChars: Reach = async (agent, value) => {
  const body = (chars: number) =>
    `async (job, cb) => cb(null, await info({ entry: "y".repeat(${chars}) }))`;
  assertSuccess(await ran(agent, [body(value - `{"entry":""}`.length)]));
  assertStringIncludes(errorOf(await ran(agent, [body(value)])), `at most ${value}`);
};

const { taskInfoEntriesMax, taskInfoCharsMax } = DEFAULT_LIMITS;

export const TASK_LIMITS: LimitGroup = {
  name: "tasks",
  cases: { result_chars_max: [1000, result] },
};

/** An agent of their own, whose tasks may have larger results. */
export const FIXED_TASK_LIMITS: LimitGroup = {
  name: "tasks that are no settings",
  cases: {},
  fixed: {
    "error": [ERROR_CHARS_MAX, error],
    "what a task leaves": [JOB_LEFT_CHARS_MAX, jobLeft],
    "job": [JOB_CHARS_MAX, job],
    "arguments of a call": [CALL_CHARS_MAX, call],
    "log line": [LOG_CHARS_MAX, logChars],
    "info entries": [taskInfoEntriesMax, infoEntries],
    "info entry": [taskInfoCharsMax, infoChars],
  },
};
