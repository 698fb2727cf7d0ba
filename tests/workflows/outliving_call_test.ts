// Calls of vmadm that outlive those who asked for them: the agent dies, or the job is canceled, while
// vmadm has made volumes and no zone yet, which nothing that vmadm can do removes; or while it boots.

import { assert, assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { openLocks } from "../../src/host/locks.ts";
import { openVmadm } from "../../src/host/vmadm/vmadm.ts";
import { machineUuidOf } from "../capabilities/simulated_host.ts";
import { until } from "../support/until.ts";
import { assertConsole, messagesOf, paramsFor, withProvisioning } from "./provisioning.ts";
import { isoBytes } from "../support/medium.ts";

const UUID = machineUuidOf(1);
/** How long a call stays where the test wants it. */
const PHASE_MS = 6_000;

Deno.test("create_machine takes over a create that has made no zone when the agent died", async () => {
  await withProvisioning(async ({ host, provision }) => {
    let earlier: Promise<unknown> = Promise.resolve();
    const job = await provision(paramsFor(host, UUID), {
      calling: async (name, { uuid }) => {
        if (name !== "vmadm.create") return;
        const machine = paramsFor(host, UUID).machine as JsonObject;
        const tagged = { ...machine, uuid: UUID, tags: { zonewright_job: uuid } };
        await host.slowVolumes(PHASE_MS);
        const other = openVmadm({ ...host.transport, locks: openLocks() });
        earlier = other.create(tagged);
        await until("the volume", async () => (await host.datasets()).length > 0);
      },
    });
    await earlier;
    assertEquals(job.execution, "succeeded");
    const messages = await messagesOf(host, job);
    const waited =
      `create_machine: Waiting for machine ${UUID}, whose creation an earlier attempt began`;
    assert(messages.includes(waited), messages.join("\n"));
    await assertConsole(job);
    await host.assertHolds(UUID);
  });
});

for (const when of ["before the task looks", "between its look and its call"]) {
  Deno.test(`boot_machine waits for a boot of the agent that died, begun ${when}`, async () => {
    await withProvisioning(async ({ host, provision }) => {
      let earlier: Promise<unknown> = Promise.resolve();
      let task = "";
      const begin = async () => {
        await host.slowBoot(PHASE_MS);
        const other = openVmadm({ ...host.transport, locks: openLocks() });
        earlier = other.boot(UUID, { order: "cd", once: "d", cdrom: "/install.iso" });
        await until("the boot", async () => (await host.vmadm.get(UUID))?.state === "ready");
      };
      const job = await provision(paramsFor(host, UUID), {
        before: async (name) => {
          task = name;
          if (name === "boot_machine" && when === "before the task looks") await begin();
        },
        calling: async (name) => {
          if (name === "vmadm.boot" && task === "boot_machine") await begin();
        },
      });
      await earlier;
      assertEquals(job.execution, "succeeded", JSON.stringify(job.chain_results.at(-1)));
      await assertConsole(job);
      await host.assertHolds(UUID);
    });
  });
}

Deno.test("a medium that is changed after it was verified is not placed", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID), {
      before: async (name) => {
        if (name === "place_medium") await Deno.writeFile(host.iso, isoBytes(40_960));
      },
    });
    assertEquals(job.execution, "failed");
    assertMatch(
      String(job.chain_results.at(-1)?.error),
      /^Cannot place install.iso: it was changed after it had been verified, its sha256 is /,
    );
    await host.assertHolds();
  });
});

Deno.test("a job that is canceled while its volumes are made leaves nothing", async () => {
  await withProvisioning(async ({ host, provision }) => {
    let canceled: Promise<unknown> = Promise.resolve();
    const job = await provision(paramsFor(host, UUID), {
      calling: async (name, running) => {
        if (name !== "vmadm.create") return;
        await host.slowVolumes(PHASE_MS);
        canceled = (async () => {
          await until("the volume", async () => (await host.datasets()).length > 0);
          await host.store.jobs.cancel(running.uuid);
          running.stop("canceled");
        })();
      },
    });
    await canceled;
    assertEquals(job.execution, "canceled");
    assertEquals(job.oncancel_results.map(({ result }) => result), [{ removed: UUID }]);
    await host.assertHolds();
  });
});
