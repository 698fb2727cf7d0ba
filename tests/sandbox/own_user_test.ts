// Guests of root's agent under a user of their own: who they are to the kernel, and that the limit
// of its processes leaves them room.

import { assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { findGuestUser } from "../../src/sandbox/user.ts";
import { testGuest } from "../../src/agent/walls.ts";
import { binaryProgram } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { meet, withPool } from "./bodies.ts";

/** A user that no host has, so that nothing else runs as it. */
const USER = "61234:61235";
const SLOTS = 4;

Deno.test({
  name: "guests run as a user of their own, with all its processes counted " +
    "[needs dist/zonewright, root]",
  ignore: (binaryProgram() === undefined || Deno.uid() !== 0) &&
    Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") !== "all",
  fn: async () => {
    const binary = binaryProgram();
    if (binary === undefined) throw new Error("Cannot run: dist/zonewright was not built");
    if (Deno.uid() !== 0) throw new Error("Cannot run: only root may change the user of guests");
    await withFolder(async (folder) => {
      // Where the other user can reach it, wherever the checkout is.
      await Deno.chmod(folder, 0o755);
      const program = join(folder, "zonewright");
      await Deno.copyFile(binary.program, program);
      const self = { program, args: [], env: {}, compiled: true };
      const place = { self, os: Deno.build.os, root: true, log: silentLog };
      const user = await findGuestUser(USER, place);
      assertEquals(user, { uid: 61_234, gid: 61_235, alone: true });
      if (user === undefined) return;
      await withPool(async (run, pool) => {
        await meet(run, SLOTS);
        await until("the spare", () => pool.counts().spare === 1);
        const pids = pool.pids();
        assertEquals(pids.length, SLOTS + 1);
        for (const pid of pids) {
          const status = await Deno.readTextFile(`/proc/${pid}/status`);
          assertMatch(status, /^Uid:\t61234\t61234\t61234\t61234$/m);
          assertMatch(status, /^Gid:\t61235\t61235\t61235\t61235$/m);
          assertMatch(status, /^Groups:\s*$/m);
          const limits = await Deno.readTextFile(`/proc/${pid}/limits`);
          assertMatch(limits, /^Max processes +(\d+) +\1 /m);
        }
      }, { self, user, slots: SLOTS });
      const checks = await testGuest({
        self,
        user,
        limits: DEFAULT_LIMITS,
        runtimeDir: folder,
        log: silentLog,
      });
      const failed = checks.filter(({ check, ok }) => !ok && check !== "network");
      assertEquals(failed, []);
    });
  },
});
