import { assertEquals } from "@std/assert";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JsonObject } from "../../src/domain/json.ts";
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

Deno.test("GET /stats counts each job in exactly one window", async () => {
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

const NO_ENDS = { succeeded: 0, failed: 0, canceled: 0, retried: 0 };

Deno.test("GET /agent/v1/stats/hourly answers every hour, also those in which no job ended", async () => {
  await withHttpAgent(async (agent) => {
    const hourly = async (query = "") =>
      objectOf(await agent.call("GET", `/agent/v1/stats/hourly${query}`));
    const empty = await hourly();
    assertEquals((empty.hours as JsonObject[]).length, 25);
    assertEquals([empty.since, empty.until], [hourAt(-24), T0]);
    assertEquals(empty.total, NO_ENDS);
    for (const execution of ["succeeded", "failed", "failed", "canceled", "running"] as const) {
      await jobIn(agent, execution);
    }
    agent.clock.now = instantAfter(T0, 2 * HOUR_MS);
    await jobIn(agent, "failed");
    const ended = { succeeded: 1, failed: 2, canceled: 1, retried: 0 };
    assertEquals(await hourly("?hours=2"), {
      since: hourAt(0),
      until: agent.clock.now,
      total: { ...ended, failed: 3 },
      hours: [
        { hour: hourAt(0), ...ended },
        { hour: hourAt(1), ...NO_ENDS },
        { hour: hourAt(2), ...NO_ENDS, failed: 1 },
      ],
    });
    assertEquals((await hourly("?hours=1")).total, { ...NO_ENDS, failed: 1 });
  });
});

function hourAt(hours: number): string {
  return instantAfter(T0, hours * HOUR_MS).replace(/:.*/, ":00:00.000Z");
}

Deno.test("GET /agent/v1/stats/hourly refuses other hours than 1 to 744, and every other key", async () => {
  await withHttpAgent(async (agent) => {
    for (
      const query of ["hours=0", "hours=745", "hours=1.5", "hours=", "hour=2", "hours=1&hours=2"]
    ) {
      const answer = await agent.call("GET", `/agent/v1/stats/hourly?${query}`);
      assertEquals([query, answer.status], [query, 409]);
    }
    const most = objectOf(await agent.call("GET", "/agent/v1/stats/hourly?hours=744"));
    assertEquals((most.hours as JsonObject[]).length, 745);
  });
});
