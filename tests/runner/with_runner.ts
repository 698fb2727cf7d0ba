// A runner with everything real around it: SQLite, guest processes, the clock of the system. Tests
// of one file share the guests, which hold nothing of a task after its end.

import { noCapabilities } from "../sandbox/bodies.ts";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import {
  type Incarnation,
  type JobUuid,
  randomUuid,
  type RunnerId,
  type WorkflowUuid,
} from "../../src/domain/id.ts";
import { systemNow } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import { isFinal } from "../../src/domain/job/state.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { Workflow } from "../../src/domain/job/workflow.ts";
import { parseWorkflow, sourceChecksHere } from "../support/parsed_workflow.ts";
import { openLog } from "../../src/metrics/log.ts";
import { type MemoryBudget, openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { Runner } from "../../src/runner/runner.ts";
import { type GuestPool, openPool } from "../../src/sandbox/pool.ts";
import type { Perform } from "../../src/sandbox/task_calls.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { until } from "../support/until.ts";
import { openGuestOwners } from "../../src/sandbox/process.ts";
import { selfOfRun } from "../support/agent_process.ts";
import { NO_LIMIT } from "../support/limits.ts";

export interface RunnerUnderTest {
  readonly store: Store;
  readonly runner: Runner;
  /** Messages of the log, in their order. */
  readonly messages: string[];
  /** Stores a workflow and queues a job of it. */
  post(workflow: JsonObject, job?: { params?: JsonObject; exec_after?: string }): Promise<JobUuid>;
  /** Waits until the job is as wanted. */
  jobWhen(uuid: JobUuid, what: string, wanted: (job: Job) => boolean): Promise<Job>;
  finished(uuid: JobUuid): Promise<Job>;
}

export interface RunnerSetting {
  readonly slots?: number;
  readonly perform?: Perform;
  readonly store?: Store;
  readonly retryCountsFirst?: boolean;
  readonly budget?: MemoryBudget;
}

const LIMITS = { tasksMax: 100, sourceCharsMax: 100_000, retryMax: 100, timeoutSecondsMax: 86_400 };

/** Runs a test with a pool that is closed afterwards; its parts share it. */
export async function withPool(run: (pool: GuestPool) => Promise<void>): Promise<void> {
  const runtimeDir = await Deno.makeTempDir({ prefix: "zonewright-test-" });
  const log = openLog({ level: "error", format: "text", write: () => {}, now: systemNow });
  const checkSource = sourceChecksHere().runnable;
  const pool = await openPool({
    self: selfOfRun(),
    limits: DEFAULT_LIMITS,
    slots: 2,
    runtimeDir,
    log,
    checkSource,
  });
  try {
    await run(pool);
  } finally {
    await pool.close();
    await Deno.remove(runtimeDir, { recursive: true });
  }
}

/** Runs a test with a runner of its own on an empty store. */
export async function withRunner(
  pool: GuestPool,
  setting: RunnerSetting,
  run: (under: RunnerUnderTest) => Promise<void>,
): Promise<void> {
  const store = setting.store ?? await openSqliteStore(":memory:");
  const messages: string[] = [];
  const runner = openRunner(pool, store, setting, messages);
  await runner.start();
  const jobWhen = (uuid: JobUuid, what: string, wanted: (job: Job) => boolean) =>
    until(`job to be ${what}`, async () => {
      const job = await store.jobs.get(uuid);
      return job !== undefined && wanted(job) ? job : undefined;
    });
  try {
    await run({
      store,
      runner,
      messages,
      post: (workflow, job = {}) => post(store, runner, workflow, job),
      jobWhen,
      finished: (uuid) => jobWhen(uuid, "finished", (job) => isFinal(job.execution)),
    });
  } finally {
    await runner.stop(0);
    if (setting.store === undefined) await store.close();
  }
}

function openRunner(
  pool: GuestPool,
  store: Store,
  setting: RunnerSetting,
  messages: string[],
): Runner {
  return new Runner({
    budget: setting.budget ?? openMemoryBudget(),
    ownerOf: openGuestOwners(),
    store,
    life: { runner_id: randomUuid<RunnerId>(), incarnation: randomUuid<Incarnation>() },
    earlier: [],
    slots: setting.slots ?? 2,
    leaseMs: 60_000,
    guests: pool,
    performFor: () =>
      setting.perform === undefined
        ? noCapabilities()
        : Object.assign(setting.perform.bind(null), { close: () => {} }),
    now: systemNow,
    monotonicMs: () => performance.now(),
    newUuid: randomUuid,
    retryCountsFirst: setting.retryCountsFirst ?? false,
    log: openLog({
      level: "debug",
      format: "json",
      write: (line) => messages.push(JSON.parse(line).msg),
      now: systemNow,
    }),
  });
}

async function post(
  store: Store,
  runner: Runner,
  definition: JsonObject,
  job: { params?: JsonObject; exec_after?: string },
): Promise<JobUuid> {
  const workflow: Workflow = parseWorkflow(
    { name: "sample", ...definition },
    randomUuid<WorkflowUuid>(),
    randomUuid,
    LIMITS,
  );
  await store.workflows.create(workflow, { max: NO_LIMIT });
  const outcome = await store.jobs.create({
    uuid: randomUuid<JobUuid>(),
    workflow,
    exec_after: job.exec_after,
    target: null,
    params: job.params ?? {},
  }, NO_LIMIT);
  if (outcome.kind !== "created") throw new Error(`The job was not created: ${outcome.kind}`);
  runner.wake();
  return outcome.job.uuid;
}
