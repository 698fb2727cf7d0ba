// How many requests may be under way, and how many may wait.

import { assertEquals } from "@std/assert";
import type { AgentProcess } from "../support/agent_process.ts";
import { readEvents } from "../http/event_reader.ts";
import { listed } from "../http/raw_call.ts";
import { until } from "../support/until.ts";
import { assertOver, type LimitGroup, madeWorkflow, type Reach } from "./limit_case.ts";

/** Requests whose bodies never come to their end. */
async function slowBodies({ url }: AgentProcess, count: number): Promise<Deno.Conn[]> {
  const head = ["POST /jobs HTTP/1.1", "Host: localhost", "Content-Type: application/json"];
  const half = new TextEncoder().encode(`${listed([...head, "Content-Length: 100"])}{`);
  return await Promise.all(Array.from({ length: count }, async () => {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: +new URL(url).port });
    await connection.write(half);
    return connection;
  }));
}

const requests: Reach = async (agent, value) => {
  const slow = await slowBodies(agent, value);
  try {
    const refused = await until("the places to be taken", async () => {
      const answer = await agent.get("/stats");
      return answer.status === 200 ? undefined : answer;
    });
    assertOver(refused, 503, `${value} requests are under way`);
    assertEquals(refused.headers.get("retry-after"), "1");
  } finally {
    for (const connection of slow) connection.close();
  }
  await until("a place to be free", async () => (await agent.get("/stats")).status === 200);
};

const waits: Reach = async (agent, value) => {
  const uuid = await madeWorkflow(agent, "waiting", `(job, cb) => cb("wait")`);
  const exec_after = new Date(Date.now() + 3_600_000).toISOString();
  const job = await agent.post("/jobs", { workflow: uuid, exec_after });
  const wait = (seconds: number) => agent.get(`/jobs/${job.body.uuid}/wait?timeout=${seconds}`);
  // One of them may find its place taken by the look below.
  const held = Array.from({ length: value }, () =>
    until("a place to wait", async () => {
      const answer = await wait(60);
      return answer.status === 200 && answer;
    }));
  const refused = await until("the waits to be taken", async () => {
    const answer = await wait(0);
    return answer.status === 200 ? undefined : answer;
  });
  assertOver(refused, 503, `${value} requests are waiting`);
  await agent.post(`/jobs/${job.body.uuid}/cancel`);
  for (const { body } of await Promise.all(held)) assertEquals(body.execution, "canceled");
};

const streams: Reach = async (agent, value) => {
  const readers = await Promise.all(Array.from({ length: value }, () => readEvents(agent.url)));
  try {
    const refused = await agent.get("/agent/v1/events");
    assertOver(refused, 503, `${value} are open`);
    assertEquals(refused.headers.get("retry-after"), "5");
  } finally {
    for (const reader of readers) await reader[Symbol.asyncDispose]();
  }
};

/** Fewer than eight places are for all requests alike. */
export const PLACE_LIMITS: LimitGroup = {
  name: "places",
  cases: { requests_max: [4, requests], waits_max: [2, waits], event_streams_max: [2, streams] },
};
