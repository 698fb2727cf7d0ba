// Measures the wall: one pool of guests after the other, each asked as the runner asks it. This
// process is the trusted side.

import { DEFAULT_LIMITS } from "../src/config/limits.ts";
import { openDecoders } from "../src/decoder/pool.ts";
import { openSourceChecks } from "../src/decoder/source_checks.ts";
import type { SelfCommand } from "../src/runtime/executable.ts";
import { silentLog } from "../src/metrics/log.ts";
import type { GuestOwner } from "../src/sandbox/process.ts";
import { findGuestUser } from "../src/sandbox/user.ts";
import { type GuestPool, openPool } from "../src/sandbox/pool.ts";
import { runTask, type TaskOutcome } from "../src/sandbox/run_task.ts";
import type { Perform } from "../src/sandbox/task_calls.ts";
import { descendants } from "./agent_under_test.ts";
import { measureDecoders } from "./decoder_rounds.ts";
import { childrenCpuMs, OthersWatch, ownCpuMs } from "./process_use.ts";
import { withFolder } from "./run_folder.ts";

/** Guests that run no-op tasks at the same time. */
export const GUESTS = [1, 2, 8] as const;

/** Workflows whose tasks take turns: all of them stay warm, and more than stay warm. */
export const TURNS = [2, 4, 16] as const;

export interface SandboxSizes {
  readonly seconds: number;
  readonly starts: number;
  readonly kills: number;
  readonly calls: number;
  /** Tasks that are the first of their workflow in a guest. */
  readonly firsts: number;
}

/** By name, as SANDBOX_FIGURES in sandbox_report.ts tells them. */
export type SandboxFigures = Readonly<Record<string, number>>;

const NO_OP = "(job, cb) => cb()";
const LOOP = "async () => { await info({}); for (;;); }";
const TIMEOUT_MS = 60_000;
/** A workflow's timeout in the bodies that are ended by it. */
const SHORT_MS = 50;
const WARM_UP_MS = 500;
const KIB_PER_MIB = 1024;
/** Time for the pool to have renewed its idle guests; longer than it waits itself. */
const REST_DEADLINE_MS = 60_000;
/** Capability calls under way together in the second figure of calls. */
const TOGETHER = 32;

const answer: Perform = () => Promise.resolve(null);

function run(
  pool: GuestPool,
  source: string,
  {
    perform = answer,
    signal = new AbortController().signal,
    timeoutMs = TIMEOUT_MS,
    workflow = "bench",
  } = {},
): Promise<TaskOutcome> {
  const job = { uuid: "1", params: { name: "bench" } };
  const owner = workflow as GuestOwner;
  const task = { owner, source, kind: "body", job, taskName: "bench", timeoutMs } as const;
  return runTask(pool, task, perform, signal);
}

async function mustSucceed(outcome: Promise<TaskOutcome>): Promise<TaskOutcome> {
  const reported = await outcome;
  if (reported.kind !== "success") {
    throw new Error(`a task did not succeed: ${JSON.stringify(reported)}`);
  }
  return reported;
}

/** Opens a pool as the agent of this program would. */
async function withPool<T>(
  folder: string,
  self: SelfCommand,
  slots: number,
  measure: (pool: GuestPool) => Promise<T>,
): Promise<T> {
  const { os } = Deno.build;
  const user = await findGuestUser("auto", { self, os, root: Deno.uid() === 0, log: silentLog });
  return await withFolder(folder, async (runtimeDir) => {
    const shared = { self, slots, log: silentLog, ...(user === undefined ? {} : { user }) };
    const decoders = openDecoders(shared);
    const checkSource = openSourceChecks(decoders).runnable;
    const pool = await openPool({ ...shared, runtimeDir, checkSource, limits: DEFAULT_LIMITS });
    try {
      return await measure(pool);
    } finally {
      await pool.close();
      await decoders.close();
    }
  });
}

/** The first task of a workflow, with a spare and where a process must start. Medians, ms. */
async function measureOthers(folder: string, self: SelfCommand, { firsts }: SandboxSizes) {
  const timed = async (pool: GuestPool, workflow: string) => {
    const began = performance.now();
    await mustSucceed(run(pool, NO_OP, { workflow }));
    return performance.now() - began;
  };
  return await withPool(folder, self, 1, async (pool) => {
    const [spare, none]: number[][] = [[], []];
    // A fresh pool has more spares than it keeps later.
    for (const first of ["a", "b"]) await timed(pool, first);
    for (let count = 0; count < firsts; count++) {
      await quiet(pool);
      spare?.push(await timed(pool, `spare ${count}`));
      // The spare goes to the first of two that come together.
      await quiet(pool);
      const both = [timed(pool, `one ${count}`), timed(pool, `other ${count}`)];
      none?.push(Math.max(...await Promise.all(both)));
    }
    return { other_spare_ms: median(spare), other_none_ms: median(none) };
  });
}

/** Waits until nothing is being started and a spare is there. */
async function quiet(pool: GuestPool): Promise<void> {
  for (;;) {
    const { starting, spare } = pool.counts();
    if (starting === 0 && spare > 0) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Tasks/s where each task is of the next of so many workflows, in two slots. */
async function measureTurns(folder: string, self: SelfCommand, { seconds }: SandboxSizes) {
  const figures: Record<string, number> = {};
  for (const workflows of TURNS) {
    figures[`turns_${workflows}`] = await withPool(folder, self, 2, async (pool) => {
      let count = 0;
      const slot = async (end: number) => {
        while (performance.now() < end) {
          const workflow = `${count++ % workflows}`;
          await mustSucceed(run(pool, NO_OP, { workflow }));
        }
      };
      const both = (ms: number) => {
        const end = performance.now() + ms;
        return Promise.all([slot(end), slot(end)]);
      };
      await both(WARM_UP_MS);
      count = 0;
      const began = performance.now();
      await both(seconds * 1000);
      return count / (performance.now() - began) * 1000;
    });
  }
  return figures;
}

function median(values: readonly number[] = []): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}

/** Runs tasks in every slot until the time is up. @returns how many */
async function runFor(pool: GuestPool, slots: number, ms: number): Promise<number> {
  const end = performance.now() + ms;
  const each = Array.from({ length: slots }, async () => {
    let count = 0;
    for (; performance.now() < end; count++) await mustSucceed(run(pool, NO_OP));
    return count;
  });
  return (await Promise.all(each)).reduce((sum, count) => sum + count);
}

/** Memory that only a process has, MiB. Read as the agent reads it: Deno is closed to /proc. */
async function privateMiB(pid: number): Promise<number> {
  const { stdout } = await new Deno.Command("/usr/bin/cat", {
    args: [`/proc/${pid}/smaps_rollup`],
    stderr: "null",
  }).output();
  const fields = new TextDecoder().decode(stdout).matchAll(/^Private_\w+:\s+(\d+) kB$/gm);
  return Array.from(fields, ([, kib]) => Number(kib)).reduce((sum, kib) => sum + kib, 0) /
    KIB_PER_MIB;
}

async function largestMiB(pool: GuestPool): Promise<number> {
  return Math.max(...await Promise.all(pool.pids().map(privateMiB)));
}

async function measureTasks(pool: GuestPool, slots: number, { seconds }: SandboxSizes) {
  await runFor(pool, slots, WARM_UP_MS);
  const [own, guests, began] = [ownCpuMs(Deno.pid), childrenCpuMs(Deno.pid), performance.now()];
  const count = await runFor(pool, slots, seconds * 1000);
  return {
    [`tasks_${slots}`]: count / (performance.now() - began) * 1000,
    [`guest_cpu_${slots}`]: (childrenCpuMs(Deno.pid) - guests) / count,
    [`agent_cpu_${slots}`]: (ownCpuMs(Deno.pid) - own) / count,
  };
}

/** From the opening of a pool to the end of its first task, milliseconds. */
async function measureStart(folder: string, self: SelfCommand): Promise<number> {
  const began = performance.now();
  return await withPool(folder, self, 1, async (pool) => {
    await mustSucceed(run(pool, NO_OP));
    return performance.now() - began;
  });
}

/** Ends endless tasks by cancel and by timeout, with the spare ready. Means, milliseconds. */
async function measureEnds(pool: GuestPool, { kills }: SandboxSizes) {
  const [recorded, usable, late]: number[][] = [[], [], []];
  for (let round = 0; round < kills; round++) {
    await bothReady(pool);
    const looping = Promise.withResolvers<void>();
    const perform: Perform = () => (looping.resolve(), Promise.resolve(null));
    const cancel = new AbortController();
    const canceled = run(pool, LOOP, { perform, signal: cancel.signal });
    await looping.promise;
    const began = performance.now();
    cancel.abort();
    await canceled;
    recorded?.push(performance.now() - began);
    await mustSucceed(run(pool, NO_OP));
    usable?.push(performance.now() - began);

    await bothReady(pool);
    const timed = performance.now();
    await run(pool, "() => { for (;;); }", { timeoutMs: SHORT_MS });
    late?.push(performance.now() - timed - SHORT_MS);
  }
  return { recorded_ms: worst(recorded), usable_ms: worst(usable), late_ms: worst(late) };
}

function worst(values: readonly number[] = []): number {
  return Math.max(...values);
}

/**
 * Runs two tasks that wait for each other: afterwards the slot and its spare are ready. A spare is
 * started then, which must not take the processor from what is measured.
 */
async function bothReady(pool: GuestPool): Promise<void> {
  let running = 0;
  const together = Promise.withResolvers<null>();
  const perform: Perform = () => {
    running += 1;
    if (running === 2) together.resolve(null);
    return together.promise;
  };
  const source = "async (job, cb) => { await info({}); cb() }";
  await Promise.all([run(pool, source, { perform }), run(pool, source, { perform })]);
  await quiet(pool);
}

async function measureCalls(pool: GuestPool, { calls }: SandboxSizes) {
  const perSecond = async (source: string) => {
    const began = performance.now();
    await mustSucceed(run(pool, source));
    return calls / (performance.now() - began) * 1000;
  };
  const rounds = Math.ceil(calls / TOGETHER);
  return {
    calls_1: await perSecond(
      `async (job, cb) => { for (let i = 0; i < ${calls}; i++) await vmadm.get("x"); cb() }`,
    ),
    calls_32: await perSecond(`async (job, cb) => {
      const get = () => vmadm.get("x");
      for (let i = 0; i < ${rounds}; i++) {
        await Promise.all(Array.from({ length: ${TOGETHER} }, get));
      }
      cb();
    }`),
  };
}

/** Private memory of the largest guest: fresh, at work, and when it has had a rest. */
async function measureMemory(folder: string, self: SelfCommand, { seconds }: SandboxSizes) {
  return await withPool(folder, self, 1, async (pool) => {
    await bothReady(pool);
    const fresh_mib = await largestMiB(pool);
    await runFor(pool, 1, seconds * 1000);
    const worked_mib = await largestMiB(pool);
    const before = pool.pids();
    const end = performance.now() + REST_DEADLINE_MS;
    // The one that has worked, at least, is another one then.
    while (pool.pids().every((pid) => before.includes(pid)) && performance.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await bothReady(pool);
    return { fresh_mib, worked_mib, rested_mib: await largestMiB(pool) };
  });
}

/** Runs every measurement once. */
export async function measureSandbox(
  folder: string,
  self: SelfCommand,
  sizes: SandboxSizes,
): Promise<SandboxFigures> {
  const others = new OthersWatch();
  const starts: number[] = [];
  for (let start = 0; start < sizes.starts; start++) starts.push(await measureStart(folder, self));
  let figures: Record<string, number> = {
    first_task_ms: median(starts),
  };
  for (const slots of GUESTS) {
    const tasks = await withPool(folder, self, slots, (pool) => measureTasks(pool, slots, sizes));
    figures = { ...figures, ...tasks };
  }
  const ends = await withPool(folder, self, 1, async (pool) => ({
    ...await measureEnds(pool, sizes),
    ...await measureCalls(pool, sizes),
  }));
  const turns = {
    ...await measureOthers(folder, self, sizes),
    ...await measureTurns(folder, self, sizes),
  };
  const memory = await measureMemory(folder, self, sizes);
  const { os } = Deno.build;
  const user = await findGuestUser("auto", { self, os, root: Deno.uid() === 0, log: silentLog });
  const decoders = await measureDecoders(self, user, sizes.starts);
  if (descendants(Deno.pid).length > 0) throw new Error("a guest or a decoder was left behind");
  const kept = { ...figures, ...ends, ...turns, ...memory, ...decoders };
  return { ...kept, others_busy_percent: others.busyPercent };
}
