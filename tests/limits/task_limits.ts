// The limits of what tasks return, change, call and say.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import type { AgentProcess } from "../support/agent_process.ts";
import { limitFlags, type LimitGroup, ran, type Reach, resultsOf } from "./limit_case.ts";

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
  // The third task gets the results of two, and its own source among those of the chain.
  const body = `(job, cb) => cb(null, "y".repeat(900))`;
  const count = Math.ceil(value / 900);
  assertSuccess(await ran(agent, [body]));
  const reported = errorOf(await ran(agent, Array<string>(count).fill(body)));
  assertStringIncludes(reported, `and may have ${value}`);
};

const call: Reach = async (agent, value) => {
  const body = (chars: number) =>
    `async (job, cb) => cb(null, await info({ entry: "y".repeat(${chars}) }))`;
  assertSuccess(await ran(agent, [body(value - 20)]));
  assertStringIncludes(errorOf(await ran(agent, [body(value)])), `${value} characters`);
};

const calls: Reach = async (agent, value) => {
  const body = (count: number) =>
    `async (job, cb) => { for (let i = 0; i < ${count}; i++) await vmadm.list(); cb(); }`;
  assertSuccess(await ran(agent, [body(value)]));
  assertStringIncludes(errorOf(await ran(agent, [body(value + 1)])), `made ${value} calls`);
};

const logLines: Reach = async (agent, value) => {
  const body = `(job, cb) => { for (let i = 0; i < ${value + 5}; i++) log.info("n" + i); cb(); }`;
  const logged = await ran(agent, [body]);
  assertSuccess(logged);
  const messages = (await infoOf(agent, logged)).map(({ message }) => String(message));
  // The last line tells that there would be more.
  assertEquals(messages.filter((text) => /^n\d+$/.test(text)).length, value - 1);
  assertEquals(messages.at(-1), `Further log lines are dropped: ${value} were written`);
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

/** Each limit is met before the larger ones beside it are. */
export const TASK_LIMITS: LimitGroup = {
  name: "tasks",
  flags: limitFlags({ params_chars_max: 256 }),
  cases: {
    result_chars_max: [1000, result],
    error_chars_max: [300, error],
    job_left_chars_max: [2000, jobLeft],
    job_chars_max: [32 * 1024, job],
    task_log_lines_max: [8, logLines],
    task_log_chars_max: [200, logChars],
    task_info_entries_max: [15, infoEntries],
    task_info_chars_max: [500, infoChars],
  },
};

/** By themselves: log lines are calls, and an entry of the info has the smaller limit otherwise. */
export const CALL_LIMITS: LimitGroup = {
  name: "calls",
  cases: { call_chars_max: [700, call], task_calls_max: [16, calls] },
};
