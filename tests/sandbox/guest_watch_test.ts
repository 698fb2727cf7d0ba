// The watch over guests of free jobs, with the shell of this host.

import { assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { until } from "../support/until.ts";

/** Whether a process runs: one that has ended but was not reaped does not. */
function isRunning(pid: number): boolean {
  const { stdout } = new Deno.Command("/usr/bin/ps", {
    args: ["-o", "stat=", "-p", `${pid}`],
  }).outputSync();
  return /^[^Z\s]/.test(new TextDecoder().decode(stdout).trim());
}

async function startWatchedAgent() {
  const agent = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "--cached-only", "--no-check", "-A"],
      fromFileUrl(new URL("watched_agent.ts", import.meta.url)),
    ],
    stdout: "piped",
    stdin: "null",
  }).spawn();
  let text = "";
  for await (const piece of agent.stdout.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (text.includes("\n")) break;
  }
  const [working = 0, idle = 0] = text.trim().split(" ").map(Number);
  return { agent, working, idle };
}

for (const signal of ["SIGSTOP", "SIGKILL"] as const) {
  Deno.test(`a guest in an endless loop of a free job ends after a lease: its agent got ${signal}`, async () => {
    const { agent, working, idle } = await startWatchedAgent();
    try {
      assertEquals([isRunning(working), isRunning(idle)], [true, true]);
      agent.kill(signal);
      await until("the end of the guest", () => !isRunning(working));
      // One that runs no free job is left alone.
      assertEquals(isRunning(idle), true);
    } finally {
      if (signal === "SIGSTOP") agent.kill("SIGKILL");
      await agent.status;
      Deno.kill(idle, "SIGKILL");
    }
  });
}
