// What an agent holds of its host: memory, descriptors, processes, and its place on the disk.

import { residentMiB } from "./memory.ts";

const MIB = 1024 * 1024;

/** One look, or what is allowed of each. */
export interface Holdings {
  readonly residentMiB: number;
  readonly descriptors: number;
  /** Those that the agent has started, and theirs. */
  readonly processes: number;
  /** The file without its log, which SQLite keeps small by itself. */
  readonly databaseMiB: number;
}

/** Looks at a process and the file of its database. */
export function holdings(pid: number, database: string): Holdings {
  return {
    residentMiB: residentMiB(pid),
    descriptors: Array.from(Deno.readDirSync(`/proc/${pid}/fd`)).length,
    processes: descendantsOf(pid),
    databaseMiB: Deno.statSync(database).size / MIB,
  };
}

/** The middle of each, so that a moment counts for nothing. */
export function medianOf(looks: readonly Holdings[]): Holdings {
  const median = (name: keyof Holdings) =>
    looks.map((look) => look[name]).sort((one, other) => one - other)[looks.length >> 1] ?? NaN;
  return {
    residentMiB: median("residentMiB"),
    descriptors: median("descriptors"),
    processes: median("processes"),
    databaseMiB: median("databaseMiB"),
  };
}

/** For one line of a report. */
export function shown({ residentMiB, descriptors, processes, databaseMiB }: Holdings): string {
  return `${Math.round(residentMiB)} MiB, ${descriptors} descriptors, ${processes} processes, ` +
    `database ${databaseMiB.toFixed(1)} MiB`;
}

function descendantsOf(pid: number): number {
  const children = new Map<number, number[]>();
  for (const { name } of Deno.readDirSync("/proc")) {
    const parent = parentOf(name);
    if (parent !== undefined) children.set(parent, [...children.get(parent) ?? [], Number(name)]);
  }
  const count = (of: number): number =>
    (children.get(of) ?? []).reduce((sum, child) => sum + 1 + count(child), 0);
  return count(pid);
}

function parentOf(pid: string): number | undefined {
  if (!/^\d+$/.test(pid)) return undefined;
  try {
    const status = Deno.readTextFileSync(`/proc/${pid}/status`);
    return Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]);
  } catch {
    return undefined; // it has ended since the folder was read
  }
}
