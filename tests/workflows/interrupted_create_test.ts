// Creates that go on after the agent died, or that died with it: what the next run of the job, or its
// undoing, makes of them. The waits are those of the tasks, since nobody can tell how far vmadm is.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { openLocks } from "../../src/host/locks.ts";
import { openVmadm } from "../../src/host/vmadm/vmadm.ts";
import { openState } from "../../src/simulator/host_folder.ts";
import { changeMachine } from "../../src/simulator/machine.ts";
import type { RunningJob } from "../../src/runner/running_job.ts";
import { machineUuidOf, type SimulatedHost } from "../capabilities/simulated_host.ts";
import { until } from "../support/until.ts";
import { messagesOf, paramsFor, withProvisioning } from "./provisioning.ts";

const UUID = machineUuidOf(1);
const WAITING = `undo: Waiting for machine ${UUID}, whose creation may still be running`;
const NOTHING = `undo: Machine ${UUID} does not exist: nothing to remove`;

/** Begins the create of an agent that dies: nothing of this process knows of it. */
function beginCreate(host: SimulatedHost, { uuid }: RunningJob): Promise<unknown> {
  const machine = paramsFor(host, UUID).machine as JsonObject;
  const other = openVmadm({ ...host.transport, locks: openLocks() });
  const created = other.create({ ...machine, uuid: UUID, tags: { zonewright_job: uuid } });
  // Its machine may be removed before it looks whether there is one: nobody waits for what it finds.
  return created.catch(() => {});
}

async function cancel(host: SimulatedHost, running: RunningJob): Promise<void> {
  await host.store.jobs.cancel(running.uuid);
  running.stop("canceled");
}

const REACHED: readonly {
  readonly what: string;
  /** How long a create that is under way stays there. */
  readonly stay: (host: SimulatedHost, ms: number) => Promise<void>;
  readonly reached: (host: SimulatedHost) => Promise<boolean>;
}[] = [
  {
    what: "has made volumes and no zone",
    stay: (host, ms) => host.slowVolumes(ms),
    reached: async (host) => (await host.datasets()).length > 0,
  },
  {
    what: "installs the zone",
    stay: (host, ms) => host.slowInstall(ms),
    reached: async (host) => (await host.vmadm.get(UUID))?.state === "incomplete",
  },
];

/** No test takes as long. */
const FOR_EVER_MS = 600_000;

for (const { what, stay, reached } of REACHED) {
  Deno.test(`a cancel after a restart waits for the create that ${what}, and removes its machine`, async () => {
    await withProvisioning(async ({ host, provision }) => {
      let earlier: Promise<unknown> | undefined;
      let canceled = false;
      const job = await provision(paramsFor(host, UUID), {
        calling: async (name, running) => {
          // The undoing says that it waits.
          if (canceled && name === "info") await stay(host, 0);
          if (earlier !== undefined && !canceled) {
            canceled = true;
            await cancel(host, running);
          }
          if (earlier !== undefined || name !== "vmadm.create") return;
          await stay(host, FOR_EVER_MS);
          earlier = beginCreate(host, running);
          await until("the create", () => reached(host));
          running.stop("shutdown");
        },
      });
      await earlier;
      assertEquals(job.execution, "canceled");
      const messages = await messagesOf(host, job);
      assert(messages.includes(WAITING), messages.join("\n"));
      assertEquals(job.oncancel_results.map(({ result }) => result), [{ removed: UUID }]);
      await host.assertHolds();
    });
  });
}

/** Lets vmadm give up a machine that is being provisioned after so long. */
async function hastyProvisioning(host: SimulatedHost, ms: number): Promise<void> {
  const file = join(host.folder, "host/host.json");
  const facts = JSON.parse(await Deno.readTextFile(file));
  facts.timeouts.provision = ms;
  await Deno.writeTextFile(file, JSON.stringify(facts));
}

Deno.test("create_machine starts again when vmadm died with the agent", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID), {
      before: async (name, times) => {
        if (name !== "create_machine" || times > 1) return;
        await hastyProvisioning(host, 1000);
        await host.simulate("fault", "create_killed_after_install", "1");
      },
      diesAfter: (name, times) => name === "create_machine" && times === 1,
    });
    assertEquals(job.execution, "succeeded");
    const messages = await messagesOf(host, job);
    const left = `create_machine: Deleting machine ${UUID}, which was left failed`;
    assert(messages.includes(left), messages.join("\n"));
    await host.assertHolds(UUID);
  });
});

Deno.test("create_machine starts again when its create left a failed machine without tags", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID), {
      before: async (name, times) => {
        if (name !== "create_machine") return;
        if (times === 1) {
          await hastyProvisioning(host, 1000);
          await host.simulate("fault", "create_killed_after_install", "1");
          return;
        }
        const state = await openState(join(host.folder, "host"));
        await changeMachine(state, UUID, (machine) => machine.vm.tags = {});
        await until("the failure", async () => (await host.vmadm.get(UUID))?.state === "failed");
        assertEquals((await host.vmadm.get(UUID))?.tags, {});
      },
      diesAfter: (name, times) => name === "create_machine" && times === 1,
    });
    assertEquals([job.execution, job.chain_results[2]?.error], ["succeeded", ""]);
    const messages = await messagesOf(host, job);
    const left = `create_machine: Deleting machine ${UUID}, which was left failed`;
    assert(messages.includes(left), messages.join("\n"));
    assertEquals((await host.vmadm.get(UUID))?.tags, { zonewright_job: job.uuid });
    await host.assertHolds(UUID);
  });
});

Deno.test("create_machine leaves a slow installation of before its start alone", async () => {
  await withProvisioning(async ({ host, provision }) => {
    let earlier: Promise<unknown> | undefined;
    const job = await provision(paramsFor(host, UUID), {
      calling: async (name, running) => {
        if (name !== "vmadm.create" || earlier !== undefined) return;
        await host.slowInstall(14_000);
        earlier = beginCreate(host, running);
        await until("the zone", async () => await host.vmadm.get(UUID) !== null);
        running.stop("shutdown");
      },
    });
    await earlier;
    assertEquals(job.execution, "succeeded");
    const messages = await messagesOf(host, job);
    const found = `create_machine: Machine ${UUID} already exists`;
    assert(messages.includes(found), messages.join("\n"));
    await host.assertHolds(UUID);
  });
});

Deno.test("undo waits for a create whose task was given up after three starts", async () => {
  await withProvisioning(async ({ host, provision }) => {
    let earlier: Promise<unknown> | undefined;
    const job = await provision(paramsFor(host, UUID), {
      calling: async (name, running) => {
        const stored = await host.store.jobs.get(running.uuid);
        // The undoing says that it waits.
        if (stored?.phase === "onerror" && name === "info") await host.slowVolumes(0);
        if (stored?.phase !== "chain" || stored.runner_id === null) return;
        if (earlier === undefined && name !== "vmadm.create") return;
        if (earlier === undefined) {
          await host.slowVolumes(FOR_EVER_MS);
          earlier = beginCreate(host, running);
          await until("the volume", async () => (await host.datasets()).length > 0);
        }
        // As a crash does, and unlike a stop, this counts the start.
        const { runner_id, lease, phase } = stored;
        const hold = { job_uuid: running.uuid, runner_id, lease, phase };
        await host.store.jobs.abandon(hold);
        running.stop("shutdown");
      },
    });
    await earlier;
    assertEquals([job.execution, job.chain_results.at(-1)?.error], ["failed", "interrupted"]);
    const messages = await messagesOf(host, job);
    assert(messages.includes(WAITING), messages.join("\n"));
    assertEquals(job.onerror_results.map(({ result }) => result), [{ removed: UUID }]);
    await host.assertHolds();
  });
});

Deno.test("undo reports that nothing is there when no machine has appeared", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID), {
      calling: async (name, running) => {
        if (name === "vmadm.create") await cancel(host, running);
      },
    });
    assertEquals(job.execution, "canceled");
    assertEquals(job.oncancel_results.map(({ result }) => result), [{ removed: null }]);
    assertEquals((await messagesOf(host, job)).slice(-2), [WAITING, NOTHING]);
    await host.assertHolds();
  });
});
