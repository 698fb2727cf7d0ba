// From POST /jobs to a result, over real HTTP, with real guests.

import { assert, assertEquals } from "@std/assert";
import { startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

const WORKFLOW = {
  name: "greeting",
  chain: [
    {
      name: "compose",
      body: "function (job, cb) { job.text = 'hello ' + job.params.whom; cb(null, job.text); }",
    },
    {
      name: "flaky",
      retry: 1,
      body: "function (job, cb) { job.tries = (job.tries || 0) + 1; " +
        "cb(job.tries < 2 ? 'once more' : null, job.tries); }",
    },
    { name: "outside", body: "function (job, cb) { cb('wait'); }" },
    {
      name: "report",
      body: "async function (job, cb) { await info({ said: job.text }); " +
        "await log.info('reported', { under: job.params }); cb(); }",
    },
  ],
  secret_params: ["license_key"],
};

eachProgram(
  "a job goes from POST /jobs through waiting and resume to its result",
  (program) =>
    withFolder(async (folder) => {
      const agent = await startAgentProcess(program, `${folder}/state`, ["--host", "simulated"]);
      try {
        const workflow = await agent.post("/workflows", WORKFLOW);
        assertEquals(workflow.status, 201);
        assertEquals(workflow.headers.get("location"), `/workflows/${workflow.body.uuid}`);
        const params = { whom: "zone", license_key: "hunter2" };
        const request = { workflow: workflow.body.uuid ?? "", target: "/greet", ...params };
        const posted = await agent.post("/jobs", request);
        assertEquals([posted.status, posted.body.execution], [201, "queued"]);
        const path = `/jobs/${posted.body.uuid}`;
        assertEquals((await agent.post("/jobs", request)).status, 409);
        await agent.job(String(posted.body.uuid), "waiting");
        assertEquals((await agent.post(`${path}/resume`, { result: "done outside" })).status, 200);
        const job = await agent.job(String(posted.body.uuid), "success");
        const results = job.chain_results as { result: unknown; error: string }[];
        assertEquals(results.map(({ result }) => result), ["hello zone", 2, "done outside", "OK"]);
        const under = { ...params, license_key: "***" };
        assertEquals((await agent.get(`${path}/info`)).body.items, [
          { said: "hello zone" },
          { task: "report", log: "info", message: "reported", fields: { under } },
        ]);
        assertEquals((await agent.post(`${path}/cancel`)).status, 409);
        const stats = (await agent.get("/stats")).body.current as Record<string, number>;
        assertEquals([stats.succeeded, stats.queued, stats.running], [1, 0, 0]);
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    }),
);

eachProgram(
  "a job that was running when the agent was killed goes on at the next start",
  (program) =>
    withFolder(async (folder) => {
      const flags = ["--host", "simulated"];
      const first = await startAgentProcess(program, `${folder}/state`, flags);
      let uuid = "";
      try {
        const workflow = await first.post("/workflows", {
          name: "long",
          chain: [
            {
              name: "before",
              body: "function (job, cb) { job.before = (job.before || 0) + 1; cb(); }",
            },
            {
              name: "during",
              body:
                "async function (job, cb) { if (job.attempt > 1) return cb(null, job.before); " +
                "await info({ begun: true }); await sleep(600000); }",
            },
          ],
        });
        uuid = String(
          (await first.post("/jobs", { workflow: workflow.body.uuid ?? "" })).body.uuid,
        );
        await first.job(uuid, "running");
        await until("the task to have begun", async () => {
          const { items } = (await first.get(`/jobs/${uuid}/info`)).body;
          return Array.isArray(items) && items.length > 0;
        });
      } finally {
        await first.kill();
      }
      const second = await startAgentProcess(program, `${folder}/state`, flags);
      try {
        const job = await second.job(uuid, "success");
        const results = job.chain_results as { name: string; result: unknown }[];
        // The recorded task did not run again, the interrupted one did.
        assertEquals(results.map(({ name, result }) => [name, result]), [
          ["before", "OK"],
          ["during", 1],
        ]);
        assert(second.log().includes("jobs rescued"));
      } finally {
        assertEquals(await second.stop(), 0);
      }
    }),
);

eachProgram(
  "a second agent on the same state folder is refused, and the first goes on",
  (program) =>
    withFolder(async (folder) => {
      const flags = ["--host", "simulated"];
      const agent = await startAgentProcess(program, `${folder}/state`, flags);
      try {
        let refusal = "";
        await startAgentProcess(program, `${folder}/state`, flags).catch((error: unknown) => {
          refusal = String(error);
        });
        assert(refusal.includes("is using it"), refusal);
        assertEquals((await agent.get("/ping")).status, 200);
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    }),
);

eachProgram(
  "an agent that starts again leaves its built-in workflows as they are",
  (program) =>
    withFolder(async (folder) => {
      const builtin = async () => {
        const agent = await startAgentProcess(program, `${folder}/state`, ["--host", "simulated"]);
        try {
          return (await agent.get("/workflows?builtin=true")).body;
        } finally {
          assertEquals(await agent.stop(), 0);
        }
      };
      const first = await builtin();
      assert(JSON.stringify(first).includes("provision"));
      assertEquals(await builtin(), first);
    }),
);
