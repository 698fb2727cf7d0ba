// An agent that keeps two processes, of which one has ended: prints their ids and waits to be killed. A
// folder to note them in may be given.

import { silentLog } from "../../src/metrics/log.ts";
import { openOrphanKiller } from "../../src/sandbox/orphaned_guests.ts";
import { spawnWalled } from "../../src/sandbox/walled_process.ts";

const folder = Deno.args[0];
const tools = { sh: "/bin/sh", ps: "/usr/bin/ps" };
const orphanKiller = await openOrphanKiller(tools, { log: silentLog, folder });
const [kept, ended] = ["3600", "0"].map((seconds) =>
  spawnWalled({
    program: "/bin/sleep",
    args: [seconds],
    env: {},
    cannotRefuse: [],
    ownSession: true,
    orphanKiller,
  })
);
await ended?.status;
console.log(kept?.pid, ended?.pid);
setInterval(() => {}, 3_600_000);
