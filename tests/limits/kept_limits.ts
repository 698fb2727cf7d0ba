// How much of what has ended is kept. An agent looks at its start.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { limitFlags, type LimitName, ran } from "./limit_case.ts";

export const KEPT_LIMITS: readonly LimitName[] = ["finished_jobs_max"];

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
