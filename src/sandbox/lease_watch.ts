// Ends the guests of free jobs whose agent has been silent for a lease, by a shell beside it: the agent may be stopped while
// other hosts have claimed the jobs, and a guest in an endless loop cannot notice that.

import type { Log } from "../metrics/log.ts";
import { type SideShell, startSideShell } from "./side_shell.ts";

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
 * Its shell measures time by sleeping, which follows the monotonic clock, and ends with the agent. Opened and closed with
 * the pool of a runner whose store is shared.
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
