// The wall of a guest on Node: closed, a guest passes every check that its Node can pass; with one door opened
// behind the adapter's back, the check of that door fails, and no other.

import { assertEquals } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { testGuest } from "../../src/sandbox/self_test.ts";
import { GUEST_CHECKS } from "../../src/wall/protocol.ts";
import { NO_SQLITE } from "../../vendors/node/wall.ts";
import { nodeProgram, type Program } from "../support/agent_process.ts";
import { eachNode } from "../support/each_node.ts";
import { withFolder } from "../support/until.ts";

/** Options that open a door, where a process cannot close it again by itself. */
const DOORS = [
  ["read", "--allow-fs-read=*"],
  ["write", "--allow-fs-write=*"],
  ["run", "--allow-child-process"],
  ["ffi", "--allow-addons"],
] as const;

/** Names of the checks that failed, of those that a guest reports. */
async function open({ name: _name, ...program }: Program): Promise<string[]> {
  return await withFolder(async (runtimeDir) => {
    const self = { ...program, compiled: true };
    const checks = await testGuest({ self, runtimeDir, limits: DEFAULT_LIMITS, log: silentLog });
    const failed = checks.filter(({ check, ok }) =>
      !ok && GUEST_CHECKS.some((one) => one === check)
    );
    return failed.map(({ check }) => check);
  });
}

eachNode(
  "a guest passes each check that its Node can pass, and fails those of open doors",
  async (node) => {
    const program = nodeProgram(node.program);
    if (program?.walled === undefined) {
      throw new Error(
        "Cannot run: dist/zonewright.mjs was not built",
      );
    }
    const { walled } = program;
    const withGuest = (guest: readonly string[]) => ({ ...program, walled: { ...walled, guest } });
    // The network of older ones is closed by the kernel, where it gives a process one of its own.
    const closed = await open(program);
    assertEquals(closed.filter((check) => check !== "net"), ["sys"]);
    const withSqlite = walled.guest.filter((option) => option !== NO_SQLITE);
    assertEquals(await open(withGuest(withSqlite)), ["read", ...closed].sort(byOrder));
    const givesUp = !walled.cannotRefuse.includes("net");
    const model = walled.guest.filter((option) =>
      !/^--(permission|allow-|no-experimental-sqlite)/.test(option)
    );
    const unguarded = await open(withGuest(model));
    for (const [check, option] of DOORS) {
      assertEquals([check, unguarded.includes(check)], [check, true]);
      if (givesUp) continue;
      assertEquals(
        await open(withGuest([option, ...walled.guest])),
        [check, ...closed].sort(byOrder),
      );
    }
  },
);

function byOrder(one: string, other: string): number {
  const names: readonly string[] = GUEST_CHECKS;
  return names.indexOf(one) - names.indexOf(other);
}
