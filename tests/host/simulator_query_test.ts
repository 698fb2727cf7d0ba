// What the simulated host answers to lookups, lists and updates.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { OTHER, otherPayload, payload, UUID, withHost } from "./simulator/simulated_host.ts";

Deno.test("lookup finds by fields, and finding nothing is a success", async () => {
  await withHost(async (host) => {
    await host.create(payload({ tags: { role: "web" } }));
    await host.create(otherPayload());
    const found = async (...args: string[]) => (await host.vmadm(["lookup", ...args])).stdout;
    assertEquals(await found(), `${UUID}\n${OTHER}\n`);
    assertEquals(await found(`uuid=${OTHER}`), `${OTHER}\n`);
    assertEquals(await found("tags.role=web"), `${UUID}\n`);
    assertEquals(await found("nics.*.ip=192.0.2.51"), `${UUID}\n`);
    assertEquals(await found("alias=~^web"), `${UUID}\n${OTHER}\n`);
    assertEquals(await found("state=running"), "");
    assertEquals(await found("-j", "state=running"), "[]\n");
    assertEquals(
      await found("-j", "-o", "alias,state", `uuid=${UUID}`),
      '[\n  {\n    "alias": "web01",\n    "state": "stopped"\n  }\n]\n',
    );
    assertEquals(JSON.parse(await found("-j", `uuid=${UUID}`)), [await host.get(UUID)]);
    const refused = async (...args: string[]) => {
      const { code, stdout, stderr } = await host.vmadm(["lookup", ...args]);
      assertEquals([code, stdout], [1, ""]);
      return stderr;
    };
    assertEquals(await refused("-1"), "Requested unique lookup but found 2 results.\n");
    assertEquals(await refused("-o", "uuid"), "Cannot specify -o without -j\n");
    assertEquals(await refused("colour=red"), 'Invalid lookup key: "colour"\n');
  });
});

Deno.test("list prints columns, or fields with colons, in the requested order", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.create(otherPayload({ brand: "bhyve", ram: 512 }));
    const list = async (...args: string[]) => await host.vmadm(["list", ...args]);
    assertEquals(
      (await list()).stdout,
      "UUID                                  TYPE  RAM       STATE              ALIAS\n" +
        `${OTHER}  BHYV  512       stopped            web02\n` +
        `${UUID}  KVM   1024      stopped            web01\n`,
    );
    assertEquals(
      (await list("-p", "-o", "alias,ram,cpu_cap", "-s", "-ram")).stdout,
      "web01:1024:-\nweb02:512:-\n",
    );
    assertEquals((await list("-Ho", "alias", "brand=kvm")).stdout, "web01\n");
    assertEquals((await list("-o", "colour")).stderr, "invalid order field: colour\n");
    assertEquals((await list("-s", "colour")).stderr, "invalid sort field: colour\n");
    assertEquals((await list("colour=red")).stderr, 'Invalid filter key: "colour"\n');
  });
});

Deno.test("update changes settings, metadata and nics by words and by JSON", async () => {
  await withHost(async (host) => {
    await host.create(payload({ tags: { role: "web", gone: "x" } }));
    const words = await host.vmadm(["update", UUID, "quota=20", "alias=db01", "autoboot=true"]);
    assertEquals(words, {
      code: 0,
      signal: null,
      stdout: "",
      stderr: `Successfully updated VM ${UUID}\n`,
    });
    const [nic] = (await host.get(UUID)).nics as JsonObject[];
    await host.vmadm(
      ["update", UUID],
      JSON.stringify({
        ram: 4096,
        set_tags: { role: "db" },
        remove_tags: ["gone"],
        set_customer_metadata: { root_authorized_keys: "ssh-ed25519 AAAA" },
        update_nics: [{ mac: nic?.mac ?? "", ip: "192.0.2.77" }],
        add_nics: [{ nic_tag: "admin", model: "virtio", ip: "dhcp" }],
      }),
    );
    const machine = await host.get(UUID);
    assertEquals([machine.quota, machine.alias, machine.autoboot, machine.ram], [
      20,
      "db01",
      true,
      4096,
    ]);
    assertEquals(machine.max_physical_memory, 4096 + 1024);
    assertEquals(machine.tags, { role: "db" });
    assertEquals(machine.customer_metadata, { root_authorized_keys: "ssh-ed25519 AAAA" });
    const nics = machine.nics as JsonObject[];
    assertEquals(nics.map(({ interface: name, ips, mac }) => [name, ips, mac === nic?.mac]), [
      ["net0", ["192.0.2.77/24"], true],
      ["net1", ["dhcp"], false],
    ]);
    const wrong = await host.vmadm(["update", UUID, "ram=much"]);
    assertEquals([wrong.code, wrong.stderr], [1, "Invalid value(s) for: ram\n"]);
  });
});

Deno.test("update adds and removes disks only while the machine is stopped", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    const change = async (changes: JsonObject) =>
      (await host.vmadm(["update", UUID], JSON.stringify(changes))).stderr;
    await change({
      add_disks: [{ model: "virtio", size: 10 }, { media: "cdrom", path: "/x.iso" }],
    });
    const [, disk, cd] = (await host.get(UUID)).disks as JsonObject[];
    assertEquals(disk?.zfs_filesystem, `zones/${UUID}-disk1`);
    // Without a model the first disk's is copied, and the file is not there.
    assertEquals(cd, {
      boot: false,
      model: "virtio",
      media: "cdrom",
      path: "/x.iso",
      missing: true,
    });
    await change({ remove_disks: [disk?.path ?? "", "/x.iso"] });
    assertEquals(((await host.get(UUID)).disks as JsonObject[]).length, 1);
    const { datasets } = JSON.parse(await Deno.readTextFile(join(host.dir, "datasets.json")));
    assertEquals(datasets.map(({ name }: JsonObject) => name), [
      `zones/${UUID}-disk0`,
      `zones/${UUID}`,
    ]);
    await host.vmadm(["boot", UUID]);
    assertEquals(
      await change({ add_disks: [{ model: "virtio", size: 10 }] }),
      'updates to disks are only allowed when state is "stopped", currently: running (running)\n',
    );
    assertEquals(await change({ quota: 30 }), `Successfully updated VM ${UUID}\n`);
  });
});
