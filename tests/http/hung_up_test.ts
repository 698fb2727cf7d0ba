// That an agent stops although hundreds of its callers have hung up at the same moment.

import { assertEquals } from "@std/assert";
import { eachProgram } from "../support/each_program.ts";
import { startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { listed } from "./raw_call.ts";

const CALLERS = 200;
const STOP_DEADLINE_MS = 90_000;

eachProgram("an agent stops when hundreds of callers have just hung up", async (program) => {
  await withFolder(async (folder) => {
    const agent = await startAgentProcess(program, `${folder}/state`, ["--host", "simulated"]);
    try {
      const { hostname, port } = new URL(agent.url);
      const head = listed([
        "POST /workflows HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Content-Length: 100",
      ]);
      const request = new TextEncoder().encode(`${head}{`);
      const callers: Deno.Conn[] = [];
      for (let count = 0; count < CALLERS; count++) {
        const caller = await Deno.connect({ hostname, port: Number(port) });
        await caller.write(request);
        callers.push(caller);
      }
      // By these answers the agent has taken all that came before.
      for (let count = 0; count < 20; count++) await agent.get("/stats");
      for (const caller of callers) caller.close();
      agent.signal("SIGTERM");
    } finally {
      const late = setTimeout(() => agent.kill(), STOP_DEADLINE_MS);
      const code = await agent.stop();
      clearTimeout(late);
      assertEquals(code, 0);
    }
  });
});
