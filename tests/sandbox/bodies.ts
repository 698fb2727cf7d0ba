// Running bodies in tests: a pool of real guests for one test file, and one call per execution.

import { fromFileUrl } from "@std/path";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { type SelfCommand } from "../../src/runtime/executable.ts";
import { silentLog } from "../../src/metrics/log.ts";
import type { GuestOwner } from "../../src/sandbox/process.ts";
import { type GuestPool, openPool, type PoolOptions } from "../../src/sandbox/pool.ts";
import {
  type LentGuests,
  runTask,
  type TaskOutcome,
  type TaskRun,
} from "../../src/sandbox/run_task.ts";
import type { Perform, TaskPerform } from "../../src/sandbox/task_calls.ts";
import { heldTimers } from "../support/timers.ts";
import { withFolder } from "../support/until.ts";
import { sourceChecksHere } from "../support/parsed_workflow.ts";
import { selfOfRun } from "../support/agent_process.ts";

/** Long enough for any body that ends by itself on a busy machine. */
const TIMEOUT_MS = 120_000;

/** The workflow of a test that needs one by name. */
export function ownerNamed(name: string): GuestOwner {
  return name as GuestOwner;
}

/** Answers every call with its name and arguments. */
export const echo: Perform = (name, args) => Promise.resolve({ name, args: [...args] });

/** Refuses every call: for runners whose tasks call nothing. */
export function noCapabilities(): TaskPerform {
  const refuse: Perform = (name) => Promise.reject(new Error(`No ${name} here`));
  return Object.assign(refuse, { close: () => {} });
}

/** Answers a call when it is aborted, and not before. */
export const endless: Perform = (_name, _args, signal) =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(null), { once: true }));

export interface BodyOptions extends Partial<TaskRun> {
  readonly perform?: Perform;
  readonly signal?: AbortSignal;
}

/** Runs one body to its outcome. */
export type RunBody = (source: string, options?: BodyOptions) => Promise<TaskOutcome>;

/** Runs a function with a pool of one slot and a spare, and closes the pool. */
export async function withPool(
  run: (body: RunBody, pool: GuestPool) => Promise<void>,
  options: Partial<PoolOptions> = {},
): Promise<void> {
  await withFolder(async (runtimeDir) => {
    const self = selfOfRun();
    const checkSource = sourceChecksHere().runnable;
    const limits = DEFAULT_LIMITS;
    // However long the test has to wait between two tasks, its guests stay.
    const timers = heldTimers();
    const place = { self, slots: 1, runtimeDir, log: silentLog, checkSource, limits, timers };
    const pool = await openPool({ ...place, ...options });
    try {
      await run((source, body = {}) => runBody(pool, source, body), pool);
    } finally {
      await pool.close();
    }
  });
}

/** A stand-in for a guest that misbehaves in this way, see hostile_guest.ts. */
export function hostile(way: string): SelfCommand {
  const script = fromFileUrl(new URL("hostile_guest.ts", import.meta.url));
  const args = ["run", "--quiet", "--no-config", "--no-lock", "-A", script, way];
  return { program: Deno.execPath(), args, env: { NO_COLOR: "1" }, compiled: false };
}

export function runBody(
  pool: LentGuests,
  source: string,
  { perform = echo, signal = new AbortController().signal, ...run }: BodyOptions,
): Promise<TaskOutcome> {
  const task: TaskRun = {
    owner: ownerNamed("a test"),
    source,
    kind: "body",
    job: {},
    taskName: "prepare",
    timeoutMs: TIMEOUT_MS,
    ...run,
  };
  return runTask(pool, task, perform, signal);
}

/** Runs tasks that wait for one another: afterwards as many guests are known to be ready. */
export async function meet(run: RunBody, tasks = 2): Promise<TaskOutcome[]> {
  let running = 0;
  const together = Promise.withResolvers<null>();
  const perform = () => {
    running += 1;
    if (running === tasks) together.resolve(null);
    return together.promise;
  };
  const source = "async (job, cb) => { await info({}); cb() }";
  return await Promise.all(Array.from({ length: tasks }, () => run(source, { perform })));
}
