// The host loses its power: the agent and vmadm end at the same moment, when volumes were made and no
// machine yet. No call of vmadm shows them or removes them, and a create of the same uuid stumbles
// over them; the agent knows whose they are by what it recorded before the create.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import type { RunningJob } from "../../src/runner/running_job.ts";
import { machineUuidOf, type SimulatedHost } from "../capabilities/simulated_host.ts";
import {
  assertConsole,
  messagesOf,
  paramsFor,
  type Provisioning,
  withProvisioning,
} from "./provisioning.ts";

const UUID = machineUuidOf(1);
/** Nothing will appear, since vmadm is dead; the tasks cannot know that. */
const HASTY = { appearSeconds: 1 };
/** What either brand has made by then. */
const ORPHANS: Readonly<Record<string, readonly string[]>> = {
  kvm: [`zones/${UUID}-disk0`],
  bhyve: [`zones/${UUID}/disk0`, `zones/${UUID}`],
};
const BRANDS = Object.keys(ORPHANS);

/** What a create has done when the power goes: its claim is on the disk, and so are its volumes. */
async function losePower(
  host: SimulatedHost,
  brand: string,
  running: RunningJob,
  claimed = true,
): Promise<void> {
  const machine = paramsFor(host, UUID, { brand }).machine as JsonObject;
  const payload = { ...machine, uuid: UUID, tags: { zonewright_job: running.uuid } };
  if (claimed) {
    await host.store.machineClaims.take(
      { uuid: UUID, host: "simulated", job_uuid: running.uuid },
    );
  }
  await host.simulate("fault", "create_killed_after_datasets", "1");
  // Past the agent, which would clean up: it is dead too.
  const killed = await host.transport.vmadm(["create"], {
    deadlineMs: 90_000,
    stdin: JSON.stringify(payload),
  });
  assertEquals(killed.signal, "SIGKILL");
  assertEquals((await host.datasets()).toSorted(), ORPHANS[brand]?.toSorted());
}

/** Runs a job during whose first create the power goes. */
async function provisionThroughLoss(
  { host, provision }: Provisioning,
  brand: string,
  afterwards: (running: RunningJob) => Promise<unknown>,
  claimed = true,
) {
  let lost = false;
  return await provision(paramsFor(host, UUID, { brand }), {
    calling: async (name, running) => {
      if (name !== "vmadm.create" || lost) return;
      lost = true;
      await losePower(host, brand, running, claimed);
      await afterwards(running);
    },
  });
}

for (const brand of BRANDS) {
  const removed = `Removed what a failed create had left: ${ORPHANS[brand]?.join(", ")}`;

  Deno.test(`a ${brand} machine is made after a power loss between its volumes and its zone`, async () => {
    await withProvisioning(async (provisioning) => {
      const { host } = provisioning;
      const job = await provisionThroughLoss(
        provisioning,
        brand,
        async (running) => await running.stop("shutdown"),
      );
      assertEquals(job.execution, "succeeded", JSON.stringify(job.chain_results.at(-1)));
      const messages = await messagesOf(host, job);
      assert(messages.includes(`create_machine: ${removed}`), messages.join("\n"));
      await assertConsole(job);
      await host.assertHolds(UUID);
    }, HASTY);
  });

  Deno.test(`the volumes of a ${brand} machine go when its job is canceled after a power loss`, async () => {
    await withProvisioning(async (provisioning) => {
      const { host } = provisioning;
      const job = await provisionThroughLoss(provisioning, brand, async (running) => {
        await host.store.jobs.cancel(running.uuid);
        running.stop("canceled");
      });
      assertEquals(job.execution, "canceled", JSON.stringify(job.chain_results.at(-1)));
      assertEquals(job.oncancel_results.map(({ error }) => error), [""]);
      const messages = await messagesOf(host, job);
      assert(messages.includes(`undo: ${removed}`), messages.join("\n"));
      assertEquals(await host.datasets(), []);
      assertEquals(await host.store.machineClaims.get(UUID), undefined);
      await host.assertHolds();
    }, HASTY);
  });
}

Deno.test("volumes that no create of the job has made are left alone, and named", async () => {
  await withProvisioning(async (provisioning) => {
    const { host } = provisioning;
    const shutDown = async (running: RunningJob) => await running.stop("shutdown");
    const job = await provisionThroughLoss(provisioning, "kvm", shutDown, false);
    assertEquals(job.execution, "failed");
    const error = String(job.chain_results.at(-1)?.error);
    assertStringIncludes(error, "this job did not create it; remove it with zfs destroy");
    assertEquals(job.onerror_results.map(({ error }) => error), [""]);
    assertEquals(await host.datasets(), ORPHANS.kvm);
  }, HASTY);
});
