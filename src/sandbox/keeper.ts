// Ends guests and decoders that outlive their agent, where no call of the system does. On Linux setpriv asks
// the kernel for that; on illumos a shell of the agent's own user, which no guest may signal, holds the id of each
// process and kills those that are left once the agent is gone, however it ended.

import type { Log } from "../metrics/log.ts";

/** Reads `add PID` and `end PID` until the agent, which holds the other end, is gone. */
const SCRIPT = `trap '' HUP INT QUIT TERM
held=
while read -r word pid; do
  rest=
  for one in $held; do [ "$one" = "$pid" ] || rest="$rest $one"; done
  held=$rest
  [ "$word" = end ] || held="$held $pid"
done
for one in $held; do kill -KILL "$one"; done`;

/** Opened and closed with its pool. */
export interface Keeper {
  /** The process must not outlive the agent. */
  keep(child: Deno.ChildProcess): void;
  /** Ends what is still kept. */
  close(): Promise<void>;
}

/** What it is made with. */
interface KeeperTools {
  readonly setpriv?: string;
  readonly sh?: string;
}

/** @returns undefined where the kernel ends such processes, or nothing can */
export function openKeeper({ setpriv, sh }: KeeperTools, log: Log): Keeper | undefined {
  if (sh === undefined || setpriv !== undefined) return undefined;
  const kept = new Set<number>();
  let closing = false;
  let mayReopen = false;
  const open = () => {
    const shell = new Deno.Command(sh, {
      args: ["-c", SCRIPT],
      clearEnv: true,
      cwd: "/",
      stdin: "piped",
      stdout: "null",
      stderr: "null",
      // What ends the agent's process group must leave it its last work.
      detached: true,
    }).spawn();
    shell.unref();
    const writer = shell.stdin.getWriter();
    // A keeper that has ended was logged.
    const tell = (line: string) =>
      void writer.write(new TextEncoder().encode(`${line}\n`)).catch(() => {});
    for (const pid of kept) tell(`add ${pid}`);
    shell.status.then(() => {
      if (closing) return;
      log.warn("guests may outlive the agent", { reason: "their keeper has ended" });
      // One that always ends is opened again with the next process that it must keep.
      current = mayReopen ? reopen() : undefined;
      mayReopen = false;
    });
    return { shell, writer, tell };
  };
  const reopen = () => {
    try {
      return open();
    } catch {
      // The host has no process left: the next one that is kept tries again.
      return undefined;
    }
  };
  let current: ReturnType<typeof open> | undefined = open();
  return {
    keep({ pid, status }) {
      current ??= reopen();
      mayReopen = true;
      kept.add(pid);
      current?.tell(`add ${pid}`);
      status.then(() => {
        kept.delete(pid);
        current?.tell(`end ${pid}`);
      });
    },
    async close() {
      closing = true;
      // A program that waits for its end is kept alive by it.
      current?.shell.ref();
      await current?.writer.close().catch(() => {});
      await current?.shell.status;
    },
  };
}
