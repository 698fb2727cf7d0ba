// An agent whose program is removed while it runs: no later guest starts. It says so, jobs wait without harm, and
// go on once the file is back.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { isJsonObject } from "../../src/domain/json.ts";
import { runProgram, startAgentProcess } from "../support/agent_process.ts";
import { eachProgram } from "../support/each_program.ts";
import { cpuOfChildren } from "../support/processes.ts";
import { until, withFolder } from "../support/until.ts";

const WORKFLOW = { name: "counts", chain: [{ body: "(job, cb) => cb(null, job.attempt)" }] };

eachProgram("a job waits while the program is missing, and readiness says so", async (program) => {
  await withFolder(async (folder) => {
    const path = join(folder, "program");
    await Deno.copyFile(program.program, path);
    const stateDir = join(folder, "state");
    const agent = await startAgentProcess({ ...program, program: path }, stateDir, ["--dev"]);
    const { body: { uuid: workflow = null } } = await agent.post("/workflows", WORKFLOW);
    const newJob = async () => String((await agent.post("/jobs", { workflow })).body.uuid);
    const guests = async () => {
      const { checks } = (await agent.get("/readyz")).body as {
        checks: { guests: { status: string; detail: string } };
      };
      return checks.guests;
    };
    const guestsAre = (status: string) =>
      until(`guests to be ${status}`, async () => {
        const found = await guests();
        return found.status === status ? found.detail : undefined;
      });
    try {
      await agent.job(await newJob(), "success");
      assertEquals((await guests()).status, "ok");
      await Deno.remove(path);
      for (const pid of (await cpuOfChildren(stateDir)).keys()) Deno.kill(pid, "SIGKILL");
      await until("the agent to miss every guest", async () => {
        const metrics = await (await agent.fetch("/metrics")).text();
        return /guests\{state="warm"\} 0\n/.test(metrics) &&
          /guests\{state="spare"\} 0\n/.test(metrics);
      });
      const uuid = await newJob();
      assertStringIncludes(await agent.said("task not started"), uuid);
      assertMatch(await guestsAre("failed"), /^guests do not start: /);
      const place = ["--listen", new URL(agent.url).host, "--state-dir", stateDir, "--dev"];
      const { code, stdout } = await runProgram(program, ["doctor", "--run", "agent", ...place]);
      assertEquals(code, 1);
      assertStringIncludes(stdout, "guests do not start");
      await Deno.copyFile(program.program, path);
      const { chain_results } = await agent.job(uuid, "success");
      assert(Array.isArray(chain_results) && isJsonObject(chain_results[0]));
      assertEquals([chain_results[0].result, chain_results.length], [1, 1]);
      if (program.name === "binary") assertMatch(await guestsAre("warn"), /was replaced/);
    } finally {
      assertEquals(await agent.stop(), 0);
    }
  });
});
