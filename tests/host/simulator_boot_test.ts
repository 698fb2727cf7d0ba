// Starting, stopping, rebooting and deleting a simulated machine: texts, exit codes, the process
// behind it, and which device the guest came up from.

import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { until } from "../support/until.ts";
import {
  liveMachines,
  otherPayload,
  payload,
  type SimulatedHost,
  UUID,
  withHost,
} from "./simulator/simulated_host.ts";
import { changeMachine } from "../../src/simulator/machine.ts";
import { openState } from "../../src/simulator/host_folder.ts";

const FROM_CD = ["boot", UUID, "order=cd,once=d", "cdrom=/x.iso,ide"];

async function bootFromCd(host: SimulatedHost): Promise<void> {
  await host.create(payload());
  await host.place(UUID, "x.iso");
  assertEquals((await host.vmadm(FROM_CD)).stderr, `Successfully started VM ${UUID}\n`);
}

async function guestOf(host: SimulatedHost): Promise<JsonObject> {
  return JSON.parse((await host.run(["guest", UUID])).stdout);
}

Deno.test("a machine boots from its CD, runs as a process, and stops without one", async () => {
  await withHost(async (host) => {
    await bootFromCd(host);
    assertEquals((await guestOf(host)).booted, { kind: "cd", path: "/x.iso" });
    const running = await host.get(UUID);
    assertEquals([running.state, running.zone_state, running.autoboot], [
      "running",
      "running",
      true,
    ]);
    assert(Number(running.pid) > 1);
    assertEquals(await liveMachines(host.dir), [UUID]);

    const again = await host.vmadm(FROM_CD);
    assertEquals(again.stderr, `Unable to start VM ${UUID}: VM ${UUID} is already 'running'\n`);
    assertEquals(again.code, 0);

    const stopped = await host.vmadm(["stop", UUID]);
    assertEquals(stopped.stderr, `Successfully completed stop for VM ${UUID}\n`);
    assertEquals([stopped.code, stopped.stdout], [0, ""]);
    assertEquals(await liveMachines(host.dir), []);
    const halted = await host.get(UUID);
    assertEquals([halted.state, halted.autoboot, halted.exit_status, halted.pid], [
      "stopped",
      false,
      0,
      undefined,
    ]);
    const twice = await host.vmadm(["stop", UUID, "-F"]);
    assertEquals(
      twice.stderr,
      `first of 1 error: VM ${UUID} is already not 'running' (currently: stopped)\n`,
    );
    assertEquals(twice.code, 1);
    const thrice = await host.vmadm(["stop", UUID]);
    assertEquals(thrice.stderr, `VM ${UUID} is already not 'running' (currently: stopped)\n`);
    assertEquals(thrice.code, 0);
    assertEquals((await host.run(["audit"])).code, 0);
  });
});

Deno.test("start refuses a missing file, a wrong model, and unknown words", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    const missing = await host.vmadm(FROM_CD);
    assertEquals(missing.stderr, `Unable to start VM ${UUID}: Cannot find disk: /x.iso\n`);
    assertEquals(missing.code, 1);
    const model = await host.vmadm(["boot", UUID, "cdrom=/x.iso,sata"]);
    assertEquals(
      model.stderr,
      `Unable to start VM ${UUID}: "sata" is not a valid disk model for kvm brand. ` +
        "Valid are: virtio,scsi,ide\n",
    );
    const word = await host.vmadm(["boot", UUID, "once=d"]);
    assertStringIncludes(word.stderr, "Invalid argument to start: once\n");
    assertEquals(word.code, 2);
    assertEquals((await host.vmadm(["boot", UUID, "order=c", "order=d"])).code, 2);
    assertEquals((await host.get(UUID)).state, "stopped");
  });
});

Deno.test("of two starts at once one does the work, and the machine has one process", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    const said = await Promise.all([1, 2].map(() => host.vmadm(["boot", UUID])));
    const words = said.map(({ stderr }) => stderr).filter((text) => text.startsWith("Success"));
    assertEquals(words.length, 1);
    assertEquals(await liveMachines(host.dir), [UUID]);
  });
});

Deno.test("simulate refuses a call without a folder, and unknown words", async () => {
  await withHost(async (host) => {
    assertEquals((await host.run(["nonsense"])).code, 2);
    assertEquals((await host.run([])).code, 2);
    const guest = await host.run(["guest", UUID, "reset"]);
    assertEquals(guest.stderr, `Cannot act on guest ${UUID}: it does not run\n`);
    assertEquals((await host.run(["guest", UUID, "nonsense"])).code, 1);
  });
});

Deno.test("a machine with too many IDE drives dies as soon as it has started", async () => {
  await withHost(async (host) => {
    await host.create(payload({ disks: [1, 2, 3, 4].map((size) => ({ model: "ide", size })) }));
    await host.place(UUID, "x.iso");
    const said = await host.vmadm(FROM_CD);
    assertEquals([said.code, said.stderr], [0, `Successfully started VM ${UUID}\n`]);
    assertEquals((await host.get(UUID)).state, "stopped");
    const log = await Deno.readTextFile(join(host.dir, "zones", UUID, "root/tmp/vm.log"));
    assertStringIncludes(log, "too many drives of model ide\n");
  });
});

Deno.test("each subcommand has its own message for an unknown machine and a bad uuid", async () => {
  await withHost(async (host) => {
    const words: readonly [string[], string][] = [
      [["start", UUID], `Unable to start VM ${UUID}: bad statusCode: 404\n`],
      [["stop", UUID], `VM ${UUID} not found\n`],
      [["stop", UUID, "-F"], "bad statusCode: 404\n"],
      [["reboot", UUID], "bad statusCode: 404\n"],
      [["info", UUID, "vnc"], `Unable to get VM info for VM ${UUID}: bad statusCode: 404\n`],
      [["get", UUID], `zoneadm: ${UUID}: No such zone configured\n`],
      [["update", UUID, "quota=3"], `VM ${UUID} not found\n`],
      [["delete", UUID], `Failed to delete VM ${UUID}: VM ${UUID} not found\n`],
    ];
    for (const [args, stderr] of words) {
      assertEquals(await host.vmadm(args), { code: 1, signal: null, stdout: "", stderr });
    }
    for (const args of [["get", "abc"], ["stop"], ["nonsense"], []]) {
      assertEquals((await host.vmadm(args)).code, 2);
    }
    const help = await host.vmadm(["help"]);
    assertEquals([help.code, help.stderr], [0, ""]);
  });
});

Deno.test("once applies until a reset, which keeps the CD; a graceful reboot loses both", async () => {
  await withHost(async (host) => {
    await bootFromCd(host);
    // Under the host's lock: the machine's own process writes there too.
    await changeMachine(await openState(host.dir), UUID, (machine) => machine.installed = true);
    const reset = await host.vmadm(["reboot", UUID, "-F"]);
    assertEquals(reset.stderr, `Successfully completed reboot for VM ${UUID}\n`);
    const disk = { kind: "disk", path: `/dev/zvol/rdsk/zones/${UUID}-disk0` };
    await until("the disk", async () => {
      const { booted } = await guestOf(host);
      return JSON.stringify(booted) === JSON.stringify(disk);
    });
    assertEquals((await guestOf(host)).order, "order=cd,once=d");
    const before = await host.get(UUID);
    await host.vmadm(["reboot", UUID]);
    assertEquals((await guestOf(host)).files, []);
    assertNotEquals((await host.get(UUID)).pid, before.pid);
    await host.vmadm(["stop", UUID, "-F"]);
    const stopped = await host.vmadm(["reboot", UUID]);
    assertEquals(stopped.stderr, 'Cannot reboot vm from state "stopped", must be "running"\n');
    assertEquals(stopped.code, 1);
  });
});

Deno.test("bhyve ignores boot options and boots from a CD among its disks", async () => {
  await withHost(async (host) => {
    await host.create(payload({ brand: "bhyve", bootrom: "uefi" }));
    await host.place(UUID, "x.iso");
    await host.vmadm(["boot", UUID, "order=cd,once=d", "cdrom=/x.iso,ahci"]);
    assertEquals((await guestOf(host)).booted, { kind: "nothing" });
    await host.vmadm(["stop", UUID]);
    const cd = { add_disks: [{ path: "/x.iso", media: "cdrom", model: "ahci" }] };
    await host.vmadm(["update", UUID], JSON.stringify(cd));
    await host.vmadm(["boot", UUID]);
    assertEquals((await guestOf(host)).booted, { kind: "cd", path: "/x.iso" });
  });
});

Deno.test("a machine whose process dies, or whose guest shuts down, is shown as stopped", async () => {
  await withHost(async (host) => {
    await bootFromCd(host);
    await host.run(["guest", UUID, "crash"]);
    const crashed = await until("state stopped", async () => {
      const machine = await host.get(UUID);
      return machine.state === "stopped" ? machine : null;
    });
    assertEquals([crashed.exit_status, crashed.autoboot], [9, true]);
    await host.vmadm(FROM_CD);
    await host.run(["guest", UUID, "power-off"]);
    const off = await until("state stopped", async () => {
      const machine = await host.get(UUID);
      return machine.state === "stopped" ? machine : null;
    });
    assertEquals(off.exit_status, 0);
    assertEquals((await host.run(["guest", UUID, "crash"])).code, 1);
  });
});

Deno.test("delete ends a running machine and leaves nothing of it", async () => {
  await withHost(async (host) => {
    await bootFromCd(host);
    await host.create(otherPayload({ indestructible_zoneroot: true }));
    const deleted = await host.vmadm(["delete", UUID]);
    assertEquals(deleted.stderr, `Successfully deleted VM ${UUID}\n`);
    assertEquals(await liveMachines(host.dir), []);
    assertEquals((await host.run(["audit"])).stdout, '{\n  "leftovers": []\n}\n');
    const found = await host.vmadm(["lookup", `uuid=${UUID}`]);
    assertEquals([found.code, found.stdout], [0, ""]);
    const other = String(otherPayload().uuid);
    assertEquals(
      (await host.vmadm(["delete", other])).stderr,
      `Failed to delete VM ${other}: indestructible_zoneroot is set, cannot delete\n`,
    );
  });
});

Deno.test("a power cycle ends every process and starts again what has autoboot", async () => {
  await withHost(async (host) => {
    await bootFromCd(host);
    await host.run(["power-cycle"]);
    assertEquals((await host.get(UUID)).state, "stopped");
    assertEquals(await liveMachines(host.dir), []);
    await host.run(["power-cycle", "--autoboot"]);
    assertEquals((await host.get(UUID)).state, "running");
    assertEquals((await guestOf(host)).files, []);
  });
});

Deno.test("a machine ends when the folder of its host disappears", async () => {
  let pid = 0;
  await withHost(async (host) => {
    await bootFromCd(host);
    pid = Number((await host.get(UUID)).pid);
    await Deno.remove(join(host.dir, "machines", `${UUID}.json`));
    await until("the end of the process", async () => (await liveMachines(host.dir)).length === 0);
    const leftovers = JSON.parse((await host.run(["audit"])).stdout).leftovers;
    assertEquals(leftovers.map(({ kind }: JsonObject) => kind), [
      "dataset",
      "dataset",
      "zone_root",
    ]);
  });
  assert(pid > 1);
});
