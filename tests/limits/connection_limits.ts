// How many connections there may be, and how long they may take.

import { assertEquals } from "@std/assert";
import type { AgentProcess } from "../support/agent_process.ts";
import { ended } from "../http/listeners.ts";
import { listed } from "../http/raw_call.ts";
import { until } from "../support/until.ts";
import { type LimitGroup, madeWorkflow, type Reach } from "./limit_case.ts";

function connected({ url }: AgentProcess): Promise<Deno.Conn> {
  return Deno.connect({ hostname: "127.0.0.1", port: Number(new URL(url).port) });
}

const GET = listed(["GET /healthz HTTP/1.1", "Host: localhost"]);

/** Both end by the limit alone: nothing else closes a connection that says nothing. */
const head: Reach = async (agent) => {
  assertEquals(await ended(await connected(agent)), "");
};

const idle: Reach = async (agent) => {
  const connection = await connected(agent);
  await connection.write(new TextEncoder().encode(GET));
  const text = await ended(connection);
  assertEquals(text.split("\r\n")[0], "HTTP/1.1 200 OK");
};

const answer: Reach = async (agent) => {
  const uuid = await madeWorkflow(agent, "large");
  const exec_after = new Date(Date.now() + 3_600_000).toISOString();
  const job = await agent.post("/jobs", { workflow: uuid, exec_after, a: "y".repeat(1_500_000) });
  const connection = await connected(agent);
  const asked = listed([`GET /jobs/${job.body.uuid} HTTP/1.1`, "Host: localhost"]);
  await connection.write(new TextEncoder().encode(asked.repeat(20)));
  // Far more than the system keeps for a socket, and nobody takes it: a write fails after the cut.
  const more = new TextEncoder().encode("G");
  await until("the caller to be cut", async () => {
    return await connection.write(more).then(() => undefined, () => true);
  });
  connection.close();
};

/** Seconds, as short as they may be. */
export const CONNECTION_LIMITS: LimitGroup = {
  name: "times of connections",
  cases: { head_seconds: [1, head], idle_seconds: [1, idle], answer_seconds: [1, answer] },
};

const connections: Reach = async (agent, value) => {
  const open: Deno.Conn[] = [];
  for (let count = 0; count < 3 * value; count++) open.push(await connected(agent));
  // Those that have been silent longest make room for the rest.
  const cut = open.slice(0, 2 * value).map(ended);
  assertEquals(new Set(await Promise.all(cut)), new Set([""]));
  for (const connection of open.slice(2 * value)) connection.close();
};

export const CONNECTIONS_LIMIT: LimitGroup = {
  name: "connections",
  cases: { connections_max: [3, connections] },
};
