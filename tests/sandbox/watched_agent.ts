// An agent that watches over two guests, of which one has ended its task: prints their ids and waits to be stopped.

import { silentLog } from "../../src/metrics/log.ts";
import { openGuestWatch } from "../../src/sandbox/lease_watch.ts";
import { spawnWalled } from "../../src/sandbox/walled_process.ts";

const watch = openGuestWatch({ leaseMs: 1_000, log: silentLog });
// An endless loop, as a task may have.
const [working, idle] = ["while :; do :; done", "exec sleep 3600"].map((script) =>
  spawnWalled({ program: "/bin/sh", args: ["-c", script], env: {}, cannotRefuse: [] })
);
if (working === undefined || idle === undefined) throw new Error("Cannot start the guests");
await watch.watch(working.pid).begun;
await watch.watch(idle.pid).end();
console.log(working.pid, idle.pid);
setInterval(() => {}, 3_600_000);
