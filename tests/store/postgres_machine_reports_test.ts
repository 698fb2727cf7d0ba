// What the hosts of a shared store report of their machines, and who is found to have one.

import { assertEquals } from "@std/assert";
import type { HostUuid, MachineUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Store } from "../../src/store/store.ts";
import type { MachineReportStore } from "../../src/store/machine_report_store.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { jobOf, T0, uuidOf } from "../support/job.ts";
import { LEASE, register } from "./host_suite.ts";
import { fleetTests, HOSTS } from "./postgres_fleet.ts";
import { create } from "./store_case.ts";

const [ONE, OTHER] = HOSTS;
const fleetTest = fleetTests();

function reportsOf({ machineReports }: Store): MachineReportStore {
  if (machineReports === null) throw new Error("The store has no reports");
  return machineReports;
}

function machineOf(number: number, state = "running"): JsonObject {
  return { uuid: uuidOf<MachineUuid>(number), state, alias: `web${number}\u0000"` };
}

/** Uuids with states, as one host sees those of the others. */
async function listed(store: Store, host?: HostUuid): Promise<unknown[]> {
  return (await reportsOf(store).list(host)).machines.map(({ machine }) => machine);
}

fleetTest(
  "machines are listed by the other hosts as they were last reported",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE), [], { name: "gz1" });
    await register(other, lifeOf(OTHER), [], { name: "gz2" });
    const machines = [machineOf(1), machineOf(2), machineOf(3)];
    await reportsOf(other).report({ machines, gone: null });
    assertEquals(await listed(one), machines);
    assertEquals(await listed(other), []);
    assertEquals(await listed(one, OTHER), machines);
    assertEquals(await listed(one, ONE), []);
    const change = { machines: [machineOf(2, "stopped")], gone: [uuidOf<MachineUuid>(1)] };
    for (let times = 0; times < 2; times++) {
      await reportsOf(other).report(change);
      assertEquals(await listed(one), [machineOf(2, "stopped"), machineOf(3)]);
    }
    await reportsOf(other).report({ machines: [machineOf(4)], gone: null });
    assertEquals(await listed(one), [machineOf(4)]);
    await reportsOf(other).report({ machines: [], gone: null });
    assertEquals(await listed(one), []);
  },
);

fleetTest(
  "a report says when its host looked, also when nothing has changed",
  async ({ one, other }) => {
    await register(other, lifeOf(OTHER));
    await reportsOf(other).report({ machines: [machineOf(1)], gone: null });
    const later = instantAfter(T0, 60_000);
    other.clock.now = later;
    await reportsOf(other).report({ machines: [], gone: [] });
    const { now, machines, hosts } = await reportsOf(one).list(undefined);
    assertEquals([now, machines[0]?.reported_at, machines[0]?.host], [later, later, OTHER]);
    assertEquals(hosts.map(({ uuid }) => uuid), [OTHER]);
    assertEquals((await reportsOf(one).hosts()).hosts, hosts);
  },
);

fleetTest("the machines of a forgotten host are listed by nobody", async ({ one, other }) => {
  await register(other, lifeOf(OTHER));
  await reportsOf(other).report({ machines: [machineOf(1)], gone: null });
  one.clock.now = instantAfter(T0, LEASE);
  assertEquals((await one.hosts.forget(OTHER)).kind, "forgotten");
  assertEquals(await listed(one), []);
  await one.hosts.uncordon(OTHER);
  assertEquals(await listed(one), [machineOf(1)]);
});

fleetTest(
  "a machine is found by its report, else by its unfinished job, and here before elsewhere",
  async ({ one, other }) => {
    const uuid = uuidOf<MachineUuid>(1);
    assertEquals(await reportsOf(one).ownerOf(uuid), undefined);
    await create(other, { ...jobOf(1), machine_uuid: uuid });
    assertEquals(await reportsOf(one).ownerOf(uuid), OTHER);
    await one.jobs.cancel(jobOf(1).uuid);
    assertEquals(await reportsOf(one).ownerOf(uuid), undefined);
    await reportsOf(other).report({ machines: [machineOf(1)], gone: null });
    assertEquals(await reportsOf(one).ownerOf(uuid), OTHER);
    await reportsOf(one).report({ machines: [machineOf(1)], gone: null });
    assertEquals(await reportsOf(one).ownerOf(uuid), ONE);
    assertEquals(await reportsOf(other).ownerOf(uuid), OTHER);
  },
);
