import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { isJsonObject, type JsonValue } from "../../src/domain/json.ts";
import { openLocks } from "../../src/host/locks.ts";
import { openVmadm } from "../../src/host/vmadm/vmadm.ts";
import type { CapabilityName } from "../../src/wall/protocol.ts";
import { machineUuidOf, type SimulatedHost } from "../capabilities/simulated_host.ts";
import { until } from "../support/until.ts";
import { assertConsole, messagesOf, paramsFor, withProvisioning } from "./provisioning.ts";

const UUID = machineUuidOf(1);
const CHAIN = [
  "preflight",
  "fetch_medium",
  "create_machine",
  "place_medium",
  "boot_machine",
  "wait_for_vnc",
];

/** Ways to make a task fail: what happens on the host just before it. */
const FAILURES: readonly {
  readonly task: string;
  readonly what: string;
  readonly act: (host: SimulatedHost) => Promise<unknown>;
  /** What the error has to tell. */
  readonly tells?: string;
}[] = [
  {
    task: "preflight",
    what: "vmadm refuses the payload",
    act: (host) => host.simulate("fault", "validate_refuses"),
  },
  {
    task: "fetch_medium",
    what: "the medium is not there",
    act: (host) => Deno.remove(host.iso),
  },
  {
    task: "create_machine",
    what: "the pool is full",
    act: (host) => host.simulate("fault", "out_of_space"),
  },
  {
    task: "create_machine",
    what: "vmadm dies after zonecfg",
    act: (host) => host.simulate("fault", "create_killed_after_zonecfg"),
  },
  {
    task: "create_machine",
    what: "vmadm dies after the installation",
    act: (host) => host.simulate("fault", "create_killed_after_install"),
  },
  {
    task: "create_machine",
    what: "vmadm says that it made a machine and did not",
    act: (host) => host.simulate("fault", "create_without_machine"),
  },
  {
    task: "place_medium",
    what: "the medium is gone",
    act: (host) => Deno.remove(host.iso),
  },
  {
    task: "place_medium",
    what: "a link has its name in the zone",
    act: (host) =>
      Deno.symlink("/etc/hostname", join(host.transport.zonesRoot, UUID, "root/install.iso")),
  },
  {
    task: "boot_machine",
    what: "the machine does not start",
    act: (host) => host.simulate("fault", "start_failure"),
  },
  {
    task: "boot_machine",
    what: "the hypervisor dies at once",
    act: (host) => host.simulate("fault", "start_dies"),
    tells: "root/tmp/vm.log ends with: the simulated hypervisor begins | the fault start_dies",
  },
  {
    task: "wait_for_vnc",
    what: "the hypervisor dies",
    act: (host) => host.simulate("guest", UUID, "crash"),
    tells: 'its state is "stopped", expected "running" or "stopping"; its log ',
  },
];

/** The message of an error that a body threw or passed on. */
function messageIn(error: JsonValue | undefined): JsonValue | undefined {
  return isJsonObject(error) ? error.message : error;
}

for (const { task, what, act, tells = "" } of FAILURES) {
  Deno.test(`${task} fails when ${what}, and nothing is left`, async () => {
    await withProvisioning(async ({ host, provision }) => {
      const job = await provision(paramsFor(host, UUID), {
        before: async (name, times) => {
          if (name === task && times === 1) await act(host);
          if (name === "undo") await host.simulate("fault", "--clear");
        },
      });
      assertEquals(job.execution, "failed");
      assertEquals(job.chain_results.map(({ name }) => name).at(-1), task);
      assertStringIncludes(String(messageIn(job.chain_results.at(-1)?.error)), tells);
      assertEquals(job.onerror_results.map(({ error }) => error), [""]);
      await host.assertHolds();
    });
  });
}

Deno.test("a bhyve machine that fails to boot is removed with its medium", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID, { brand: "bhyve" }), {
      before: async (name) => {
        if (name === "boot_machine") await host.simulate("fault", "start_failure");
      },
    });
    assertEquals(job.onerror_results.map(({ result }) => result), [{ removed: UUID }]);
    await host.assertHolds();
  });
});

Deno.test("undo is tried again, and says when it cannot remove the machine", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const failing = async (name: string) => {
      if (name === "boot_machine") await host.simulate("fault", "start_failure");
      if (name === "undo") await host.simulate("fault", "delete_busy");
    };
    const job = await provision(paramsFor(host, UUID), { before: failing });
    const [end] = job.onerror_results;
    assertEquals([job.execution, end?.attempts], ["failed", 4]);
    const words = `undo_failed: machine ${UUID} could not be removed: `;
    assert(String(end?.error).startsWith(words), String(end?.error));
    await host.assertHolds(UUID);
  });
});

Deno.test("undo that succeeds at its second attempt leaves nothing", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID), {
      before: async (name, times) => {
        if (name === "boot_machine") await host.simulate("fault", "start_failure");
        if (name === "undo" && times === 1) await host.simulate("fault", "delete_busy", "1");
      },
    });
    assertEquals(job.onerror_results.map(({ error }) => error), [""]);
    const messages = await messagesOf(host, job);
    const removed = `undo: Removed machine ${UUID} with its disks and the copy of its medium`;
    assertEquals(messages.at(-1), removed);
    await host.assertHolds();
  });
});

for (const task of CHAIN) {
  Deno.test(`a machine is made when the agent dies before the end of ${task} is recorded`, async () => {
    await withProvisioning(async ({ host, provision }) => {
      const job = await provision(paramsFor(host, UUID), {
        diesAfter: (name, times) => name === task && times === 1,
      });
      assertEquals([job.execution, job.chain_results.length], ["succeeded", CHAIN.length]);
      await assertConsole(job);
      await host.assertHolds(UUID);
    });
  });
}

Deno.test("every task and the undo may run twice", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID, { brand: "bhyve" }), {
      before: async (name, times) => {
        if (name === "wait_for_vnc" && times === 1) await host.simulate("guest", UUID, "crash");
      },
      diesAfter: (name, times) => times === 1 && name !== "wait_for_vnc",
    });
    assertEquals([job.execution, job.onerror_results.length], ["failed", 1]);
    await host.assertHolds();
  });
});

Deno.test("create_machine checks for the machine when the answer of vmadm is lost", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID), {
      before: async (name) => {
        if (name === "create_machine") await host.simulate("fault", "empty", "create");
      },
    });
    assertEquals(job.execution, "succeeded");
    await host.assertHolds(UUID);
  });
});

Deno.test("create_machine waits for a create that goes on since before the agent died", async () => {
  await withProvisioning(async ({ host, provision }) => {
    let earlier: Promise<unknown> = Promise.resolve();
    const params = paramsFor(host, UUID);
    const job = await provision(params, {
      calling: async (name, { uuid }) => {
        if (name !== "vmadm.create") return;
        // What a create of the agent that died still does, when it reaches zonecfg first.
        const tags = { zonewright_job: uuid };
        const machine = { brand: "kvm", ram: 512, autoboot: false, uuid: UUID, tags };
        await host.slowInstall(4000);
        const other = openVmadm({ ...host.transport, locks: openLocks() });
        earlier = other.create(machine);
        await until("the earlier create", () => host.vmadm.get(UUID));
      },
    });
    await earlier;
    assertEquals(job.execution, "succeeded");
    await host.assertHolds(UUID);
  });
});

const CANCELED: readonly CapabilityName[] = [
  "vmadm.validate",
  "media.find",
  "media.place",
  "vmadm.boot",
  "vnc.wait",
];

for (const capability of CANCELED) {
  Deno.test(`a job that is canceled at ${capability} leaves nothing`, async () => {
    await withProvisioning(async ({ host, provision }) => {
      const job = await provision(paramsFor(host, UUID), {
        calling: async (name, running) => {
          if (name !== capability) return;
          await host.store.jobs.cancel(running.uuid);
          running.stop("canceled");
        },
      });
      assertEquals(job.execution, "canceled");
      assertEquals(job.oncancel_results.map(({ error }) => error), [""]);
      await host.assertHolds();
    });
  });
}
