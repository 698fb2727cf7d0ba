// An agent as those see it who watch it: its metrics, its readiness and its log after a job.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { readExposition, valueOf } from "../metrics/exposition_reader.ts";
import { startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

const WORKFLOW = {
  name: "watched",
  chain: [{ name: "first", body: 'function (job, cb) { cb(null, "done"); }' }],
};

eachProgram(
  "a job is counted in the metrics, and each line of its log names it",
  async (program) => {
    await withFolder(async (folder) => {
      const agent = await startAgentProcess(program, join(folder, "state"), ["--dev"]);
      try {
        const workflow = await agent.post("/workflows", WORKFLOW);
        const job = await agent.post("/jobs", { workflow: String(workflow.body.uuid) });
        const uuid = String(job.body.uuid);
        await agent.job(uuid, "success");
        const metrics = async () => {
          const answer = await fetch(`${agent.url}/metrics`);
          return readExposition(await answer.text());
        };
        // The last write is counted a moment after the row can be read.
        const read = await until("the job to be counted", async () => {
          const families = await metrics();
          return valueOf(families, "jobs_total", { result: "succeeded" }) === 1 && families;
        });
        assertEquals(valueOf(read, "jobs", { execution: "succeeded" }), 1);
        assertEquals(valueOf(read, "task_duration_seconds_count", { result: "success" }), 1);
        const posted = { route: "/jobs", method: "POST", code: "201" };
        assertEquals(valueOf(read, "http_requests_total", posted), 1);
        const guests = ["busy", "warm", "spare"].map((state) =>
          valueOf(read, "guests", { state }) ?? 0
        );
        assert(guests.some((number) => number > 0), "no guests");
        assert((valueOf(read, "process_resident_memory_bytes") ?? 0) > 1e6, "no memory");
        assert((valueOf(read, "store_bytes") ?? 0) > 0, "no store");
        const line = await until(
          "the end of the job in the log",
          () => agent.log().split("\n").find((one) => one.includes('"job finished"')),
        );
        assertEquals(JSON.parse(line).job_uuid, uuid);
        const ready = await until("the agent to be ready", async () => {
          const answer = await agent.get("/readyz");
          return answer.status === 200 && answer.body;
        });
        const parts = ["store", "disk", "guests", "host", "admission", "index"];
        assertEquals(Object.keys(ready.checks ?? {}), parts);
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    });
  },
);

eachProgram("every line of the format bunyan has what its viewer expects", async (program) => {
  await withFolder(async (folder) => {
    const env = { ZONEWRIGHT_LOG_LEVEL: "debug" };
    const flags = ["--dev", "--log-format", "bunyan"];
    const process = new Deno.Command(program.program, {
      args: [...program.args, "serve", ...flags, "--listen", "127.0.0.1:0"],
      env: { ...program.env, ...env, ZONEWRIGHT_STATE_DIR: join(folder, "state") },
      clearEnv: true,
      cwd: folder,
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    let text = "";
    const reading = process.stderr.pipeThrough(new TextDecoderStream())
      .pipeTo(new WritableStream({ write: (part) => void (text += part) }));
    await until("the agent to listen", () => text.includes('"agent started"'));
    process.kill("SIGTERM");
    assertEquals((await process.status).code, 0);
    await reading;
    const lines = text.trimEnd().split("\n").map((line) => JSON.parse(line));
    assertEquals(lines.at(-1).msg, "agent stopped");
    for (const { v, name, hostname, pid, level, time } of lines) {
      assertEquals([v, name, hostname, pid], [0, "zonewright", Deno.hostname(), process.pid]);
      assert([20, 30, 40, 50].includes(level), String(level));
      assertEquals(new Date(time).toISOString(), time);
    }
  });
});
