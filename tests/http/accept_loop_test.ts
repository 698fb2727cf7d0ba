// That the agent listens on after it has once run out of file descriptors.

import { assertEquals } from "@std/assert";
import { openConnectionLog } from "../../src/http/listen/listener.ts";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { programTest, requireProgram } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";

const FILES_MAX = 100;

/** Opens connections until the agent takes no more. */
async function exhaust(hostname: string, port: number): Promise<Deno.Conn[]> {
  const connections: Deno.Conn[] = [];
  for (let count = 0; count < 2 * FILES_MAX; count++) {
    try {
      connections.push(await Deno.connect({ hostname, port }));
    } catch {
      break; // Refused, or taken and cut off.
    }
  }
  return connections;
}

programTest(
  "prlimit",
  "an agent out of file descriptors answers again once some are free",
  () =>
    withFolder(async (folder) => {
      const source = programOfRun();
      const limited = {
        ...source,
        program: requireProgram("prlimit") ?? "",
        args: [`--nofile=${FILES_MAX}:${FILES_MAX}`, source.program, ...source.args],
      };
      const agent = await startAgentProcess(limited, `${folder}/state`, ["--host", "simulated"]);
      try {
        const { body } = await agent.post("/workflows", {
          name: "w",
          chain: [{ body: "function (job, cb) { cb(); }" }],
        });
        const { hostname, port } = new URL(agent.url);
        const connections = await exhaust(hostname, Number(port));
        await until("the agent to notice", () =>
          /connections not accepted|connection not served/.test(agent.log()));
        for (const connection of connections) {
          connection.close();
        }
        const posted = await until("the agent to answer", async () => {
          try {
            return await agent.post("/jobs", { workflow: body.uuid ?? "" });
          } catch {
            return undefined; // Refused, or cut off.
          }
        });
        assertEquals(posted.status, 201);
        await agent.job(String(posted.body.uuid), "success");
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    }),
);

Deno.test("failing connections are logged from time to time while they go on", () => {
  const reported: unknown[] = [];
  let nowMs = 0;
  const log = { error: (_message: string, fields?: object) => void reported.push(fields) };
  const tell = openConnectionLog(log, "connections not accepted", () => nowMs);
  for (; nowMs < 25_000; nowMs += 250) tell(nowMs);
  assertEquals(reported, [{ error: 0 }, { error: 10_000 }, { error: 20_000 }]);
});
