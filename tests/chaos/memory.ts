// The memory of a process, as Linux counts it.

const MIB = 1_024; // of the kB in which /proc counts

function statusOf(pid: number, name: string): number {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? Number.NaN) / MIB;
}

/** Resident memory now, MiB. */
export function residentMiB(pid: number): number {
  return statusOf(pid, "VmRSS");
}

/** Most resident memory since the last `forgetPeak`, MiB. */
export function peakMiB(pid: number): number {
  return statusOf(pid, "VmHWM");
}

/** Lets the peak begin again. @see proc(5), clear_refs */
export function forgetPeak(pid: number): void {
  Deno.writeTextFileSync(`/proc/${pid}/clear_refs`, "5");
}
