// What the hosts of a shared store report of their machines, and who is found to have one.

import { assertEquals, assertFalse } from "@std/assert";
import type { HostUuid, MachineUuid, WorkflowUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Store } from "../../src/store/store.ts";
import type { MachineFilter, MachinePage } from "../../src/store/machine_store.ts";
import type { MachineReportStore } from "../../src/store/report_store.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { listAllMachines } from "../../src/machines/listing.ts";
import { PROVISION_MACHINE } from "../../src/machines/workflows/provision_machine.ts";
import { jobOf, T0, uuidOf, workflowOf } from "../support/job.ts";
import { LEASE, register } from "./host_suite.ts";
import { fleetTests, HOSTS } from "./postgres_fleet.ts";
import { create } from "./store_case.ts";

const [ONE, OTHER] = HOSTS;
const fleetTest = fleetTests();

function reportsOf({ machineReports }: Store): MachineReportStore {
  if (machineReports === null) throw new Error("The store has no reports");
  return machineReports;
}

const PAGE = { limit: 100, offset: 0, without: [] };

function machineOf(number: number, state = "running"): JsonObject {
  return { uuid: uuidOf<MachineUuid>(number), state, brand: "kvm", alias: `web${number}\u0000"` };
}

/** Uuids with states, as one host sees those of the others. */
async function listed(store: Store, host?: HostUuid): Promise<unknown[]> {
  const { machines, count } = await reportsOf(store).list({ host }, PAGE);
  assertEquals(count, machines.length);
  return machines.map(({ machine }) => machine);
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
    const { now, machines } = await reportsOf(one).list({}, PAGE);
    assertEquals([now, machines[0]?.reported_at, machines[0]?.host], [later, later, OTHER]);
    const { hosts } = await reportsOf(one).hosts();
    assertEquals(hosts.map(({ uuid, name }) => [uuid, name]), [[OTHER, machines[0]?.name]]);
  },
);

fleetTest(
  "a page of reported machines is filtered and counted by the database, and has each machine once",
  async ({ one, other, db }) => {
    await register(one, lifeOf(ONE), [], { name: "gz1" });
    await register(other, lifeOf(OTHER), [], { name: "gz2" });
    const machines = [1, 2, 3, 4, 5].map((number) =>
      machineOf(number, number < 3 ? "stopped" : "running")
    );
    await reportsOf(other).report({ machines, gone: null });
    // A third host, whose name comes first, has reported one of them too.
    await db.write(async (tx) => {
      await tx.run(
        `INSERT INTO hosts (uuid, incarnation, name, version, capabilities, slots, brands,
          allow_workflow, allow_caller, generation, seen_at, lease_ms)
        SELECT 'third', incarnation, 'gz0', version, capabilities, slots, brands,
          allow_workflow, allow_caller, 1, seen_at, lease_ms FROM hosts LIMIT 1`,
      );
      await tx.run("INSERT INTO machine_reports SELECT 'third', reported_at FROM machine_reports");
      await tx.run(`INSERT INTO reported_machines SELECT 'third', uuid, state, brand, alias, machine
        FROM reported_machines ORDER BY uuid DESC LIMIT 1`);
    });
    const found = async (filter: MachineFilter, page: Partial<MachinePage> = {}) => {
      const list = await reportsOf(one).list(filter, { ...PAGE, ...page });
      const places = list.machines.map(({ name, machine }) =>
        `${name} ${String(machine.uuid).slice(-1)}`
      );
      return [places, list.count];
    };
    assertEquals(await found({}), [["gz0 5", "gz2 1", "gz2 2", "gz2 3", "gz2 4"], 5]);
    assertEquals(await found({}, { limit: 2, offset: 2 }), [["gz2 2", "gz2 3"], 5]);
    assertEquals(await found({}, { limit: 0 }), [[], 5]);
    assertEquals(await found({ state: "stopped" }, { limit: 1, offset: 1 }), [["gz2 2"], 2]);
    assertEquals(await found({ brand: "bhyve" }), [[], 0]);
    assertEquals(await found({ alias: 'web3\ufffd"', brand: "kvm" }), [["gz2 3"], 1]);
    assertEquals(await found({ host: OTHER }, { without: [uuidOf<MachineUuid>(1)] }), [
      ["gz2 2", "gz2 3", "gz2 4"],
      3,
    ]);
    // What is only being made is listed until a host has reported it.
    const make = uuidOf<WorkflowUuid>(1);
    const making = async () => (await one.machineHistories.making(make, {}, PAGE)).count;
    for (const number of [5, 6]) {
      await create(one, { ...jobOf(number), machine_uuid: uuidOf<MachineUuid>(number) });
    }
    assertEquals(await making(), 1);
    const [job] = (await one.machineHistories.making(make, {}, PAGE)).jobs;
    assertEquals([job?.machine_uuid, job?.host_uuid, job?.host], [
      uuidOf<MachineUuid>(6),
      ONE,
      "gz1",
    ]);
  },
);

fleetTest(
  "the pages of a list have the machines of this host, of others, and those being made, each once",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE), [], { name: "gz1" });
    await register(other, lifeOf(OTHER), [], { name: "gz2" });
    const machines = [3, 4, 5, 6, 7].map((number) => machineOf(number));
    await reportsOf(other).report({ machines, gone: null });
    for (const number of [1, 7, 8, 9]) {
      const workflow = workflowOf({ uuid: PROVISION_MACHINE.uuid });
      await create(one, { ...jobOf(number), workflow, machine_uuid: uuidOf<MachineUuid>(number) });
    }
    const place = { host: ONE, name: "gz1", ageMs: 0 };
    const own = [1, 2, 3].map((number) => ({ machine: machineOf(number, "stopped"), place }));
    const sources = { store: one, own, reports: reportsOf(one) };
    const pageOf = async (filter: MachineFilter, limit: number, offset: number) => {
      const { listed, count, stale } = await listAllMachines(filter, { limit, offset }, sources);
      assertFalse(stale);
      const said = listed.map(({ uuid, place, machine }) =>
        `${uuid.slice(-1)} ${place?.name}${machine === null ? " absent" : ""}`
      );
      return [said, count] as const;
    };
    const all = [
      ...["1 gz1", "2 gz1", "3 gz1", "4 gz2", "5 gz2", "6 gz2", "7 gz2"],
      ...["9 gz1 absent", "8 gz1 absent"],
    ];
    for (let limit = 1; limit <= all.length + 1; limit++) {
      const read: string[] = [];
      for (let offset = 0; offset <= all.length; offset += limit) {
        const [said, count] = await pageOf({}, limit, offset);
        assertEquals(count, all.length);
        read.push(...said);
      }
      assertEquals(read, all);
    }
    assertEquals(await pageOf({ state: "running" }, 1, 1), [["5 gz2"], 4]);
    assertEquals(await pageOf({ state: "stopped" }, 9, 2), [["3 gz1"], 3]);
    assertEquals(await pageOf({ state: "absent" }, 9, 1), [["8 gz1 absent"], 2]);
    assertEquals(await pageOf({ state: "halted" }, 9, 0), [[], 0]);
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
