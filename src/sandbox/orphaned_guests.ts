// Ends guests and decoders that outlive their agent. On Linux setpriv asks the kernel for that. On illumos a shell of the
// agent's own user, which no guest may signal, keeps the id of each process and kills those that remain once the agent has
// ended for any reason. If both are killed, the next agent finds the ids in the state folder and ends the processes.

import { join } from "@std/path";
import { systemNow } from "../domain/instant.ts";
import type { Log } from "../metrics/log.ts";
import { type SideShell, startSideShell } from "./side_shell.ts";

/** Reads `add PID` and `end PID` until the agent closes the other end or dies. */
const KILLER_SCRIPT = `trap '' HUP INT QUIT TERM
held=
while read -r word pid; do
  rest=
  for one in $held; do [ "$one" = "$pid" ] || rest="$rest $one"; done
  held=$rest
  [ "$word" = end ] || held="$held $pid"
done
for one in $held; do kill -KILL "$one"; done`;

/** Opened and closed with its pool. */
export interface OrphanKiller {
  /** Keeps the id of a process that must not outlive the agent. */
  keep(child: Deno.ChildProcess): void;
  /** Ends the processes that are still kept. */
  close(): Promise<void>;
}

interface KillerTools {
  readonly setpriv?: string;
  readonly sh?: string;
  readonly ps?: string;
}

interface KillerPlace {
  readonly log: Log;
  /** Where the next agent finds the ids; undefined for a program without a state folder. */
  readonly folder?: string | undefined;
}

/**
 * Ends the processes that the last agent with this folder left, and opens the next orphan killer.
 * @returns undefined if the kernel ends such processes, or nothing can
 */
export async function openOrphanKiller(
  { setpriv, sh, ps }: KillerTools,
  { log, folder }: KillerPlace,
): Promise<OrphanKiller | undefined> {
  if (sh === undefined || setpriv !== undefined) return undefined;
  if (folder !== undefined) await endLeft(folder, ps, log);
  return killerBy(sh, log, folder === undefined ? undefined : openNotes(folder, log));
}

function killerBy(sh: string, log: Log, notes: Notes | undefined): OrphanKiller {
  const kept = new Set<number>();
  let closing = false;
  let mayReopen = false;
  const open = () => {
    const opened = startSideShell(sh, KILLER_SCRIPT);
    for (const pid of kept) void opened.tell(`add ${pid}`);
    void opened.ended.then(() => {
      if (closing) return;
      log.warn("guests may outlive the agent", { reason: "the shell that ends them has ended" });
      // An orphan killer that keeps dying is started again only for the next process to keep.
      current = mayReopen ? reopen() : undefined;
      mayReopen = false;
    });
    return opened;
  };
  const reopen = () => {
    try {
      return open();
    } catch {
      // The host cannot start a process now; the next kept process tries again.
      return undefined;
    }
  };
  let current: SideShell | undefined = open();
  return {
    keep({ pid, status }) {
      current ??= reopen();
      mayReopen = true;
      kept.add(pid);
      void current?.tell(`add ${pid}`);
      notes?.add(pid);
      status.then(() => {
        kept.delete(pid);
        notes?.end(pid);
        void current?.tell(`end ${pid}`);
      });
    },
    async close() {
      closing = true;
      await current?.close();
    },
  };
}

/**
 * The ids of kept processes, for the next agent: an empty folder for each, because one system call creates or removes it,
 * whatever kills the agent in between. Its name is the id and the start time, milliseconds since 1970.
 */
interface Notes {
  add(pid: number): void;
  end(pid: number): void;
}

const NOTE = /^(\d+)-(\d+)$/;
/** Days, hours, minutes and seconds. @see ps(1), etime */
const ELAPSED = /^(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)$/;
/** Largest difference between a noted start time and that of ps(1): ps shows whole seconds, and the host may be busy. */
const START_SLACK_MS = 5000;

function nowMs(): number {
  return Date.parse(systemNow());
}

function openNotes(folder: string, log: Log): Notes {
  const names = new Map<number, string>();
  const orWarn = (work: () => void) => {
    try {
      work();
    } catch (error) {
      log.warn("kept process not noted", { error });
    }
  };
  return {
    add(pid) {
      const name = `${pid}-${nowMs()}`;
      names.set(pid, name);
      orWarn(() => Deno.mkdirSync(join(folder, name), { recursive: true, mode: 0o700 }));
    },
    end(pid) {
      const name = names.get(pid);
      names.delete(pid);
      if (name !== undefined) orWarn(() => Deno.removeSync(join(folder, name)));
    },
  };
}

/** Ends the noted processes that still run, and removes the notes. */
async function endLeft(folder: string, ps: string | undefined, log: Log): Promise<void> {
  const noted = namesIn(folder).flatMap((name) => {
    const [, pid, startedMs] = NOTE.exec(name) ?? [];
    return pid === undefined ? [] : [{ name, pid: Number(pid), startedMs: Number(startedMs) }];
  });
  if (noted.length === 0) return;
  const starts = ps === undefined ? undefined : await readStarts(ps, noted.map(({ pid }) => pid));
  for (const { name, pid, startedMs } of noted) {
    const foundMs = starts?.get(pid);
    if (foundMs !== undefined && Math.abs(foundMs - startedMs) <= START_SLACK_MS) {
      killLeft(pid);
      log.warn("process of the last agent ended", { pid });
    }
    Deno.removeSync(join(folder, name));
  }
}

function killLeft(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch (error) {
    // The process may have ended since it was chosen.
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function namesIn(folder: string): string[] {
  try {
    return Array.from(Deno.readDirSync(folder), ({ name }) => name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Start times of those processes that lead a session, as guests do: another process may have the id by now. */
async function readStarts(ps: string, pids: readonly number[]): Promise<Map<number, number>> {
  const { stdout } = await new Deno.Command(ps, {
    args: ["-o", "pid=", "-o", "sid=", "-o", "etime=", "-p", pids.join()],
    clearEnv: true,
    cwd: "/",
    stdin: "null",
    stderr: "null",
  }).output();
  const askedMs = nowMs();
  const lines = new TextDecoder().decode(stdout).split("\n").map((line) =>
    line.trim().split(/\s+/)
  );
  return new Map(lines.flatMap(([pid = "", sid, elapsed = ""]) => {
    const found = ELAPSED.exec(elapsed);
    if (found === null || pid !== sid) return [];
    const [days = 0, hours = 0, minutes = 0, seconds = 0] = found.slice(1).map((part) =>
      Number(part ?? 0)
    );
    const ms = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000;
    return [[Number(pid), askedMs - ms] as const];
  }));
}
