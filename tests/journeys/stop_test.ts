// How the agent stops: in order, and in time, whatever its callers and tasks do.

import { assert, assertEquals } from "@std/assert";
import { type AgentProcess, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

/** Seconds in which the agent must have ended: ten for its tasks, the rest for a busy machine. */
const STOP_SECONDS_MAX = 90;

/** Leaves a request half sent. @returns what closes its connection */
async function unfinishedRequest(agent: AgentProcess): Promise<() => void> {
  const { hostname, port } = new URL(agent.url);
  const connection = await Deno.connect({ hostname, port: Number(port) });
  const head = "POST /jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
  await connection.write(new TextEncoder().encode(`${head}content-length: 100\r\n\r\n{`));
  return () => connection.close();
}

/** A workflow of one task, queued so many times. */
async function postJobs(agent: AgentProcess, body: string, count: number): Promise<void> {
  const { body: workflow } = await agent.post("/workflows", { name: "w", chain: [{ body }] });
  for (let job = 0; job < count; job++) {
    await agent.post("/jobs", { workflow: workflow.uuid ?? "" });
  }
}

async function counts(agent: AgentProcess): Promise<Record<string, number>> {
  return (await agent.get("/stats")).body.current as Record<string, number>;
}

eachProgram(
  "SIGTERM ends the agent in time, with a request half sent and a task that never ends",
  (program) =>
    withFolder(async (folder) => {
      const agent = await startAgentProcess(program, `${folder}/state`, ["--host", "simulated"]);
      let closeRequest = () => {};
      try {
        closeRequest = await unfinishedRequest(agent);
        await postJobs(agent, "function (job, cb) { for (;;) {} }", 1);
        await until("the task to run", async () => (await counts(agent)).running === 1);
      } finally {
        const startMs = performance.now();
        // What has not ended by then is killed, so that the test ends too.
        const late = setTimeout(() => agent.kill(), STOP_SECONDS_MAX * 1000);
        assertEquals(await agent.stop(), 0, `not ended after ${performance.now() - startMs} ms`);
        clearTimeout(late);
        closeRequest();
      }
    }),
);

eachProgram(
  "an agent that was asked to stop claims nothing more while its callers take their answers",
  (program) =>
    withFolder(async (folder) => {
      const flags = ["--host", "simulated", "--slots", "1"];
      const first = await startAgentProcess(program, `${folder}/state`, flags);
      let closeRequest = () => {};
      try {
        closeRequest = await unfinishedRequest(first);
        await postJobs(first, "async function (job, cb) { await sleep(4000); cb(); }", 4);
        await until("the first task to run", async () => (await counts(first)).running === 1);
      } finally {
        assertEquals(await first.stop(), 0);
        closeRequest();
      }
      // On a busy machine it may be another one than the first.
      const [, stopping = ""] = first.log().split('"agent stopping"');
      assertEquals(stopping.split('"task ended"').length - 1, 1, first.log());
      assert(!first.log().includes('"job lost"'));
    }),
);
