// The programs of the simulated host besides vmadm, and the limits of memory that vmadm moves.

import { assertEquals } from "@std/assert";
import { payload, UUID, withHost } from "./simulator/simulated_host.ts";

const MIB = 1024 ** 2;
const POOL_MIB = 1024 * 1024;

Deno.test("nictagadm lists the networks of the host, as a table or a line each", async () => {
  await withHost(async (host) => {
    const { stdout, code } = await host.run(["nictagadm", "list", "-p"]);
    assertEquals(code, 0);
    assertEquals(stdout.split("\n").map((line) => line.split(":")[0]), ["external", "admin", ""]);
    const addresses = stdout.trim().split("\n").map((line) => line.split(/(?<!\\):/)[1]);
    assertEquals(addresses[0], "02\\:08\\:20\\:00\\:00\\:00");
    const table = await host.run(["nictagadm", "list"]);
    assertEquals(
      table.stdout.split("\n")[1],
      "external       02:08:20:00:00:00  net0           normal",
    );
    for (const words of [["add", "x"], ["list", "-L"], []]) {
      assertEquals((await host.run(["nictagadm", ...words])).code, 2);
    }
  });
});

Deno.test("dladm lists the links of the networks with what each carries", async () => {
  await withHost(async (host) => {
    const file = `${host.dir}/host.json`;
    const links = async () => {
      const { stdout } = await host.run(["dladm", "show-link", "-p", "-o", "link,mtu"]);
      return stdout;
    };
    assertEquals(await links(), "net0:1500\nnet1:1500\n");
    const facts = JSON.parse(await Deno.readTextFile(file));
    const more = {
      nic_tags: ["external", "stub0"],
      etherstubs: ["stub0"],
      nic_mtus: { external: 9000 },
    };
    await Deno.writeTextFile(file, JSON.stringify({ ...facts, ...more }));
    assertEquals(await links(), "net0:9000\nstub0:9000\n");
    const { stdout } = await host.run(["nictagadm", "list", "-p"]);
    assertEquals(stdout.split("\n")[1], "stub0:-:-:etherstub");
    assertEquals((await host.run(["dladm", "show-link"])).code, 1);
  });
});

Deno.test("zfs reports the free space of the pool, and lists datasets", async () => {
  await withHost(async (host) => {
    const room = async () => {
      const args = ["list", "-Hp", "-o", "used,available", "zones"];
      const { stdout } = await host.run(["zfs", ...args]);
      return stdout.trim().split("\t").map((bytes) => Number(bytes) / MIB);
    };
    assertEquals(await room(), [0, POOL_MIB]);
    await host.create(payload({ disks: [{ model: "virtio", size: 1000 }] }));
    assertEquals(await room(), [1000, POOL_MIB - 1000]);
    const names = await host.run(["zfs", "list", "-H", "-o", "name", "-t", "filesystem,volume"]);
    assertEquals(names.stdout, `zones/${UUID}\nzones/${UUID}-disk0\n`);
    const missing = await host.run(["zfs", "list", "-Hp", "-o", "used,available", "tank"]);
    assertEquals(
      [missing.code, missing.stderr],
      [1, "cannot open 'tank': dataset does not exist\n"],
    );
    assertEquals((await host.run(["zfs", "list", "-o", "used", "zones"])).code, 2);
  });
});

Deno.test("memory limits follow max_physical_memory, and stay on their side of it", async () => {
  await withHost(async (host) => {
    await host.create(payload({ ram: 1024, max_locked_memory: 9000, max_swap: 300 }));
    const limits = async () => {
      const { max_physical_memory, max_locked_memory, max_swap } = await host.get(UUID);
      return [max_physical_memory, max_locked_memory, max_swap];
    };
    assertEquals(await limits(), [2048, 2048, 2048]);
    await host.vmadm(["update", UUID, "max_swap=8192"]);
    await host.vmadm(["update", UUID, "max_locked_memory=512"]);
    // The hypervisor locks the memory of its guest and some more.
    assertEquals(await limits(), [2048, 1280, 8192]);
    await host.vmadm(["update", UUID, "max_physical_memory=4096"]);
    assertEquals(await limits(), [4096, 3328, 10_240]);
  });
});
