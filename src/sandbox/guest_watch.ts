// Ends the guests of free jobs when their agent has not been heard for a lease: it may be stopped, and others may have
// their jobs. A task in an endless loop keeps its guest from noticing that by itself, so a shell does, which measures
// the time by sleeping, as the monotonic clock counts. It ends with the agent.

import type { Log } from "../metrics/log.ts";

/** Parts of a lease: the agent is to be heard in each, and guests end in the last one without. */
const PARTS = 4;

/** Reads `add PID`, `end PID` and `heard`, and a `tick` after each part of a lease. */
const SCRIPT = `trap '' HUP INT QUIT TERM
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

/** Opened and closed with the pool of a runner that shares its store. */
interface GuestWatch {
  /** Watches over a guest that runs a free job. @returns to be called when it no longer does */
  watch(pid: number): () => void;
  /** Settles when the shell has ended. */
  close(): Promise<void>;
}

/** Starts no shell before there is something to watch. */
export function openGuestWatch(
  { leaseMs, log }: { readonly leaseMs: number; readonly log: Log },
): GuestWatch {
  const watched = new Set<number>();
  let shell: WatchShell | undefined;
  let heard: ReturnType<typeof setInterval> | undefined;
  const open = (): WatchShell => {
    const opened = startShell(leaseMs / PARTS / 1000);
    void opened.ended.then(() => {
      if (shell !== opened) return;
      log.warn("guests of free jobs may outlive their lease", { reason: "their watch has ended" });
      shell = undefined;
    });
    for (const pid of watched) opened.tell(`add ${pid}`);
    return opened;
  };
  const tell = (line: string) => (shell ??= open()).tell(line);
  return {
    watch(pid) {
      tell(`add ${pid}`);
      watched.add(pid);
      heard ??= setInterval(() => tell("heard"), leaseMs / PARTS);
      return () => {
        watched.delete(pid);
        shell?.tell(`end ${pid}`);
        if (watched.size > 0) return;
        clearInterval(heard);
        heard = undefined;
      };
    },
    async close() {
      clearInterval(heard);
      const last = shell;
      shell = undefined;
      await last?.close();
    },
  };
}

interface WatchShell {
  tell(line: string): void;
  readonly ended: Promise<unknown>;
  close(): Promise<void>;
}

function startShell(tickSeconds: number): WatchShell {
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", SCRIPT, "sh", `${tickSeconds}`],
    clearEnv: true,
    env: { PATH: "/usr/bin:/bin" },
    cwd: "/",
    stdin: "piped",
    stdout: "null",
    stderr: "null",
    // What ends the agent's process group must leave it its last work.
    detached: true,
  }).spawn();
  child.unref();
  const writer = child.stdin.getWriter();
  return {
    // One that has ended is logged.
    tell: (line) => void writer.write(new TextEncoder().encode(`${line}\n`)).catch(() => {}),
    ended: child.status,
    async close() {
      // A program that waits for its end is kept alive by it.
      child.ref();
      await writer.close().catch(() => {});
      await child.status;
    },
  };
}
