// One round of a contestant over HTTP: which measurements are taken, in which order.

import { type Contestant, Watcher } from "./contestant.ts";
import type { LoadGenerator } from "./load_generator.ts";
import {
  childrenCpuMs,
  machineCpuMs,
  ownCpuMs,
  peakResidentMiB,
  privateMiB,
} from "./process_use.ts";
import { descendants } from "./agent_under_test.ts";

/** The measurements of one round, by name; see README.md for what each one means. */
export type Metrics = Record<string, number>;

/** How many jobs each part of a round posts. */
export interface Sizes {
  readonly warmUp: number;
  /** Jobs that are posted one at a time. */
  readonly singles: number;
  /** Jobs by the number of connections that post them. */
  readonly posts: ReadonlyMap<number, number>;
}

/** Connections at which the processor time of jobs is taken. */
const KEY_CONNECTIONS = 32;
const DRAIN_SECONDS = 120;
/** Far enough that no delayed job becomes due during the run. */
const DELAY_MS = 24 * 60 * 60 * 1000;
/** Time to post the jobs that all become due together: this, and so often the expected time. */
const PRELOAD_MS_MIN = 500;
const PRELOAD_MARGIN = 2;
const PRELOAD_ATTEMPTS = 3;

export async function warmUp(
  contestant: Contestant,
  load: LoadGenerator,
  jobs: number,
): Promise<void> {
  const watcher = await Watcher.open(contestant);
  const before = await watcher.unfinished();
  const connections = Math.min(KEY_CONNECTIONS, jobs);
  await load.burst({ url: contestant.url, body: contestant.noop, connections, requests: jobs });
  await watcher.until(before, DRAIN_SECONDS);
  watcher.close();
}

/** One job at a time: how long it takes, and how soon its body begins. */
export async function measureSingles(
  contestant: Contestant,
  load: LoadGenerator,
  jobs: number,
): Promise<Metrics> {
  const { url, waits, noting: body } = contestant;
  return { ...await load.singles({ url, waits, body, jobs }) };
}

/** Posts jobs that execute meanwhile, and waits until the last one has ended. */
export async function measureExecuted(
  contestant: Contestant,
  load: LoadGenerator,
  connections: number,
  requests: number,
): Promise<Metrics> {
  const watcher = await Watcher.open(contestant);
  const before = await watcher.unfinished();
  const use = useOf(contestant, load);
  const began = performance.now();
  const { url, noop: body } = contestant;
  const accepted = await load.burst({ url, body, connections, requests });
  await watcher.until(before, DRAIN_SECONDS);
  const seconds = (performance.now() - began) / 1000;
  const used = use();
  watcher.close();
  const key = connections === KEY_CONNECTIONS;
  return {
    [`accepted_${connections}`]: accepted.per_second,
    [`accepted_${connections}_p50_ms`]: accepted.p50_ms,
    [`accepted_${connections}_p99_ms`]: accepted.p99_ms,
    [`finished_${connections}`]: requests / seconds,
    ...(key
      ? {
        server_cpu_ms: used.ownMs / requests,
        tasks_cpu_ms: used.childrenMs / requests,
        whole_cpu_ms: (used.ownMs + used.childrenMs) / requests,
        load_cpu_ms: used.loadMs / requests,
        machine_busy_percent: used.busyShare * 100,
      }
      : {}),
  };
}

/** Posts jobs that are due much later: nothing executes meanwhile. */
export async function measureDelayed(
  contestant: Contestant,
  load: LoadGenerator,
  connections: number,
  requests: number,
): Promise<Metrics> {
  const body = { ...contestant.noop, exec_after: new Date(Date.now() + DELAY_MS).toISOString() };
  const use = useOf(contestant, load);
  const accepted = await load.burst({ url: contestant.url, body, connections, requests });
  const { ownMs } = use();
  return {
    ...(connections === KEY_CONNECTIONS ? { accept_cpu_ms: ownMs / requests } : {}),
    [`delayed_${connections}`]: accepted.per_second,
    [`delayed_${connections}_p50_ms`]: accepted.p50_ms,
    [`delayed_${connections}_p99_ms`]: accepted.p99_ms,
  };
}

/**
 * Posts jobs that become due at one instant, and measures from then to the end of the last.
 * @param perSecond how fast the contestant was just seen to accept such jobs
 */
export async function measureDrained(
  contestant: Contestant,
  load: LoadGenerator,
  jobs: number,
  perSecond: number,
): Promise<Metrics> {
  const watcher = await Watcher.open(contestant);
  try {
    let preloadMs = PRELOAD_MS_MIN + PRELOAD_MARGIN * jobs / perSecond * 1000;
    for (let attempt = 1; attempt <= PRELOAD_ATTEMPTS; attempt++, preloadMs *= 2) {
      const before = await watcher.unfinished();
      const dueMs = Date.now() + preloadMs;
      const body = { ...contestant.noop, exec_after: new Date(dueMs).toISOString() };
      await load.burst({ url: contestant.url, body, connections: KEY_CONNECTIONS, requests: jobs });
      const inTime = Date.now() < dueMs;
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, dueMs - Date.now())));
      await watcher.until(before, DRAIN_SECONDS);
      if (inTime) return { drained: jobs / ((Date.now() - dueMs) / 1000) };
    }
    throw new Error(`${jobs} jobs could not be posted within ${preloadMs} ms`);
  } finally {
    watcher.close();
  }
}

/** Memory at the end of a round: the process itself, and the largest of those it has started. */
export function measureMemory({ pid }: Contestant): Metrics {
  const children = descendants(pid);
  return {
    server_peak_mib: peakResidentMiB(pid),
    children: children.length,
    child_private_mib: largest(children, privateMiB),
    child_peak_mib: largest(children, peakResidentMiB),
  };
}

function largest(pids: readonly number[], memoryMiB: (pid: number) => number): number {
  return pids.reduce((most, pid) => {
    try {
      return Math.max(most, memoryMiB(pid));
    } catch {
      return most; // It ended while we looked.
    }
  }, 0);
}

function useOf({ pid }: Contestant, load: LoadGenerator) {
  const own = ownCpuMs(pid);
  const children = childrenCpuMs(pid);
  const loadMs = load.cpuMs;
  const machine = machineCpuMs();
  return () => {
    const { busy, all } = machineCpuMs();
    return {
      ownMs: ownCpuMs(pid) - own,
      childrenMs: childrenCpuMs(pid) - children,
      loadMs: load.cpuMs - loadMs,
      busyShare: (busy - machine.busy) / (all - machine.all),
    };
  };
}
