// The limits of requests, workflows and jobs.

import { assertEquals } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { AgentProcess, Answer } from "../support/agent_process.ts";
import { until } from "../support/until.ts";
import { listed, rawCall } from "../http/raw_call.ts";
import {
  assertOver,
  assertTaken,
  BODY,
  type LimitGroup,
  madeWorkflow,
  type Reach,
  workflow,
} from "./limit_case.ts";

function portOf({ url }: AgentProcess): number {
  return Number(new URL(url).port);
}

async function rawStatus(agent: AgentProcess, lines: readonly string[]): Promise<number> {
  const head = ["GET /stats HTTP/1.1", "Host: localhost", "Connection: close", ...lines];
  return (await rawCall(portOf(agent), listed(head))).status;
}

const headerFields: Reach = async (agent, value) => {
  const fields = (count: number) => Array.from({ length: count }, (_, at) => `X-${at}: y`);
  assertEquals(await rawStatus(agent, fields(value - 2)), 200);
  assertEquals(await rawStatus(agent, fields(value)), 431);
};

const headerChars: Reach = async (agent, value) => {
  assertEquals(await rawStatus(agent, [`X-Long: ${"y".repeat(value - 200)}`]), 200);
  assertEquals(await rawStatus(agent, [`X-Long: ${"y".repeat(value)}`]), 431);
};

const bodySeconds: Reach = async (agent, value) => {
  const head = ["POST /jobs HTTP/1.1", "Host: localhost", "Content-Type: application/json"];
  const half = `${listed([...head, "Content-Length: 100"])}{`;
  const { status, text } = await rawCall(portOf(agent), half, { firstOnly: true });
  assertOver(answerOf(status, JSON.parse(text)), 408, `within ${value} seconds`);
};

function answerOf(status: number, body: JsonObject): Answer {
  return { status, body, headers: new Headers() };
}

const NOBODY = "00000000-0000-4000-8000-000000000000";

const smallBody: Reach = async (agent, value) => {
  const path = `/jobs/${NOBODY}/cancel`;
  assertOver(await agent.post(path, { x: "y".repeat(value) }), 413, `over ${value} bytes`);
  assertEquals((await agent.post(path, {})).status, 404);
};

const body: Reach = async (agent, value) => {
  const large = { ...workflow("large"), note: "y".repeat(value) };
  assertOver(await agent.post("/workflows", large), 413, `over ${value} bytes`);
};

const depth: Reach = async (agent, value) => {
  const nested = (levels: number): JsonObject => levels === 1 ? {} : { a: nested(levels - 1) };
  const path = `/jobs/${NOBODY}/info`;
  assertEquals((await agent.post(path, nested(value))).status, 404);
  assertOver(await agent.post(path, nested(value + 1)), 400, `deeper than ${value} levels`);
};

const tasks: Reach = async (agent, value) => {
  const bodies = (count: number) => Array<string>(count).fill(BODY);
  assertTaken(await agent.post("/workflows", workflow("long", ...bodies(value))));
  const longer = await agent.post("/workflows", workflow("longer", ...bodies(value + 1)));
  assertOver(longer, 409, `at most ${value} tasks`);
};

const source: Reach = async (agent, value) => {
  const large = BODY + " ".repeat(value - BODY.length);
  assertTaken(await agent.post("/workflows", workflow("wide", large)));
  assertOver(
    await agent.post("/workflows", workflow("wider", `${large} `)),
    409,
    `at most ${value} characters`,
  );
};

function field(name: string): Reach {
  return async (agent, value) => {
    const made = (number: number) =>
      agent.post("/workflows", {
        name: `${name} ${number}`,
        chain: [{ name: "a", body: BODY, [name]: number }],
      });
    assertTaken(await made(value));
    assertOver(await made(value + 1), 409, String(value));
  };
}

const target: Reach = async (agent, value) => {
  const uuid = await madeWorkflow(agent, "targeted");
  const posted = (count: number) =>
    agent.post("/jobs", { workflow: uuid, target: "/".repeat(count) });
  assertTaken(await posted(value));
  assertOver(await posted(value + 1), 409, `1 to ${value} characters`);
};

const params: Reach = async (agent, value) => {
  const uuid = await madeWorkflow(agent, "with params");
  const posted = (chars: number) =>
    agent.post("/jobs", { workflow: uuid, a: "y".repeat(chars - `{"a":""}`.length) });
  assertTaken(await posted(value));
  assertOver(await posted(value + 1), 413, `expected at most ${value}`);
};

const infoEntry: Reach = async (agent, value) => {
  const path = `/jobs/${NOBODY}/info`;
  // A writer of JSON may escape each letter of its own: four times as much is read.
  const large = await agent.post(path, { x: "y".repeat(4 * value) });
  assertOver(large, 413, `over ${4 * value} bytes`);
  const uuid = await madeWorkflow(agent, "informed");
  const job = await agent.post("/jobs", { workflow: uuid });
  const reported = `/jobs/${job.body.uuid}/info`;
  assertTaken(await agent.post(reported, { x: "y".repeat(value - `{"x":""}`.length) }));
  assertOver(await agent.post(reported, { x: "y".repeat(value) }), 413, `${value}`);
};

const infoEntries: Reach = async (agent, value) => {
  const uuid = await madeWorkflow(agent, "much informed");
  const job = await agent.post("/jobs", { workflow: uuid });
  const path = `/jobs/${job.body.uuid}/info`;
  for (let count = 0; count < value; count++) assertTaken(await agent.post(path, { count }));
  assertOver(await agent.post(path, { count: value }), 409, `${value} entries`);
};

const unfinished: Reach = async (agent, value) => {
  const uuid = await madeWorkflow(agent, "later");
  const exec_after = new Date(Date.now() + 3_600_000).toISOString();
  await until("the jobs of other limits to end", async () => {
    const { body } = await agent.get("/agent/v1/jobs?state=queued,running&limit=1");
    return (body.jobs as unknown[]).length === 0;
  });
  for (let count = 0; count < value; count++) {
    assertTaken(await agent.post("/jobs", { workflow: uuid, exec_after }));
  }
  assertOver(await agent.post("/jobs", { workflow: uuid, exec_after }), 503, `${value}`);
};

const workflows: Reach = async (agent, value) => {
  // Those of the agent itself count as well.
  for (let count = 0; count <= value; count++) {
    const made = await agent.post("/workflows", workflow(`one of many ${count}`));
    if (made.status !== 201) return assertOver(made, 503, `there are ${value}, the maximum`);
  }
  throw new Error(`More than ${value} workflows were made`);
};

export const REQUEST_LIMITS: LimitGroup = {
  name: "requests, workflows and jobs",
  cases: {
    header_chars_max: [2000, headerChars],
    body_seconds: [1, bodySeconds],
    small_body_bytes_max: [128, smallBody],
    body_bytes_max: [100_000, body],
    tasks_max: [3, tasks],
    source_chars_max: [200, source],
    retry_max: [2, field("retry")],
    timeout_seconds_max: [60, field("timeout")],
    params_chars_max: [2000, params],
    info_entries_max: [64, infoEntries],
    unfinished_jobs_max: [8, unfinished],
    workflows_max: [24, workflows],
  },
};

const { headerFieldsMax, jsonDepthMax, targetCharsMax, infoEntryBytesMax } = DEFAULT_LIMITS;

/** An agent of their own: those above are smaller. */
export const FIXED_REQUEST_LIMITS: LimitGroup = {
  name: "requests that are no settings",
  cases: {},
  fixed: {
    "header fields": [headerFieldsMax, headerFields],
    "nesting": [jsonDepthMax, depth],
    "target": [targetCharsMax, target],
    "info entry": [infoEntryBytesMax, infoEntry],
  },
};
