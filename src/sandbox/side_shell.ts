// A shell beside the agent, which outlives it for a moment: it reads lines from the agent, and acts once the other end of
// its input is closed, for whatever reason.

/** A shell that ends with the agent, which holds the other end of its input. */
export interface SideShell {
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
export function startSideShell(sh: string, script: string, ...args: string[]): SideShell {
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
