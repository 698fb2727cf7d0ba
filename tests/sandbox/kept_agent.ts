// An agent that keeps two processes, of which one has ended: prints their ids and waits to be killed.

import { silentLog } from "../../src/metrics/log.ts";
import { openKeeper } from "../../src/sandbox/keeper.ts";
import { spawnWalled } from "../../src/sandbox/walled_process.ts";

const keeper = openKeeper({ sh: "/bin/sh" }, silentLog);
const [kept, ended] = ["3600", "0"].map((seconds) =>
  spawnWalled({ program: "/bin/sleep", args: [seconds], env: {}, cannotRefuse: [], keeper })
);
await ended?.status;
console.log(kept?.pid, ended?.pid);
setInterval(() => {}, 3_600_000);
