// Ends guests and decoders that outlive their agent, by shells beside it. On Linux setpriv asks the kernel for that. On
// illumos a shell of the agent's own user, which no guest may signal, keeps the id of each process and kills those that
// remain once the agent has ended for any reason. If both are killed, the next agent finds the ids in the state folder and
// ends the processes. On both, another shell ends the guests of free jobs whose agent has been silent for a lease.

import { join } from "@std/path";
import { systemNow } from "../domain/instant.ts";
import type { Log } from "../metrics/log.ts";

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

/** A shell that ends with the agent, which holds the other end of its input. */
interface SideShell {
  /** Sends a line, which is lost if the shell has ended. @returns settles when it was written */
  tell(line: string): Promise<void>;
  /** Settles when the shell has ended, for whatever reason. */
  readonly ended: Promise<unknown>;
  /** Closes its input. @returns settles when it has ended */
  close(): Promise<void>;
}

/**
 * @param args the parameters of the script, from `$1`
 * @throws {Error} when the host can start no process
 */
function startSideShell(sh: string, script: string, ...args: string[]): SideShell {
  const shell = new Deno.Command(sh, {
    args: ["-c", script, "sh", ...args],
    clearEnv: true,
    env: { PATH: "/usr/bin:/bin" },
    cwd: "/",
    stdin: "piped",
    stdout: "null",
    stderr: "null",
    // The shell must survive a kill of the agent's process group, because its work begins then.
    detached: true,
  }).spawn();
  shell.unref();
  const writer = shell.stdin.getWriter();
  return {
    tell: (line) => writer.write(new TextEncoder().encode(`${line}\n`)).catch(() => {}),
    ended: shell.status,
    async close() {
      // While the agent waits for the shell to end, the shell keeps the agent's process alive.
      shell.ref();
      await writer.close().catch(() => {});
      await shell.status;
    },
  };
}

/** Parts of a lease. The agent should report in each part; guests are ended after the last part without a report. */
const PARTS = 4;

/** Reads `add PID`, `end PID`, `heard`, and a `tick` after each part of a lease. */
const WATCH_SCRIPT = `trap '' HUP INT QUIT TERM
{
  while sleep "$1" >/dev/null; do echo tick; done &
  cat
  kill -KILL $!
} | {
  held=
  silent=0
  endHeld() { for one in $held; do kill -KILL "$one"; done; held=; }
  while read -r word pid; do
    case $word in
      heard) silent=0 ;;
      tick) silent=$((silent + 1)); [ "$silent" -lt ${PARTS} ] || endHeld ;;
      add) silent=0 held="$held $pid" ;;
      end)
        rest=
        for one in $held; do [ "$one" = "$pid" ] || rest="$rest $one"; done
        held=$rest ;;
    esac
  done
  endHeld
}`;

/** A guest under this watch. */
export interface WatchedGuest {
  /** Settles when the shell knows the guest. */
  readonly begun: Promise<void>;
  /** Ends the watch of this guest. @returns settles as `begun` */
  end(): Promise<void>;
}

/**
 * Ends the guests of free jobs when their agent has been silent for a lease, because it may be stopped while other hosts
 * have claimed the jobs. A guest in an endless loop cannot notice that, so a shell does. It measures time by sleeping,
 * which follows the monotonic clock, and ends with the agent. Opened and closed with the pool of a runner whose store is
 * shared.
 */
interface GuestWatch {
  /** Watches a guest that runs a free job. */
  watch(pid: number): WatchedGuest;
  /** Settles when the shell has ended. */
  close(): Promise<void>;
}

/** @param sh path of the shell, which is started for the first guest */
export function openGuestWatch(
  { sh = "/bin/sh", leaseMs, log }: {
    readonly sh?: string;
    readonly leaseMs: number;
    readonly log: Log;
  },
): GuestWatch {
  const watched = new Set<number>();
  let shell: SideShell | undefined;
  let heard: ReturnType<typeof setInterval> | undefined;
  const warn = (fields: { reason: string } | { error: unknown }) =>
    log.warn("guests of free jobs may outlive their lease", fields);
  const open = (): SideShell | undefined => {
    try {
      const opened = startSideShell(sh, WATCH_SCRIPT, `${leaseMs / PARTS / 1000}`);
      void opened.ended.then(() => {
        if (shell !== opened) return;
        warn({ reason: "their watch has ended" });
        shell = undefined;
      });
      for (const pid of watched) void opened.tell(`add ${pid}`);
      return opened;
    } catch (error) {
      // The host cannot start a process now; the next part of the lease tries again.
      warn({ error });
      return undefined;
    }
  };
  const tell = async (line: string) => await (shell ??= open())?.tell(line);
  return {
    watch(pid) {
      const begun = tell(`add ${pid}`);
      watched.add(pid);
      heard ??= setInterval(() => void tell("heard"), leaseMs / PARTS);
      const end = async () => {
        watched.delete(pid);
        if (watched.size === 0) {
          clearInterval(heard);
          heard = undefined;
        }
        await shell?.tell(`end ${pid}`);
      };
      return { begun, end };
    },
    async close() {
      clearInterval(heard);
      const last = shell;
      shell = undefined;
      await last?.close();
    },
  };
}
