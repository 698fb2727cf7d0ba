// How much of what has ended is kept, and how much while a shared database is away.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { withCutAgent } from "../support/cut_agent.ts";
import { postgresTest } from "../support/postgres.ts";
import { limitFlags, type LimitName, madeWorkflow, ran, resultsOf } from "./limit_case.ts";

export const KEPT_LIMITS: readonly LimitName[] = [
  "finished_jobs_max",
  "journal_bytes_max",
];

export function finishedJobsTest(): void {
  Deno.test("finished_jobs_max removes the oldest finished jobs at a start", async () => {
    await withFolder(async (folder) => {
      const stateDir = join(folder, "state");
      const started = (...flags: string[]) =>
        startAgentProcess(programOfRun(), stateDir, ["--dev", ...flags]);
      const before = await started();
      try {
        for (let count = 0; count < 3; count++) await ran(before, ["(job, cb) => cb()"]);
        assertEquals(((await before.get("/jobs")).body.items as JsonObject[]).length, 3);
      } finally {
        assertEquals(await before.stop(), 0);
      }
      const after = await started(...limitFlags({ finished_jobs_max: 2 }));
      try {
        await until("the oldest job to be gone", async () => {
          return ((await after.get("/jobs")).body.items as JsonObject[]).length === 2;
        });
      } finally {
        assertEquals(await after.stop(), 0);
      }
    });
  });
}

export function outageTest(): void {
  postgresTest(
    "journal_bytes_max stops a chain until the database is back, and loses nothing",
    () =>
      withCutAgent(async ({ relay, start, gate, open }) => {
        const agent = await start(...limitFlags({ journal_bytes_max: 1024 * 1024 }));
        const fills = "(job, cb) => cb(null, 'x'.repeat(400_000))";
        const workflow = await madeWorkflow(agent, "fills", gate("a"), fills, fills, fills, fills);
        const job = String((await agent.post("/jobs", { workflow })).body.uuid);
        await agent.job(job, "running");
        relay.cut();
        await open("a");
        await agent.said("Cannot write to the journal: it has");
        relay.mend();
        const whole = await agent.job(job, "success");
        const lengths = resultsOf(whole).map(({ result }) => String(result).length);
        assertEquals(lengths, [2, 400_000, 400_000, 400_000, 400_000]);
      }),
  );
}
