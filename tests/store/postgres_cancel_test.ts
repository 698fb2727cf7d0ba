// Cancels of jobs that a runner of another host holds: what is freed, and when.

import { assert, assertEquals } from "@std/assert";
import type { MachineUuid, RunnerId } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { type Job, type NewJob } from "../../src/domain/job/job.ts";
import { failUnwritten } from "../../src/store/postgres/job/host_lost.ts";
import { at, type ClockedStore, lifeOf } from "../support/clocked_store.ts";
import { jobOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { LEASE, register } from "./host_suite.ts";
import { fleetTests, HOSTS } from "./postgres_fleet.ts";
import { FREE, shown } from "./place_suite.ts";
import { create, holdOf, present, recordOf } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const fleetTest = fleetTests();
const [ONE, OTHER] = HOSTS;
const HELD = { target: "/t", machine_uuid: uuidOf<MachineUuid>(70) };
const UNDOES = { ...HELD, workflow: workflowOf({ oncancel: [taskOf("undo")] }) };

/** Both hosts register, the first one runs a job, and is silent from then on while the other one goes on. */
async function leave(
  { one, other }: { readonly one: ClockedStore; readonly other: ClockedStore },
  fields: Partial<NewJob> = HELD,
): Promise<Job> {
  await register(one, lifeOf(ONE));
  await register(other, lifeOf(OTHER), [], { name: "gz02" });
  await one.jobs.begin(lifeOf(ONE), [], LEASE);
  await create(one, jobOf(1, fields));
  const [job] = (await one.jobs.claim(lifeOf(ONE), 1)).jobs;
  assert(job !== undefined);
  // More often than every half lease, or the database would count as away.
  for (const ms of [LEASE * 0.4, LEASE * 0.8, LEASE + 1000]) {
    await at(other, instantAfter(T0, ms)).jobs.renew(lifeOf(OTHER), [], LEASE);
  }
  return job;
}

/** Whether the target and the machine of the job are free. */
async function isFree(store: ClockedStore, number: number): Promise<boolean> {
  const { target, machine_uuid } = HELD;
  const kinds = [
    (await store.jobs.create(jobOf(number, { target }), NO_LIMIT)).kind,
    (await store.jobs.create(jobOf(number + 1, { target: "/u", machine_uuid }), NO_LIMIT)).kind,
  ];
  const free = kinds.join() === "created,created";
  if (!free) assertEquals(kinds, ["duplicate", "machine_taken"]);
  return free;
}

/** What a host hears with its heartbeat. */
async function renewed(store: ClockedStore, held: readonly Job[], runner: RunnerId = ONE) {
  const holds = held.map((job) => holdOf(job, runner));
  const outcome = await store.jobs.renew(lifeOf(runner), holds, LEASE);
  assert(outcome.kind === "renewed");
  return outcome;
}

fleetTest(
  "a canceled job of a host that is away says so, and keeps target and machine until the host gives it back",
  async ({ one, other }) => {
    const job = await leave({ one, other });
    const outcome = await other.jobs.cancel(job.uuid);
    assert(outcome.kind === "changed");
    assertEquals(outcome.job, { uuid: job.uuid, execution: "canceled", held: true });
    const { execution, host_state, stop_confirmed } = await shown(other);
    assertEquals([execution, host_state, stop_confirmed], ["canceled", "away", false]);
    assert((await present(other)).finished_at !== null);
    assertEquals((await other.jobs.cancel(job.uuid)).kind, "made");
    assertEquals(await isFree(other, 10), false);

    // The first call of the host tells it; nothing that it reports of the task counts any more.
    assertEquals((await renewed(one, [job])).canceled, [job.uuid]);
    assertEquals(await one.jobs.recordTask(recordOf(job, { kind: "succeed" })), false);
    assertEquals(await isFree(other, 20), false);
    assert(await one.jobs.release(holdOf(job, ONE), 5));
    assertEquals((await shown(other)).stop_confirmed, undefined);
    assertEquals(await isFree(other, 30), true);
    assertEquals((await one.jobs.claim(lifeOf(ONE), 9)).jobs.map(({ uuid }) => uuid), []);
  },
);

fleetTest(
  "a canceled job whose end cannot be written stays canceled, and is released",
  async ({ one, other, db }) => {
    const job = await leave({ one, other });
    await other.jobs.cancel(job.uuid);
    const before = await present(other);
    const hold = holdOf(job, ONE);
    assertEquals(await db.write((tx) => failUnwritten(tx, hold, "no room for it")), false);
    assertEquals(await present(other), before);
    assertEquals(await one.jobs.abandon(hold), true);
    const { execution, runner_id, chain_results } = await present(other);
    assertEquals([execution, runner_id, chain_results], ["canceled", null, []]);
    assertEquals(await other.log.attempts(job.uuid), []);
    assertEquals(await isFree(other, 10), true);
  },
);

fleetTest(
  "an agent that starts again confirms with its first call, and begins nothing of the job",
  async ({ one, other }) => {
    const job = await leave({ one, other });
    await other.jobs.cancel(job.uuid);
    await one.jobs.begin(lifeOf(ONE, 2), [lifeOf(ONE).incarnation], LEASE);
    const { execution, runner_id, chain_results, phase } = await present(other);
    assertEquals([execution, runner_id, chain_results, phase], ["canceled", null, [], "chain"]);
    assertEquals(await isFree(other, 10), true);
  },
);

fleetTest(
  "an agent that never heard that it had the job confirms with its next heartbeat",
  async ({ one, other }) => {
    const job = await leave({ one, other });
    await other.jobs.cancel(job.uuid);
    assertEquals((await renewed(one, [])).unknown, []);
    assertEquals((await present(other)).runner_id, null);
  },
);

fleetTest(
  "a canceled job of a host that is away keeps what it has until its oncancel chain has ended there",
  async ({ one, other }) => {
    const job = await leave({ one, other }, UNDOES);
    await other.jobs.cancel(job.uuid);
    const { host_state, stop_confirmed } = await shown(other);
    assertEquals([host_state, stop_confirmed], ["away", false]);
    assertEquals(await isFree(other, 10), false);
    assertEquals((await renewed(one, [job])).canceled, [job.uuid]);
    assertEquals((await shown(other)).stop_confirmed, undefined);
    const undoing = await present(one);
    assertEquals(
      await one.jobs.recordTask(recordOf(undoing, { kind: "succeed" }, { runner_id: ONE })),
      true,
    );
    assertEquals(await isFree(other, 20), true);
  },
);

fleetTest(
  "forgetting a host frees the target of a cancel that it never confirmed",
  async ({ one, other }) => {
    const job = await leave({ one, other });
    await other.jobs.cancel(job.uuid);
    const outcome = await other.hosts.forget(ONE);
    assertEquals(outcome.kind, "forgotten");
    const { execution, runner_id } = await present(other);
    assertEquals([execution, runner_id], ["canceled", null]);
    assertEquals(await isFree(other, 10), true);
  },
);

fleetTest(
  "a cancel through the agent that runs the job, and one of a job that does not run, free at once",
  async ({ one, other }) => {
    const job = await leave({ one, other });
    await one.jobs.cancel(job.uuid);
    assertEquals((await present(one)).runner_id, null);
    assertEquals(await isFree(one, 10), true);
    const queued = await create(one, jobOf(40, { target: "/v" }));
    const outcome = await other.jobs.cancel(queued.uuid);
    assert(outcome.kind === "changed");
    assertEquals(outcome.job.held, undefined);
    const { execution, stop_confirmed } = await shown(other, queued.uuid);
    assertEquals([execution, stop_confirmed], ["canceled", undefined]);
    assertEquals((await other.jobs.create(jobOf(41, { target: "/v" }), NO_LIMIT)).kind, "created");
  },
);

fleetTest(
  "a canceled free job whose host is silent is given back after the lease, by any host",
  async ({ one, other }) => {
    const job = await leave({ one, other }, { ...FREE, target: "/t" });
    await other.jobs.cancel(job.uuid);
    assertEquals((await shown(other)).stop_confirmed, false);
    await other.jobs.rescue(OTHER);
    assertEquals((await present(other)).runner_id, null);
    assertEquals((await shown(other)).stop_confirmed, undefined);
  },
);
