// More callers than the agent can serve: each is answered or asked to come back, everything accepted
// is kept, a caller that only reads is answered soon, and all is as before once they are gone.

import { assert, assertEquals } from "@std/assert";
import { isJsonObject } from "../../src/domain/json.ts";
import { until } from "../support/until.ts";
import { type ChaosAgent, length, objectOf, withChaosAgent } from "./agent_under_chaos.ts";
import { forgetPeak, peakMiB, residentMiB } from "./memory.ts";
import { RawConnection } from "./raw_connection.ts";
import { QUICK } from "./workloads.ts";

const STORM_SECONDS = length({ quick: 3, full: 60 });
/** Callers by which the capacity is measured, and those of the storm. */
const CALM_CALLERS = 4;
const STORM_CALLERS = 200;
/** Requests that each caller of the storm has under way, so that ten times the capacity is offered. */
const IN_FLIGHT = 4;
/** Places for requests, far fewer than the callers, so that some have to come back. */
const REQUESTS_MAX = 64;
const STATUSES = [201, 503];
/** Judged where nothing else has the processors. */
const STATS_MS_MAX = length({ quick: 60_000, full: 3_000 });
const NORMAL_MS_MAX = 1_000;
const RECOVERY_MS_MAX = 180_000;
const GROWTH_MIB_MAX = 250;
/** Of the capacity, what is still accepted in the storm; judged where nothing else has the processors. */
const GOODPUT_MIN = length({ quick: 0, full: 0.7 });
const KEPT_LOOKED_AT = 200;

interface Posted {
  readonly uuids: string[];
  readonly statuses: Map<number, number>;
}

/** Posts jobs over some connections at the same time until the time is up. */
async function post(
  agent: ChaosAgent,
  workflow: string,
  { callers, inFlight, seconds }: { callers: number; inFlight: number; seconds: number },
): Promise<Posted> {
  const uuids: string[] = [];
  const statuses = new Map<number, number>();
  const endMs = performance.now() + seconds * 1000;
  const call = async () => {
    const connection = await RawConnection.open(agent.url);
    try {
      while (performance.now() < endMs) {
        const request = { method: "POST", path: "/jobs", body: { workflow } };
        await connection.send(Array(inFlight).fill(request));
        for (let answered = 0; answered < inFlight; answered++) {
          const { status, headers, text } = await connection.answer();
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
          if (status === 201) uuids.push(String(JSON.parse(text).uuid));
          else if (status === 503) assert(headers.has("retry-after"), "503 without Retry-After");
        }
      }
    } finally {
      connection.close();
    }
  };
  await Promise.all(Array.from({ length: callers }, call));
  return { uuids, statuses };
}

/** Looks again and again until it is stopped. @returns how long each look took, milliseconds */
async function lookAtStats(agent: ChaosAgent, over: () => boolean): Promise<number[]> {
  const took: number[] = [];
  while (!over()) {
    const beganMs = performance.now();
    assertEquals((await agent.ask("GET", "/stats")).status, 200);
    took.push(performance.now() - beganMs);
  }
  return took;
}

async function countOf(agent: ChaosAgent): Promise<number> {
  const stats = objectOf(await agent.ask("GET", "/stats"));
  return Object.values(stats).flatMap((window) => Object.values(isJsonObject(window) ? window : {}))
    .reduce<number>((sum, jobs) => sum + Number(jobs), 0);
}

Deno.test("ten times the agent's capacity is refused with 503, and no accepted request is lost", async () => {
  await withChaosAgent(["--requests-max", `${REQUESTS_MAX}`], async (agent) => {
    const definition = { name: "storm", ...QUICK.definition };
    const { uuid } = objectOf(await agent.ask("POST", "/workflows", definition));
    const workflow = String(uuid);
    const calm = await post(agent, workflow, { callers: CALM_CALLERS, inFlight: 1, seconds: 1 });
    assertEquals([...calm.statuses.keys()], [201]);
    const before = residentMiB(agent.pid);
    forgetPeak(agent.pid);

    let over = false;
    const looking = lookAtStats(agent, () => over);
    const order = { callers: STORM_CALLERS, inFlight: IN_FLIGHT, seconds: STORM_SECONDS };
    const storm = await post(agent, workflow, order).finally(() => over = true);
    const took = (await looking).sort((one, other) => one - other);
    const odd = [...storm.statuses].filter(([status]) => !STATUSES.includes(status));
    assertEquals(odd, []);
    assert(storm.statuses.has(503), "nobody was asked to come back");
    const slowest = took[Math.floor(took.length * 0.99)] ?? 0;
    assert(slowest < STATS_MS_MAX, `GET /stats took ${Math.round(slowest)} ms`);
    const grown = peakMiB(agent.pid) - before;
    assert(grown < GROWTH_MIB_MAX, `the agent grew by ${Math.round(grown)} MiB`);
    const goodput = storm.uuids.length / STORM_SECONDS / calm.uuids.length;
    assert(goodput >= GOODPUT_MIN, `${goodput.toFixed(2)} of the capacity was accepted`);

    await until("latency to be normal", async () => {
      const beganMs = performance.now();
      await agent.ask("GET", "/stats");
      return performance.now() - beganMs < NORMAL_MS_MAX;
    }, RECOVERY_MS_MAX);
    assertEquals(await countOf(agent), calm.uuids.length + storm.uuids.length);
    const step = Math.max(Math.floor(storm.uuids.length / KEPT_LOOKED_AT), 1);
    for (let at = 0; at < storm.uuids.length; at += step) {
      assertEquals((await agent.ask("GET", `/jobs/${storm.uuids[at]}`)).status, 200);
    }
    console.log(
      `overload: ${calm.uuids.length} jobs/s calm, ${Math.round(goodput * 100)} % of it accepted ` +
        `in the storm, ${[...storm.statuses].map((one) => one.join(": ")).join(", ")}; ` +
        `GET /stats ${Math.round(slowest)} ms (p99), ${Math.round(grown)} MiB more`,
    );
  });
});
