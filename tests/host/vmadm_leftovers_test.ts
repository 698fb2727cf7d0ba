// What vmadm leaves behind and cannot remove itself: datasets of a create that was killed, and of a
// delete that overlooked one. Others' datasets are never touched.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { datasetsOf } from "../../src/host/zone/datasets.ts";
import type { Transport } from "../../src/host/transport.ts";
import { openVmadm } from "../../src/host/vmadm/vmadm.ts";
import { machineUuidOf, type SimulatedHost, withHost } from "../capabilities/simulated_host.ts";

const UUID = machineUuidOf(1);
const OTHER = machineUuidOf(2);

function machineOf(uuid: string, brand = "kvm") {
  return {
    uuid,
    brand,
    ram: 256,
    autoboot: false,
    disks: [{ boot: true, model: "virtio", size: 64 }, { model: "virtio", size: 32 }],
  };
}

async function datasets({ transport }: SimulatedHost): Promise<string[]> {
  const { stdout } = await transport.zfs(["list", "-H", "-o", "name"], { deadlineMs: 90_000 });
  return stdout.split("\n").filter((name) => name !== "");
}

for (const brand of ["kvm", "bhyve"]) {
  Deno.test(`a ${brand} create that is killed with its volumes made leaves none`, async () => {
    await withHost(async (host) => {
      await host.simulate("fault", "create_killed_after_datasets", "1");
      const error = await assertRejects(() => host.vmadm.create(machineOf(UUID, brand)));
      assert(String(error).includes("was ended by SIGKILL"), String(error));
      assertEquals(await datasets(host), []);
      await host.assertHolds();
      await host.vmadm.create(machineOf(UUID, brand));
      await host.assertHolds(UUID);
    });
  });
}

Deno.test("volumes that existed before a create stay when it is killed", async () => {
  await withHost(async (host) => {
    const words = ["create_killed_after_datasets", "1"];
    await host.simulate("fault", ...words);
    const stdin = JSON.stringify(machineOf(UUID));
    await host.transport.vmadm(["create"], { stdin, deadlineMs: 90_000 });
    const before = await datasets(host);
    assertEquals(before, [`zones/${UUID}-disk0`, `zones/${UUID}-disk1`]);
    await host.simulate("fault", "killed", "create", "1");
    await assertRejects(() => host.vmadm.create(machineOf(UUID)));
    assertEquals(await datasets(host), before);
  });
});

Deno.test("a zone made by a killed create stays with its volumes, for a later delete", async () => {
  await withHost(async (host) => {
    await host.simulate("fault", "create_killed_after_zonecfg", "1");
    await assertRejects(() => host.vmadm.create(machineOf(UUID)));
    assertEquals((await host.vmadm.get(UUID))?.state, "configured");
    await host.vmadm.delete(UUID);
    await host.assertHolds();
  });
});

for (const brand of ["kvm", "bhyve"]) {
  Deno.test(`a delete of a ${brand} machine that leaves a dataset is completed`, async () => {
    await withHost(async (host) => {
      await host.vmadm.create(machineOf(UUID, brand));
      await host.vmadm.create(machineOf(OTHER, brand));
      await host.simulate("fault", "delete_leaks", "1");
      await host.vmadm.delete(UUID);
      assert((await datasets(host)).every((name) => name.includes(OTHER)));
      await host.assertHolds(OTHER);
    });
  });
}

Deno.test("a host without zfs creates and deletes machines too", async () => {
  await withHost(async (host) => {
    const transport: Transport = {
      ...host.transport,
      zfs: () => Promise.reject(new Error("Cannot run zfs")),
    };
    const vmadm = openVmadm(transport);
    await vmadm.create(machineOf(UUID));
    await vmadm.delete(UUID);
    await host.assertHolds();
  });
});

Deno.test("datasetsOf() returns only names in vmadm's form", async () => {
  const mine = [
    `zones/${UUID}`,
    `zones/${UUID}/disk0`,
    `zones/${UUID}-disk0`,
    `other/${UUID}-disk12`,
    `zones/cores/${UUID}`,
  ];
  const others = [
    "zones",
    `zones/${UUID}-disk0-copy`,
    `zones/${UUID}-diskX`,
    `zones/${UUID}/disk0/more`,
    `zones/backup/${UUID}`,
    `zones/cores/${OTHER}`,
    `zones/cores/${UUID}/more`,
    `zones/x${UUID}`,
    `zones/${UUID}@snapshot`,
    `zones/${OTHER}`,
    UUID,
  ];
  const stdout = [...others, ...mine].map((name) => `${name}\n`).join("");
  const zfs: Transport["zfs"] = () =>
    Promise.resolve({ code: 0, signal: null, stdout, stderr: "", durationMs: 1 });
  await withHost(async (host) => {
    const found = await datasetsOf({ ...host.transport, zfs }, UUID);
    assertEquals(found.toSorted(), mine.toSorted());
    // It is mounted within the zone's, which could not be destroyed before it.
    assertEquals(found[0], `zones/cores/${UUID}`);
    const at = (name: string) => found.indexOf(`zones/${UUID}${name}`);
    assert(at("/disk0") < at(""), found.join(" "));
  });
});

Deno.test("the simulated zfs refuses missing datasets, and those with children", async () => {
  await withHost(async (host) => {
    await host.vmadm.create(machineOf(UUID, "bhyve"));
    const destroy = (name: string) => host.transport.zfs(["destroy", name], { deadlineMs: 90_000 });
    const missing = await destroy("zones/x");
    assertEquals([missing.code, missing.stderr], [
      1,
      "cannot open 'zones/x': dataset does not exist\n",
    ]);
    const parent = await destroy(`zones/${UUID}`);
    assert(parent.stderr.startsWith(`cannot destroy 'zones/${UUID}': filesystem has children\n`));
    const root = join(host.transport.zonesRoot, UUID, "root");
    assertEquals((await Deno.stat(root)).isDirectory, true);
    assertEquals((await host.transport.zfs(["get"], { deadlineMs: 90_000 })).code, 2);
  });
});
