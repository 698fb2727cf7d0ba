// An agent that runs jobs, for journeys over HTTP: the real application on a real port, a real store,
// a runner, and guests. Guests are slow to start, so the agents of one file share them.

import { noCapabilities } from "../sandbox/bodies.ts";
import { assertEquals } from "@std/assert";
import { type Incarnation, type JobUuid, randomUuid, type RunnerId } from "../../src/domain/id.ts";
import { systemNow } from "../../src/domain/instant.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { Notifiers } from "../../src/runtime/notifier.ts";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { Runner } from "../../src/runner/runner.ts";
import type { GuestPool } from "../../src/sandbox/pool.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { withPool } from "../runner/with_runner.ts";
import { until } from "../support/until.ts";
import { type HttpAgent, newJob, newWorkflow, objectOf, withHttpAgent } from "./http_agent.ts";
import { openGuestOwners } from "../../src/sandbox/process.ts";

export const OK = "function (job, cb) { cb(); }";
export const FAIL = "function (job, cb) { cb('no such disk'); }";
export const WAIT = "function (job, cb) { cb('wait'); }";
/** Runs until it is stopped. */
export const NEVER = "function (job, cb) {}";

export interface RunningAgent extends HttpAgent {
  /** Makes a workflow of these tasks and a job of it, and returns the job's uuid. */
  run(bodies: readonly string[], fields?: JsonObject): Promise<JobUuid>;
  /** The job, once its execution is one of these. */
  jobWhen(uuid: JobUuid, ...executions: string[]): Promise<JsonObject>;
}

/** What a row of a table says, and the journey that shows it. */
export type Row = readonly [
  words: string,
  journey: (agent: RunningAgent) => Promise<void>,
  slots?: number,
];

/** Runs each row as a test of its name, with an agent of its own. */
export function testRows(table: string, rows: readonly Row[]): void {
  Deno.test(table, async (t) => {
    await withPool(async (pool) => {
      for (const [words, journey, slots = 2] of rows) {
        await t.step(words, () => withRunningAgent(pool, slots, journey));
      }
    });
  });
}

async function withRunningAgent(
  pool: GuestPool,
  slots: number,
  run: (agent: RunningAgent) => Promise<void>,
): Promise<void> {
  const store = await openSqliteStore(":memory:");
  const changes = new Notifiers<JobUuid>();
  store.jobs.follow((notice) => {
    if (notice.kind === "changed" && notice.job_uuid !== undefined) {
      changes.notify(notice.job_uuid);
    }
  });
  const runner = new Runner({
    budget: openMemoryBudget(),
    ownerOf: openGuestOwners(),
    store,
    life: { runner_id: randomUuid<RunnerId>(), incarnation: randomUuid<Incarnation>() },
    earlier: [],
    slots,
    leaseMs: 60_000,
    guests: pool,
    performFor: noCapabilities,
    now: systemNow,
    monotonicMs: () => performance.now(),
    newUuid: randomUuid,
    retryCountsFirst: false,
    log: silentLog,
  });
  await runner.start();
  try {
    await withHttpAgent((agent) => run(runningAgent({ ...agent, store })), {
      store,
      changes,
      now: systemNow,
    });
  } finally {
    await runner.stop(0);
    await store.close();
  }
}

function runningAgent(agent: HttpAgent): RunningAgent {
  return {
    ...agent,
    run: async (bodies, fields = {}) => {
      const chain = bodies.map((body, n) => ({ name: `task ${n}`, body }));
      return await newJob(agent, { workflow: await newWorkflow(agent, { chain }), ...fields });
    },
    jobWhen: (uuid, ...executions) =>
      until(`job ${uuid} to be ${executions.join(" or ")}`, async () => {
        const job = objectOf(await agent.call("GET", `/jobs/${uuid}`));
        return executions.includes(String(job.execution)) ? job : undefined;
      }),
  };
}

/** `result` and `error` of the entries of a chain. */
export function resultsIn(entries: unknown): unknown[][] {
  assertEquals(Array.isArray(entries), true);
  return (entries as JsonObject[]).map(({ result, error }) => [result, error]);
}
