// What is left when an undo fails is listed and removed later: by the same agent, or by the
// next one. What belongs to somebody else by then is never touched.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { randomUuid, type WorkflowUuid } from "../../src/domain/id.ts";
import type { HealthFinding } from "../../src/service/doctor/check.ts";
import { leftoversCheck } from "../../src/service/doctor/examination.ts";
import { type Instant, instantAfter, systemNow } from "../../src/domain/instant.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { Job } from "../../src/domain/job/job.ts";
import { asOwnerOf } from "../../src/state_dir/own_file.ts";
import {
  LEFTOVER_FIRST_MS,
  LEFTOVER_LONGEST_MS,
  type LeftoverOptions,
  openLeftovers,
  removeDue,
} from "../../src/machines/leftovers.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { PROVISION_MACHINE } from "../../src/machines/workflows/provision_machine.ts";
import { machineUuidOf, type SimulatedHost } from "../capabilities/simulated_host.ts";
import { until } from "../support/until.ts";
import { paramsFor, type Provisioning, withProvisioning } from "./provisioning.ts";

const UUID = machineUuidOf(1);

/** A clock that goes by the system until it is set. */
interface SetClock {
  now: Instant | undefined;
}

function clockOf(clock: SetClock): () => Instant {
  return () => clock.now ?? systemNow();
}

/** A host with the clock of its store. */
interface ClockedHost extends SimulatedHost {
  readonly clock: SetClock;
}

/** A host whose job has failed and whose undoing has failed too. */
async function withLeftover(
  brand: string,
  run: (ground: { host: ClockedHost; job: Job; at: (ms: number) => Instant }) => Promise<void>,
): Promise<void> {
  const clock: SetClock = { now: undefined };
  await withProvisioning(async ({ host, provision }: Provisioning) => {
    const job = await provision(paramsFor(host, UUID, { brand }), {
      failsAfter: (name) => name === "boot_machine",
      before: async (name) => {
        if (name === "undo") await host.simulate("fault", "delete_busy");
      },
    });
    assertStringIncludes(String(job.onerror_results.at(-1)?.error), "undo_failed: ");
    const began = systemNow();
    await run({ host: { ...host, clock }, job, at: (ms) => instantAfter(began, ms) });
  }, { storeNow: clockOf(clock) });
}

function look({ store, vmadm, log, clock }: ClockedHost, now: Instant): Promise<void> {
  clock.now = now;
  const { uuid: workflow } = PROVISION_MACHINE;
  const options: LeftoverOptions = {
    store,
    host: vmadm,
    hostName: "simulated",
    workflow,
    log,
  };
  return removeDue(options, new AbortController().signal);
}

/** What the doctor says of the host. */
async function diagnosed({ vmadm, folder }: SimulatedHost): Promise<HealthFinding> {
  return await leftoversCheck(vmadm, join(folder, "store.db"), asOwnerOf(folder)).examine();
}

async function shown({ store }: SimulatedHost): Promise<JsonObject[]> {
  return (await store.machineClaims.left()).map(({ uuid, job_uuid, tries, next_try_at }) => ({
    uuid,
    job_uuid,
    tries,
    next_try_at,
  }));
}

for (const brand of ["kvm", "bhyve"]) {
  Deno.test(`a ${brand} machine whose undoing failed is removed when its host can`, async () => {
    await withLeftover(brand, async ({ host, job, at }) => {
      const pending = { uuid: UUID, job_uuid: job.uuid };
      assertEquals(await shown(host), [{ ...pending, tries: 0, next_try_at: null }]);
      await look(host, at(0));
      const first = at(LEFTOVER_FIRST_MS);
      assertEquals(await shown(host), [{ ...pending, tries: 0, next_try_at: first }]);
      // Not yet due: nothing is tried.
      await look(host, at(LEFTOVER_FIRST_MS - 1));
      assertEquals(await shown(host), [{ ...pending, tries: 0, next_try_at: first }]);
      await look(host, first);
      const second = instantAfter(first, LEFTOVER_FIRST_MS);
      assertEquals(await shown(host), [{ ...pending, tries: 1, next_try_at: second }]);
      const [left] = await host.store.machineClaims.left();
      assertStringIncludes(String(left?.error), "dataset is busy");
      const warned = await diagnosed(host);
      assertEquals(warned.outcome, "warn");
      assertStringIncludes(warned.detail, `${UUID} (job ${job.uuid}: failed)`);
      await host.simulate("fault", "--clear");
      await look(host, second);
      assertEquals(await shown(host), []);
      assertEquals((await diagnosed(host)).outcome, "ok");
      await host.assertHolds();
    });
  });
}

Deno.test("volumes without a machine are leftovers too, and removed when the host can", async () => {
  const clock: SetClock = { now: undefined };
  await withProvisioning(async ({ host: simulated, provision }) => {
    const host = { ...simulated, clock };
    const job = await provision(paramsFor(host, UUID), {
      calling: async (name, running) => {
        if (name === "vmadm.create") {
          // A loss of power in the middle of the create, and a cancel before the agent is back.
          await host.store.machineClaims.take(
            { uuid: UUID, host: "simulated", job_uuid: running.uuid },
          );
          await host.simulate("fault", "create_killed_after_datasets", "1");
          const machine = paramsFor(host, UUID).machine as JsonObject;
          const stdin = JSON.stringify({ ...machine, uuid: UUID });
          await host.transport.vmadm(["create"], { deadlineMs: 90_000, stdin });
          await host.simulate("fault", "killed", "lookup");
          await host.store.jobs.cancel(running.uuid);
          running.stop("canceled");
        }
      },
    });
    assertEquals(job.execution, "canceled");
    assertStringIncludes(String(job.oncancel_results.at(-1)?.error), "undo_failed: ");
    assertEquals((await shown(host)).map(({ uuid }) => uuid), [UUID]);
    await host.simulate("fault", "--clear");
    const { outcome, detail } = await diagnosed(host);
    assertEquals([outcome, detail], ["warn", `left over: ${UUID} (job ${job.uuid}: canceled)`]);
    assertEquals((await host.datasets()).length, 1);
    await look(host, systemNow());
    await look(host, instantAfter(systemNow(), LEFTOVER_FIRST_MS));
    assertEquals([await shown(host), await host.datasets()], [[], []]);
    await host.assertHolds();
  }, { appearSeconds: 1, storeNow: clockOf(clock) });
});

Deno.test("attempts come at longer and longer intervals, up to an hour", async () => {
  await withLeftover("kvm", async ({ host, at }) => {
    await look(host, at(0));
    let now = at(LEFTOVER_FIRST_MS);
    for (let tries = 0; tries < 8; tries += 1) {
      await look(host, now);
      const wantedMs = Math.min(LEFTOVER_FIRST_MS * 2 ** tries, LEFTOVER_LONGEST_MS);
      const [left] = await shown(host);
      assertEquals([left?.tries, left?.next_try_at], [tries + 1, instantAfter(now, wantedMs)]);
      now = String(left?.next_try_at);
    }
  });
});

Deno.test("the next agent removes what this one has left", async () => {
  await withLeftover("kvm", async ({ host, at }) => {
    await look(host, at(0));
    await host.simulate("fault", "--clear");
    const { log, vmadm } = host;
    const now = () => at(LEFTOVER_FIRST_MS);
    const store = await openSqliteStore(join(host.folder, "store.db"), { now });
    const { uuid: workflow } = PROVISION_MACHINE;
    const leftovers = openLeftovers({
      store,
      host: vmadm,
      hostName: "simulated",
      workflow,
      log,
    }, () => true);
    try {
      await until("the leftover to go", async () => (await shown(host)).length === 0);
    } finally {
      await leftovers.stop();
      await store.close();
    }
    await host.assertHolds();
  });
});

Deno.test("a clock that was ahead delays no attempt for longer than the longest interval", async () => {
  await withLeftover("kvm", async ({ host, at }) => {
    await look(host, at(30 * 86_400_000));
    await host.simulate("fault", "--clear");
    await look(host, at(0));
    assertEquals(await shown(host), []);
    await host.assertHolds();
  });
});

Deno.test("a machine that another job has made since under the same uuid stays", async () => {
  await withLeftover("kvm", async ({ host, at }) => {
    await look(host, at(0));
    await host.simulate("fault", "--clear");
    await host.vmadm.stop(UUID, { force: true });
    await host.vmadm.delete(UUID);
    const machine = paramsFor(host, UUID).machine as JsonObject;
    await host.vmadm.create({ ...machine, uuid: UUID, tags: { zonewright_job: randomUuid() } });
    await look(host, at(LEFTOVER_FIRST_MS));
    assertEquals(await shown(host), []);
    await host.assertHolds(UUID);
  });
});

Deno.test("a machine whose claim another job took over is left to that job", async () => {
  await withLeftover("kvm", async ({ host, at }) => {
    await look(host, at(0));
    await host.simulate("fault", "--clear");
    const [left] = await host.store.machineClaims.left();
    assert(left !== undefined);
    const { uuid: job_uuid } = await host.newJob(7);
    const { machineClaims } = host.store;
    // Between the reading of what is left and the turn of the attempt.
    const store = {
      machineClaims: {
        ...machineClaims,
        left: async () => {
          const found = await machineClaims.left();
          await machineClaims.take(
            { uuid: UUID, host: "simulated", job_uuid },
          );
          return found;
        },
      },
    };
    const { uuid: workflow } = PROVISION_MACHINE;
    host.clock.now = at(LEFTOVER_FIRST_MS);
    const { log, vmadm } = host;
    const options = { store, host: vmadm, hostName: "simulated", workflow, log };
    await removeDue(options, new AbortController().signal);
    assertEquals((await machineClaims.get(UUID))?.job_uuid, job_uuid);
    await host.assertHolds(UUID);
  });
});

Deno.test("a machine of a failed job of another workflow stays, and is no leftover", async () => {
  await withLeftover("kvm", async ({ host, at }) => {
    await host.simulate("fault", "--clear");
    await look(host, at(0));
    const { store, vmadm, log } = host;
    host.clock.now = at(LEFTOVER_FIRST_MS);
    const workflow = randomUuid<WorkflowUuid>();
    const options = { store, host: vmadm, hostName: "simulated", workflow, log };
    await removeDue(options, new AbortController().signal);
    assertEquals(await shown(host), []);
    await host.assertHolds(UUID);
  });
});
