// Ends the guests of free jobs when their agent has not been heard for a lease: it may be stopped, and others may have
// their jobs. A task in an endless loop keeps its guest from noticing that by itself, so a shell does, which measures
// the time by sleeping, as the monotonic clock counts. It ends with the agent.

import type { Log } from "../metrics/log.ts";
import { type SideShell, startSideShell } from "./side_shell.ts";

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

/** A guest that is watched over. */
export interface WatchedGuest {
  /** Settles when the shell knows of it. */
  readonly begun: Promise<void>;
  /** Watches over it no longer. @returns settles as `begun` */
  end(): Promise<void>;
}

/** Opened and closed with the pool of a runner that shares its store. */
interface GuestWatch {
  /** Watches over a guest that runs a free job. */
  watch(pid: number): WatchedGuest;
  /** Settles when the shell has ended. */
  close(): Promise<void>;
}

/** @param sh the shell, which is started with the first guest to watch over */
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
      const opened = startSideShell(sh, SCRIPT, `${leaseMs / PARTS / 1000}`);
      void opened.ended.then(() => {
        if (shell !== opened) return;
        warn({ reason: "their watch has ended" });
        shell = undefined;
      });
      for (const pid of watched) void opened.tell(`add ${pid}`);
      return opened;
    } catch (error) {
      // The host has no process left: the next part of the lease tries again.
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
