// A shell that works beside the agent: it reads lines from it, and acts when the agent no longer can, because it is
// stopped or gone.

/** It ends with the agent, which holds the other end of its input. */
export interface SideShell {
  /** Sends a line. @returns settles when it is on its way; one to a shell that has ended is lost */
  tell(line: string): Promise<void>;
  /** Settles when it has ended, whatever ended it. */
  readonly ended: Promise<unknown>;
  /** Ends its input. @returns when it has ended */
  close(): Promise<void>;
}

/**
 * @param args the parameters of the script, from `$1`
 * @throws {Error} when the host can start no process
 */
export function startSideShell(sh: string, script: string, ...args: string[]): SideShell {
  const shell = new Deno.Command(sh, {
    args: ["-c", script, "sh", ...args],
    clearEnv: true,
    env: { PATH: "/usr/bin:/bin" },
    cwd: "/",
    stdin: "piped",
    stdout: "null",
    stderr: "null",
    // What ends the agent's process group must leave it its last work.
    detached: true,
  }).spawn();
  shell.unref();
  const writer = shell.stdin.getWriter();
  return {
    tell: (line) => writer.write(new TextEncoder().encode(`${line}\n`)).catch(() => {}),
    ended: shell.status,
    async close() {
      // A program that waits for its end is kept alive by it.
      shell.ref();
      await writer.close().catch(() => {});
      await shell.status;
    },
  };
}
