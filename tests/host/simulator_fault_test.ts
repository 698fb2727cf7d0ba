// Faults of the simulated host that change what happens to machines: each strikes as its name says,
// as often as its count says, and the audit lists what it leaves behind.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { FAULTS } from "../../src/simulator/fault.ts";
import { writeJson } from "../../src/simulator/host_folder.ts";
import { until } from "../support/until.ts";
import {
  failedWith,
  fault,
  liveMachines,
  otherPayload,
  payload,
  type SimulatedHost,
  UUID,
  withHost,
} from "./simulator/simulated_host.ts";

const CREATE = JSON.stringify(payload());

async function leftoversOf(host: SimulatedHost): Promise<string[]> {
  const { code, stdout } = await host.run(["audit"]);
  const { leftovers }: { leftovers: JsonObject[] } = JSON.parse(stdout);
  assertEquals(code, leftovers.length === 0 ? 0 : 1);
  return leftovers.map(({ kind, name, state }) => [kind, name ?? state].join(" ").trim());
}

Deno.test("fault refuses unknown names, lists active faults, and clears them", async () => {
  await withHost(async (host) => {
    for (const words of [["nonsense"], ["hang", "nonsense"], ["slow"], ["conflict", "often"]]) {
      assertEquals((await host.run(["fault", ...words])).code, 1);
    }
    assertEquals((await host.run(["fault", "conflict", "2"])).code, 0);
    assertEquals((await host.run(["fault", "hang", "boot"])).code, 0);
    assertEquals(JSON.parse((await host.run(["fault"])).stdout), {
      conflict: { value: null, left: 2 },
      hang: { value: "start", left: null },
    });
    await host.run(["fault", "--clear", "hang"]);
    assertEquals(Object.keys(JSON.parse((await host.run(["fault"])).stdout)), ["conflict"]);
    await host.run(["fault", "--clear"]);
    assertEquals((await host.run(["fault"])).stdout, "{}\n");
  });
});

Deno.test("create fails once for lack of space or a conflict, and leaves nothing", async () => {
  await withHost(async (host) => {
    await fault(host, "out_of_space", "1");
    failedWith(
      await host.vmadm(["create"], CREATE),
      `Command failed: cannot create 'zones/${UUID}-disk0': out of space\n\n`,
    );
    await fault(host, "conflict", "1");
    failedWith(
      await host.vmadm(["create"], CREATE),
      "Conflict detected with another vm, please check the MAC, IP, and VRID\n",
    );
    assertEquals(await leftoversOf(host), []);
    assertEquals((await host.vmadm(["create"], CREATE)).code, 0);
  });
});

Deno.test("a create that is killed leaves datasets, or a zone in the state it had reached", async () => {
  const points = [
    ["create_killed_after_datasets", `dataset zones/${UUID}-disk0`],
    ["create_killed_after_zonecfg", "zone configured"],
    ["create_killed_after_install", "zone provisioning"],
  ] as const;
  for (const [name, left] of points) {
    await withHost(async (host) => {
      await fault(host, name, "1");
      const killed = await host.vmadm(["create"], CREATE);
      assertEquals([killed.signal, killed.stdout, killed.stderr], ["SIGKILL", "", ""]);
      assertEquals(await leftoversOf(host), [left]);
      const again = await host.vmadm(["create"], CREATE);
      if (name === "create_killed_after_datasets") {
        failedWith(
          again,
          `Command failed: cannot create 'zones/${UUID}-disk0': dataset already exists\n\n`,
        );
        return;
      }
      failedWith(again, `VM with UUID ${UUID} already exists\n`);
      assertStringIncludes((await host.vmadm(["boot", UUID])).stderr, "Cannot start vm from state");
      assertEquals((await host.vmadm(["delete", UUID])).code, 0);
      assertEquals(await leftoversOf(host), []);
    });
  }
});

Deno.test("create may succeed without a message, or print one without a machine", async () => {
  await withHost(async (host) => {
    await fault(host, "create_without_message", "1");
    const silent = await host.vmadm(["create"], CREATE);
    assertEquals(silent, { code: 0, signal: null, stdout: "", stderr: "" });
    assertEquals((await host.get(UUID)).state, "stopped");
    await host.vmadm(["delete", UUID]);
    await fault(host, "create_without_machine", "1");
    const empty = await host.vmadm(["create"], CREATE);
    assertEquals(empty.stderr, `Successfully created VM ${UUID}\n`);
    assertEquals((await host.vmadm(["lookup", "-j", `uuid=${UUID}`])).stdout, "[]\n");
  });
});

Deno.test("create with autoboot fails when the machine does not start", async () => {
  await withHost(async (host) => {
    await fault(host, "provision_timeout", "1");
    failedWith(
      await host.vmadm(["create"], JSON.stringify(payload({ autoboot: true }))),
      `timed out waiting for /var/svc/provisioning to move for ${UUID}\n`,
    );
    assertEquals(await leftoversOf(host), ["zone failed"]);
    assertEquals((await host.get(UUID)).failed, true);
  });
});

Deno.test("validate, and entire calls, fail while their fault is switched on", async () => {
  await withHost(async (host) => {
    await fault(host, "validate_refuses", "1");
    const refused = await host.vmadm(["validate", "create"], CREATE);
    assertEquals([refused.code, JSON.parse(refused.stderr)], [1, { bad_values: ["ram"] }]);
    for (const [name, why] of [["no_global_zone", "global zone"], ["no_root", "root"]] as const) {
      await fault(host, name, "1");
      const said = await host.vmadm(["list"]);
      assertEquals([said.code, said.stdout], [2, ""]);
      assertStringIncludes(said.stderr, "FATAL: cannot run because: ");
      assertStringIncludes(said.stderr, why);
    }
    await fault(host, "vminfod_down", "1");
    failedWith(await host.vmadm(["list"]), "connect ECONNREFUSED\n");
    await host.create(payload());
    await fault(host, "vminfod_down");
    for (const words of [["stop", UUID], ["stop", UUID, "-F"], ["delete", UUID]]) {
      const crashed = await host.vmadm(words);
      assertEquals([crashed.signal, crashed.stdout], ["SIGABRT", ""]);
      assertStringIncludes(crashed.stderr, "Error: connect ECONNREFUSED\n    at ");
    }
    assertEquals((await host.vmadm(["update", UUID], "{}")).signal, "SIGABRT");
  });
});

Deno.test("a start fails, times out, or loses its hypervisor, and the machine stays stopped", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    const texts = {
      start_failure: "first of 1 error: Command failed: ",
      start_timeout: "timeout exceeded",
    } as const;
    for (const [name, text] of Object.entries(texts)) {
      await fault(host, name as keyof typeof texts, "1");
      // The other starts must not fail for being slow.
      const timeouts = name === "start_timeout" ? { start: 300 } : {};
      await writeJson(join(host.dir, "host.json"), { uuid: UUID, timeouts });
      const said = await host.vmadm(["boot", UUID]);
      assertEquals([said.code, said.stdout], [1, ""]);
      assert(said.stderr.startsWith(`Unable to start VM ${UUID}: `));
      assertStringIncludes(said.stderr, text);
      assertEquals((await host.get(UUID)).state, "stopped");
      assertEquals(await liveMachines(host.dir), []);
    }
    await writeJson(join(host.dir, "host.json"), { uuid: UUID });
    await fault(host, "start_dies", "1");
    const died = await host.vmadm(["boot", UUID]);
    assertEquals([died.code, died.stderr], [0, `Successfully started VM ${UUID}\n`]);
    const { state, exit_status } = await host.get(UUID);
    assertEquals([state, exit_status], ["stopped", 1]);
    assertEquals((await host.vmadm(["boot", UUID])).code, 0);
    assertEquals((await host.get(UUID)).state, "running");
  });
});

Deno.test("stop of a stopping machine does nothing and prints that", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.vmadm(["boot", UUID]);
    await fault(host, "acpi_ignored", "1");
    const stopping = host.start(["vmadm", "stop", UUID]);
    await until("state stopping", async () => (await host.get(UUID)).state === "stopping");
    const again = await host.vmadm(["stop", UUID]);
    const words = `VM ${UUID} is already not 'running' (currently: stopping)\n`;
    assertEquals([again.code, again.stderr], [0, words]);
    assertEquals((await host.get(UUID)).state, "stopping");
    assertEquals((await host.vmadm(["stop", UUID, "-F"])).code, 0);
    await stopping.output();
  });
});

Deno.test("what create left of a killed zonecfg has no tags, and bhyve keeps a dataset", async () => {
  await withHost(async (host) => {
    await fault(host, "create_killed_after_zonecfg", "1");
    const text = JSON.stringify(payload({ brand: "bhyve", tags: { a: "b" } }));
    await host.vmadm(["create"], text);
    const { state, tags } = await host.get(UUID);
    assertEquals([state, tags], ["configured", {}]);
    assertEquals((await host.vmadm(["delete", UUID])).code, 0);
    assertEquals(await leftoversOf(host), [`dataset zones/${UUID}`]);
  });
});

Deno.test("update times out waiting for a change that never happens", async () => {
  await withHost(async (host) => {
    await host.create(payload({ brand: "bhyve" }));
    for (const changes of [{ remove_disks: ["/none.iso"] }, { quota: 0 }]) {
      failedWith(
        await host.vmadm(["update", UUID], JSON.stringify(changes)),
        `first of 1 error: vminfod watchForChanges "VM.js update (${UUID})" timeout exceeded\n`,
      );
    }
  }, { timeouts: { event: 10 } });
});

Deno.test("a guest that ignores its power button is ended by the timer of its brand", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.create(otherPayload({ brand: "bhyve" }));
    for (const uuid of [UUID, String(otherPayload().uuid)]) {
      await host.vmadm(["boot", uuid]);
      await fault(host, "acpi_ignored", "1");
      const started = performance.now();
      assertEquals((await host.vmadm(["stop", uuid])).code, 0);
      assert(performance.now() - started >= 350);
      assertEquals((await host.get(uuid)).state, "stopped");
    }
    assertEquals(await liveMachines(host.dir), []);
  }, { timeouts: { stop: 400 } });
});

Deno.test("kvm's own timer ends a guest even if the call that started it was killed", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.vmadm(["boot", UUID]);
    await fault(host, "acpi_ignored", "1");
    const stopping = host.start(["vmadm", "stop", UUID, "-t", "5"]);
    await until("state stopping", async () => (await host.get(UUID)).state === "stopping");
    stopping.kill("SIGKILL");
    await stopping.output();
    await until("state stopped", async () => (await host.get(UUID)).state === "stopped");
  });
});

Deno.test("delete fails while a dataset is busy, and may leak one", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await fault(host, "delete_busy", "1");
    failedWith(
      await host.vmadm(["delete", UUID]),
      `Failed to delete VM ${UUID}: Command failed: ` +
        `cannot destroy 'zones/${UUID}-disk0': dataset is busy\n\n`,
    );
    await fault(host, "delete_leaks", "1");
    assertEquals((await host.vmadm(["delete", UUID])).code, 0);
    assertEquals(await leftoversOf(host), [`dataset zones/${UUID}-disk0`]);
  });
});

Deno.test("the audit lists files beside the root of a zone", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    assertEquals(await leftoversOf(host), []);
    await Deno.writeTextFile(join(host.dir, "zones", UUID, ".zonewright-a.iso.part"), "");
    assertEquals(await leftoversOf(host), ["zone_file .zonewright-a.iso.part"]);
  });
});

Deno.test("every fault has a line in docs/simulator.md", async () => {
  const page = await Deno.readTextFile(
    join(import.meta.dirname ?? "", "../../docs/simulator.md"),
  );
  assertEquals(Object.keys(FAULTS).filter((name) => !page.includes(`\`${name}`)), []);
});
