// How many uploads may be in progress.

import { assertEquals } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import type { AgentProcess, Answer } from "../support/agent_process.ts";
import { until } from "../support/until.ts";
import { assertOver, type LimitGroup, type Reach } from "./limit_case.ts";

/** An upload that has sent a byte, and sends no other until it is ended. */
async function openUpload(agent: AgentProcess, name: string) {
  const url = `${agent.url}/agent/v1/media/library/${name}`;
  let end = () => {};
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      controller.enqueue(new Uint8Array(1));
      end = () => controller.close();
    },
  });
  const answer = fetch(url, { method: "PUT", body }).then(async (response): Promise<Answer> => {
    const { status, headers } = response;
    return { status, headers, body: await response.json() };
  });
  await until("the first byte", async () => {
    const { headers, body } = await fetch(url, { method: "HEAD" });
    await body?.cancel();
    return headers.get("upload-offset") === "1";
  });
  return { answer, end };
}

const atOnce: Reach = async (agent, value) => {
  const open = [];
  for (let count = 0; count < value; count++) {
    open.push(await openUpload(agent, `${count}.iso`));
  }
  const url = `${agent.url}/agent/v1/media/library/other.iso`;
  const refused = await fetch(url, { method: "PUT", body: "x" });
  const { status, headers } = refused;
  assertOver(
    { status, headers, body: await refused.json() },
    503,
    `${value} uploads are under way`,
  );
  for (const { end } of open) end();
  for (const { answer } of open) assertEquals((await answer).status, 201);
};

export const UPLOAD_LIMITS: LimitGroup = {
  name: "uploads",
  cases: {},
  fixed: { "uploads at once": [DEFAULT_LIMITS.uploadsMax, atOnce] },
};
