// What the doctor makes of the programs of illumos. Their output is as ps(1), ppriv(1) and plimit(1) describe
// it: nothing of this has been recorded on a host.

import { assertEquals } from "@std/assert";
import { illumosChecks } from "../../src/sandbox/wall_checks.ts";

const KEPT = "file_read";
const privileges = (names: string) =>
  `4711:   /opt/tools/bin/node /opt/custom/bin/zonewright guest
flags = <none>
        E: ${names}
        I: ${names}
        P: ${names}
        L: ${names}
`;
const limits = (memory: string) =>
  `4711:   /opt/tools/bin/node /opt/custom/bin/zonewright guest
   resource              current         maximum
  time(seconds)         unlimited       unlimited
  file(blocks)          unlimited       unlimited
  data(kbytes)          unlimited       unlimited
  stack(kbytes)         10240           unlimited
  coredump(blocks)      0               0
  nofiles(descriptors)  64              64
  vmemory(kbytes)       ${memory}
`;
const SOUND = {
  uid: "  990\n",
  privileges: privileges(KEPT),
  limits: limits("2000000         2000000"),
};

/** Names of the checks that failed. */
function failed(report: Partial<typeof SOUND>, addressKibMax: number | null = 2_000_000): string[] {
  const checks = illumosChecks({ ...SOUND, ...report }, addressKibMax ?? undefined);
  return checks.filter(({ ok }) => !ok).map(({ check }) => check);
}

Deno.test("a guest on illumos without privileges and with limits passes every check", () => {
  const names = illumosChecks(SOUND, undefined).map(({ check }) => check);
  assertEquals(names, ["user", "privileges", "network", "limits"]);
  assertEquals(failed({}), []);
});

Deno.test("each wall that is missing on illumos fails its check", () => {
  assertEquals(failed({ uid: "    0\n" }), ["user"]);
  assertEquals(failed({ privileges: privileges(`${KEPT},proc_fork`) }), ["privileges"]);
  assertEquals(failed({ privileges: privileges(`${KEPT},net_access`) }), ["privileges", "network"]);
  assertEquals(failed({ privileges: privileges(`${KEPT},file_write`) }), ["privileges"]);
  assertEquals(failed({ limits: limits("unlimited       unlimited") }), ["limits"]);
});

Deno.test("a guest of Deno on illumos needs no limit of addresses, of which it reserves too many", () => {
  const unlimited = { limits: limits("unlimited       unlimited") };
  assertEquals(failed(unlimited, null), []);
  assertEquals(failed({ limits: "" }, null), ["limits"]);
});

Deno.test("on illumos, a wall that the system does not report counts as open", () => {
  assertEquals(failed({ uid: "" }), ["user"]);
  assertEquals(failed({ privileges: "" }), ["privileges", "network"]);
  assertEquals(failed({ privileges: privileges("basic") }), ["privileges", "network"]);
  assertEquals(failed({ limits: "" }), ["limits"]);
});
