import { assertEquals } from "@std/assert";
import { instantAfter } from "../../src/domain/instant.ts";
import { T0 } from "../support/job.ts";
import { jobIn, objectOf, withHttpAgent } from "./http_agent.ts";

const HOUR_MS = 3_600_000;
const ZERO = {
  queued: 0,
  failed: 0,
  succeeded: 0,
  canceled: 0,
  running: 0,
  retried: 0,
  waiting: 0,
};

Deno.test("GET /stats answers four windows of seven counters, all zero at first", async () => {
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("GET", "/stats");
    assertEquals(answer.status, 200);
    const empty = { all_time: ZERO, past_24h: ZERO, past_hour: ZERO, current: ZERO };
    assertEquals(objectOf(answer), empty);
  });
});

Deno.test("GET /stats counts each job in one window only", async () => {
  await withHttpAgent(async (agent) => {
    const executions = ["succeeded", "failed", "canceled", "waiting", "running", "queued"] as const;
    for (const execution of executions) await jobIn(agent, execution);
    const all = {
      ...ZERO,
      ...Object.fromEntries(executions.map((execution) => [execution, 1])),
    };
    const windows: [number, string][] = [
      [0, "current"],
      [HOUR_MS - 1, "current"],
      [HOUR_MS + 1, "past_hour"],
      [2 * HOUR_MS + 1, "past_24h"],
      [24 * HOUR_MS + 1, "all_time"],
    ];
    for (const [ms, window] of windows) {
      agent.clock.now = instantAfter(T0, ms);
      const stats = objectOf(await agent.call("GET", "/stats"));
      for (const [name, counters] of Object.entries(stats)) {
        assertEquals([name, counters], [name, name === window ? all : ZERO]);
      }
    }
  });
});
