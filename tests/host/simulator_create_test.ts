// vmadm create and validate as the simulated host runs them: texts, streams, exit codes, and what a
// create leaves behind when it ends early.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { until } from "../support/until.ts";
import { OTHER, otherPayload, payload, UUID, withHost } from "./simulator/simulated_host.ts";

Deno.test("create makes the machine of document 3 and prints its message on stderr", async () => {
  await withHost(async (host) => {
    const said = await host.vmadm(["create"], JSON.stringify(payload()));
    assertEquals(said, {
      code: 0,
      signal: null,
      stdout: "",
      stderr: `Successfully created VM ${UUID}\n`,
    });
    const machine = await host.get(UUID);
    assertEquals(machine.state, "stopped");
    assertEquals(machine.zone_state, "installed");
    assertEquals(machine.zonepath, join(host.dir, "zones", UUID));
    assertEquals(machine.quota, 10);
    assertEquals(machine.max_physical_memory, 2048);
    assert(Array.isArray(machine.disks) && Array.isArray(machine.nics));
    assertEquals((machine.disks[0] as JsonObject).path, `/dev/zvol/rdsk/zones/${UUID}-disk0`);
    assertEquals((machine.nics[0] as JsonObject).primary, true);
    assert((await Deno.stat(join(host.dir, "zones", UUID, "root/tmp"))).isDirectory);
  });
});

Deno.test("create of bhyve puts volumes below the zone and reserves its quota", async () => {
  await withHost(async (host) => {
    await host.create(otherPayload({
      brand: "bhyve",
      nics: [{ nic_tag: "admin", model: "virtio", ip: "dhcp" }],
    }));
    const machine = await host.get(OTHER);
    assertEquals(machine.quota, 1);
    assertEquals(machine.max_physical_memory, 1024 + 1280);
    const [disk] = machine.disks as JsonObject[];
    const [nic] = machine.nics as JsonObject[];
    assertEquals(disk?.zfs_filesystem, `zones/${OTHER}/disk0`);
    assertEquals(nic?.primary, true);
    const { datasets } = JSON.parse(await Deno.readTextFile(join(host.dir, "datasets.json")));
    assertEquals(datasets, [
      { name: `zones/${OTHER}`, kind: "filesystem", reservation: 1024 },
      { name: `zones/${OTHER}/disk0`, kind: "volume", reservation: 40960 },
    ]);
  });
});

/** Payload texts and what create says about them. */
const REFUSALS: readonly [string, string, string][] = [
  ["an empty text", "", "Invalid JSON payload: Unexpected end of input\n"],
  ["a cut text", '{"brand": "kvm"', "Invalid JSON payload: Unexpected end of input\n"],
  ["a wrong token", '{"brand": x}', "Invalid JSON payload: Unexpected token x\n"],
  [
    "wrong values",
    JSON.stringify(payload({ ram: -1, nics: [{ nic_tag: "admin", vlan_id: 5000 }] })),
    "Invalid value(s) for: ram,nics.*.vlan_id\n",
  ],
  [
    "a disk without a size",
    JSON.stringify(payload({ disks: [{ model: "virtio" }] })),
    "Missing required properties: disks.0.size\n",
  ],
  [
    "a disk without a model",
    JSON.stringify(payload({ disks: [{ size: 10 }] })),
    'missing .model option for disk: {"size":10,"media":"disk"}\n',
  ],
  [
    "a model of another brand",
    JSON.stringify(payload({ brand: "bhyve", disks: [{ model: "ide", size: 10 }] })),
    '"ide" is not a valid disk model for bhyve brand. Valid are: virtio,ahci,nvme\n',
  ],
  [
    "a nic without a model",
    JSON.stringify(payload({ nics: [{ nic_tag: "admin" }] })),
    'missing .model option for NIC: {"nic_tag":"admin","mac":"MAC","ips":[]}\n',
  ],
  [
    "an unknown tag",
    JSON.stringify(payload({ nics: [{ nic_tag: "nowhere", model: "virtio" }] })),
    'Invalid nic tag "nowhere"\n',
  ],
  [
    "an address without a netmask",
    JSON.stringify(payload({ nics: [{ nic_tag: "admin", model: "virtio", ip: "192.0.2.1" }] })),
    'Missing .netmask option for NIC: {"nic_tag":"admin","model":"virtio","ip":"192.0.2.1",' +
    '"mac":"MAC"}\n',
  ],
  [
    "two primary nics",
    JSON.stringify(payload({
      nics: [1, 2].map(() => ({ nic_tag: "admin", model: "virtio", primary: 1 })),
    })),
    "payload specifies more than 1 primary NIC\n",
  ],
  [
    "a long VNC password",
    JSON.stringify(payload({ vnc_password: "123456789" })),
    "VNC password is too long, maximum length is 8 characters.\n",
  ],
  [
    "two disks of bhyve to boot from",
    JSON.stringify(payload({
      brand: "bhyve",
      disks: [1, 2].map((size) => ({ boot: true, model: "virtio", size })),
    })),
    'multiple boot disks: ""true"" and ""{"boot":true,"model":"virtio","size":2,"media":"disk"}""\n',
  ],
  [
    "a volume that does not fit",
    JSON.stringify(
      payload({ disks: [{ model: "virtio", size: 100 }, { model: "virtio", size: 901 }] }),
    ),
    `Command failed: cannot create 'zones/${UUID}-disk1': out of space\n\n`,
  ],
];

Deno.test("create refuses each improper payload with its own message and leaves nothing", async (t) => {
  await withHost(async (host) => {
    for (const [name, text, stderr] of REFUSALS) {
      await t.step(name, async () => {
        const { stderr: words, ...said } = await host.vmadm(["create"], text);
        assertEquals(said, { code: 1, signal: null, stdout: "" });
        assertEquals(words.replace(/"mac":"[0-9a-f:]{17}"/, '"mac":"MAC"'), stderr);
      });
    }
    assertEquals((await host.run(["audit"])).code, 0);
    const absent = await host.vmadm(["create", "-f", "/nonexistent/payload.json"]);
    assertEquals(absent.stderr, "File: /nonexistent/payload.json does not exist.\n");
    assertEquals(absent.code, 1);
  }, { pool: { name: "zones", size: 1000 } });
});

Deno.test("create refuses null, and crashes on an unknown brand", async () => {
  await withHost(async (host) => {
    const refused = await host.vmadm(["create"], "null");
    const words = "Invalid JSON payload: Cannot call method 'hasOwnProperty' of null\n";
    assertEquals([refused.code, refused.signal, refused.stderr], [1, null, words]);
    const { signal, stderr } = await host.vmadm(["create"], '{"brand": "nobrand"}');
    assertEquals(signal, "SIGABRT");
    assertStringIncludes(stderr, "Cannot read property 'features' of undefined\n    at ");
  });
});

Deno.test("create refuses a uuid, an address and a VNC port that another machine has", async () => {
  await withHost(async (host) => {
    await host.create(payload({ vnc_port: 15901 }));
    const again = await host.vmadm(["create"], JSON.stringify(payload()));
    assertEquals(again.stderr, `VM with UUID ${UUID} already exists\n`);
    const conflict = "Conflict detected with another vm, please check the MAC, IP, and VRID\n";
    const sameAddress = otherPayload({ nics: payload().nics ?? null });
    assertEquals((await host.vmadm(["create"], JSON.stringify(sameAddress))).stderr, conflict);
    const samePort = otherPayload({ vnc_port: 15901 });
    assertEquals((await host.vmadm(["create"], JSON.stringify(samePort))).stderr, conflict);
  });
});

Deno.test("validate names bad values, unknown and missing properties as JSON on stderr", async () => {
  await withHost(async (host) => {
    const good = await host.vmadm(["validate", "create"], JSON.stringify(payload()));
    assertEquals(good.stderr, "VALID 'create' payload for kvm brand VMs.\n");
    assertEquals([good.code, good.stdout], [0, ""]);
    const wrong = payload({ ram: "much", colour: "red", disks: [{ model: "virtio" }] });
    const bad = await host.vmadm(["validate", "create"], JSON.stringify(wrong));
    assertEquals([bad.code, bad.stdout], [1, ""]);
    assertEquals(JSON.parse(bad.stderr), {
      bad_values: ["ram"],
      bad_properties: ["colour"],
      missing_properties: ["disks.0.size"],
    });
    const brand = await host.vmadm(["validate", "create"], '{"brand": "nobrand"}');
    assertEquals(JSON.parse(brand.stderr), { bad_brand: "nobrand" });
    const update = await host.vmadm(["validate", "update", "kvm"], '{"quota": 20, "uuid": "x"}');
    assertEquals(JSON.parse(update.stderr), {
      bad_values: ["uuid"],
      bad_properties: ["uuid"],
    });
  });
});

Deno.test("two simultaneous creates succeed; of two with one uuid only one does", async () => {
  await withHost(async (host) => {
    const texts = [payload(), otherPayload(), otherPayload()].map((it) => JSON.stringify(it));
    const said = await Promise.all(texts.map((text) => host.vmadm(["create"], text)));
    assertEquals(said[0]?.code, 0);
    assertEquals(said.slice(1).map(({ code }) => code).sort(), [0, 1]);
    const { stdout } = await host.vmadm(["lookup", "-j", "-o", "uuid,state"]);
    const found: JsonObject[] = JSON.parse(stdout);
    assertEquals(found.map(({ state }) => state), ["stopped", "stopped"]);
    assertEquals((await host.run(["audit"])).code, 0);
  });
});

Deno.test("create passes through configured, incomplete and provisioning", async () => {
  await withHost(async (host) => {
    const file = join(host.dir, "machines", `${UUID}.json`);
    const created = host.vmadm(["create"], JSON.stringify(payload()));
    const seen: string[] = [];
    await until("state stopped", async () => {
      const text = await Deno.readTextFile(file).catch(() => null);
      const state = text === null ? "none" : String(JSON.parse(text).state);
      if (seen.at(-1) !== state) seen.push(state);
      return state === "stopped";
    });
    await created;
    assertEquals(seen, ["none", "configured", "incomplete", "provisioning", "stopped"]);
  }, { delays: { factor: 1, configure: 60, install: 60, provision: 60 } });
});

Deno.test("create with autoboot starts the machine, and only without its CD", async () => {
  await withHost(async (host) => {
    await host.create(payload({ autoboot: true }));
    assertEquals((await host.get(UUID)).state, "running");
    const guest = JSON.parse((await host.run(["guest", UUID])).stdout);
    assertEquals(guest.booted, { kind: "nothing" });
  });
});
