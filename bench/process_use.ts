// What processes have used so far, from /proc: processor time and memory.

import { descendants } from "./agent_under_test.ts";

/** Of the clock in /proc, on every Linux that this runs on. */
const MS_PER_TICK = 10;
const KIB_PER_MIB = 1024;

function statFields(path: string): number[] {
  const stat = Deno.readTextFileSync(path);
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ").map(Number);
}

/** Processor time of one process, without its children, milliseconds. */
export function ownCpuMs(pid: number): number {
  const fields = statFields(`/proc/${pid}/stat`);
  return ((fields[11] ?? 0) + (fields[12] ?? 0)) * MS_PER_TICK;
}

/** Processor time of all below a process, those that have ended included, milliseconds. */
export function childrenCpuMs(pid: number): number {
  const ended = (fields: number[]) => ((fields[13] ?? 0) + (fields[14] ?? 0)) * MS_PER_TICK;
  return descendants(pid).reduce((sum, child) => {
    try {
      return sum + ownCpuMs(child) + ended(statFields(`/proc/${child}/stat`));
    } catch {
      return sum; // It ended while we looked, and counts among the ended next time.
    }
  }, ended(statFields(`/proc/${pid}/stat`)));
}

/** Watches how much of the machine is used by what does not belong to this run. */
export class OthersWatch {
  readonly #machine = machineCpuMs();
  readonly #run = runCpuMs();

  /** Since the start of the watch, percent of all processors. */
  get busyPercent(): number {
    const { busy, all } = machineCpuMs();
    const ours = runCpuMs() - this.#run;
    const others = busy - this.#machine.busy - ours;
    return Math.max(0, others) / (all - this.#machine.all) * 100;
  }
}

/** Processor time of this run: of this process, and of all that it has started. */
function runCpuMs(): number {
  return ownCpuMs(Deno.pid) + childrenCpuMs(Deno.pid);
}

/** Processor time of the whole machine that was not idle, and all of it, milliseconds. */
export function machineCpuMs(): { busy: number; all: number } {
  const line = Deno.readTextFileSync("/proc/stat").split("\n", 1)[0] ?? "";
  // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user already.
  const ticks = line.split(/\s+/).slice(1, 9).map(Number);
  const all = ticks.reduce((sum, tick) => sum + tick, 0);
  const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
  return { busy: (all - idle) * MS_PER_TICK, all: all * MS_PER_TICK };
}

/** The most memory that a process has had resident, MiB. */
export function peakResidentMiB(pid: number): number {
  return kibOf(`/proc/${pid}/status`, "VmHWM") / KIB_PER_MIB;
}

/** Memory that only this process has, MiB. */
export function privateMiB(pid: number): number {
  const path = `/proc/${pid}/smaps_rollup`;
  return (kibOf(path, "Private_Clean") + kibOf(path, "Private_Dirty")) / KIB_PER_MIB;
}

/** Memory of a process and of all below it, shared pages counted once, MiB. */
export function treeMiB(pid: number): number {
  return [pid, ...descendants(pid)].reduce((sum, each) => {
    try {
      return sum + kibOf(`/proc/${each}/smaps_rollup`, "Pss") / KIB_PER_MIB;
    } catch {
      return sum; // It ended while we looked.
    }
  }, 0);
}

function kibOf(path: string, name: string): number {
  const text = Deno.readTextFileSync(path);
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0);
}
