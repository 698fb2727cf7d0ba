// Whose memory it was: a look at a guest takes a while, in which its task may end.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { silentLog } from "../../src/metrics/log.ts";
import { MemoryWatch } from "../../src/sandbox/memory_watch.ts";
import { until, withFolder } from "../support/until.ts";
import { ownerNamed, withPool } from "./bodies.ts";

/** Tells of a gigabyte, but not before it is let: twice, as `first` and as `second`. */
const SLOW_CAT = `#!/bin/sh
cd "$(dirname "$0")"
look=first
[ -e first ] && look=second
: > "$look"
until [ -e "go-$look" ]; do sleep 0.02; done
pid=\${1#/proc/}
printf 'Pid:\\t%s\\nVmRSS:\\t1048576 kB\\n' "\${pid%/status}"
`;

Deno.test("a memory check that outlasts its task does not end the next task", async () => {
  await withFolder(async (folder) => {
    const cat = join(folder, "cat");
    await Deno.writeTextFile(cat, SLOW_CAT, { mode: 0o755 });
    const file = (name: string) => join(folder, name);
    const exists = (name: string) => Deno.stat(file(name)).then(() => true, () => false);
    await withPool(async (_run, pool) => {
      const guest = await pool.acquire(ownerNamed("a"), new AbortController().signal);
      const watch = new MemoryWatch({ cat }, silentLog);
      guest.runs = 1;
      watch.enter(guest);
      await until("the first look", () => exists("first"));
      watch.leave(guest);
      guest.runs = 2;
      watch.enter(guest);
      await Deno.writeTextFile(file("go-first"), "");
      await until("the second look", () => exists("second"));
      assert(guest.alive);
      await Deno.writeTextFile(file("go-second"), "");
      await until("the end of the task that took it", () => !guest.alive);
      watch.close();
      pool.release(guest);
    });
  });
});

/** Says that every process takes a gigabyte, and notes what it was asked, as ps(1) of illumos prints it. */
const PS = `#!/bin/sh
echo "$*" >> "$(dirname "$0")/asked"
for last; do :; done
printf '%6s %7s\\n' "$last" 1048576
`;

Deno.test("memory is read by ps where there is no cat", async () => {
  await withFolder(async (folder) => {
    const ps = join(folder, "ps");
    await Deno.writeTextFile(ps, PS, { mode: 0o755 });
    await withPool(async (_run, pool) => {
      const guest = await pool.acquire(ownerNamed("a"), new AbortController().signal);
      const watch = new MemoryWatch({ ps }, silentLog);
      guest.runs = 1;
      watch.enter(guest);
      await until("the end of the guest", () => !guest.alive);
      watch.close();
      const [asked] = (await Deno.readTextFile(join(folder, "asked"))).split("\n");
      assertEquals(asked, `-o pid= -o rss= -p ${guest.pid}`);
      pool.release(guest);
    });
  });
});
