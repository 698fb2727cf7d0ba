// Watches the resident memory of guests while they run tasks. V8 limits its heap, and the kernel limits what a process
// reserves; neither counts the memory in use with its buffers. On Linux /proc shows it, but Deno opens that only with
// all permissions, so one `cat` reads it for all working guests; on illumos `ps` does.

import type { Log } from "../metrics/log.ts";

/** Memory of a guest, MiB: about 60 for itself, the rest for its task. */
const RESIDENT_MIB_MAX = 320;
const LOOK_MS = 250;
const KIB_PER_MIB = 1024;

/** Paths of cat(1) on Linux or ps(1) on illumos. */
interface Programs {
  readonly cat?: string | undefined;
  readonly ps?: string | undefined;
}

/** A process watched while it works. */
interface WatchedProcess {
  readonly pid: number;
  /** Number of tasks so far, which identifies the current one. */
  readonly runs: number;
  readonly alive: boolean;
  kill(why: string, outOfMemory: boolean): void;
}

/** Opened and closed with its pool. Reads only while a task runs for some time. */
export class MemoryWatch {
  readonly #programs: Programs;
  readonly #log: Log;
  /** Working guests, with the execution seen by the last reading. */
  readonly #atWork = new Map<WatchedProcess, number | undefined>();
  #timer: ReturnType<typeof setInterval> | undefined;
  #looking = false;
  #closed = false;

  /** @param programs their paths; without either, nothing is watched */
  constructor(programs: Programs, log: Log) {
    this.#programs = programs;
    this.#log = log;
  }

  /** Call when a task begins in a guest. */
  enter(guest: WatchedProcess): void {
    const { cat, ps } = this.#programs;
    if (cat === undefined && ps === undefined || this.#closed) return;
    this.#atWork.set(guest, undefined);
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS);
  }

  /** Called when the guest's task has ended: an idle guest is not measured. */
  leave(guest: WatchedProcess): void {
    this.#atWork.delete(guest);
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
  }

  #look(): void {
    if (this.#atWork.size === 0) {
      // The timer is not stopped in leave(), so that successive tasks share it.
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    const lasting = [...this.#atWork].flatMap(([guest, run]) => run === guest.runs ? [guest] : []);
    for (const guest of this.#atWork.keys()) this.#atWork.set(guest, guest.runs);
    if (lasting.length > 0 && !this.#looking) this.#measure(lasting);
  }

  async #measure(guests: readonly WatchedProcess[]): Promise<void> {
    this.#looking = true;
    try {
      const residents = await readResidents(this.#programs, guests.map(({ pid }) => pid));
      for (const guest of guests) {
        const mib = Math.round((residents.get(guest.pid) ?? 0) / KIB_PER_MIB);
        // The task may have ended during the reading; the next task must not be blamed for its memory.
        const goesOn = this.#atWork.get(guest) === guest.runs;
        if (mib <= RESIDENT_MIB_MAX || !guest.alive || !goesOn) continue;
        guest.kill(`took ${mib} MiB of memory (the limit is ${RESIDENT_MIB_MAX} MiB)`, true);
      }
    } catch (error) {
      this.#log.warn("memory of guests not read", { error });
    }
    this.#looking = false;
  }
}

/**
 * Resident memory by process id, KiB; without those that have ended.
 * @see proc_pid_status(5); ps(1) on illumos, where `rss` is in KiB too
 */
async function readResidents(
  { cat, ps = "" }: Programs,
  pids: readonly number[],
): Promise<Map<number, number>> {
  const read = async (program: string, args: string[]) => {
    const { stdout } = await new Deno.Command(program, {
      args,
      clearEnv: true,
      cwd: "/",
      stdin: "null",
      stderr: "null",
    }).output();
    return new TextDecoder().decode(stdout);
  };
  if (cat !== undefined) {
    return residentsOfStatus(await read(cat, pids.map((pid) => `/proc/${pid}/status`)));
  }
  const text = await read(ps, ["-o", "pid=", "-o", "rss=", "-p", pids.join()]);
  const lines = text.matchAll(/^[ \t]*(\d+)[ \t]+(\d+)[ \t]*$/gm);
  return new Map(Array.from(lines, ([, pid, kib]) => [Number(pid), Number(kib)]));
}

function residentsOfStatus(text: string): Map<number, number> {
  const fields = text.matchAll(/^Pid:\s*(\d+)$|^VmRSS:\s*(\d+) kB$/gm);
  const residents = new Map<number, number>();
  let pid = 0;
  for (const [, ofPid, kib] of fields) {
    if (ofPid !== undefined) pid = Number(ofPid);
    else residents.set(pid, Number(kib));
  }
  return residents;
}
