// The watch over guests of free jobs, with the shell of this host.

import { assertEquals } from "@std/assert";
import { silentLog } from "../../src/metrics/log.ts";
import { openGuestWatch } from "../../src/sandbox/lease_watch.ts";
import { isRunning, startPrinting } from "../support/processes.ts";
import { until } from "../support/until.ts";

async function startWatchedAgent() {
  const { agent, ids: [working = 0, idle = 0] } = await startPrinting(
    new URL("watched_agent.ts", import.meta.url),
  );
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

Deno.test("a host that can start no shell for the watch is warned of, and its tasks go on", async () => {
  const warned: string[] = [];
  const log = { ...silentLog, warn: (message: string) => void warned.push(message) };
  const watch = openGuestWatch({ sh: "/nonexistent/sh", leaseMs: 40, log });
  const { end } = watch.watch(Deno.pid);
  // It is tried again with each part of the lease.
  await until("another warning", () => warned.length >= 2);
  await end();
  await watch.close();
  assertEquals(new Set(warned), new Set(["guests of free jobs may outlive their lease"]));
});
