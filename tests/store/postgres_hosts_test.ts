// Several hosts in one shared database: which of them live, and what becomes of one that is given up.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, MachineUuid, RunnerId } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JobNotice } from "../../src/store/job_store.ts";
import { at, type ClockedStore, lifeOf } from "../support/clocked_store.ts";
import { jobOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { fleetTests, HOSTS } from "./postgres_fleet.ts";
import { LEASE, register } from "./host_suite.ts";
import { create, holdOf, JOB, present, recordOf } from "./store_case.ts";

const fleetTest = fleetTests();
const [ONE, OTHER] = HOSTS;

/** Creates a job of a host, and claims it there. */
async function runOn(
  store: ClockedStore,
  runner: RunnerId,
  job = jobOf(1),
): Promise<Awaited<ReturnType<typeof present>>> {
  await create(store, job);
  const { jobs } = await store.jobs.claim(lifeOf(runner), 1);
  assert(jobs[0] !== undefined);
  return jobs[0];
}

/** One second after the lease of a host that was heard at the start of the test. */
const GONE = instantAfter(T0, LEASE + 1000);

fleetTest(
  "a host is away once it was not heard for its lease, and a renewal is a sign of life",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE));
    await register(other, lifeOf(OTHER), [], { name: "gz02" });
    const states = async (ms: number) =>
      (await at(one, instantAfter(T0, ms)).hosts.list()).map(({ state }) => state);
    assertEquals(await states(LEASE - 1), ["connected", "connected"]);
    await other.jobs.renew(lifeOf(OTHER), [], LEASE);
    assertEquals(await states(LEASE), ["away", "connected"]);
    await other.hosts.cordon(OTHER);
    assertEquals(await states(LEASE), ["away", "cordoned"]);
    assertEquals(await states(2 * LEASE - 1), ["away", "away"]);
  },
);

fleetTest(
  "a second agent with the uuid of a host that lives is refused",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE));
    const second = await register(other, lifeOf(ONE, 2), [], { name: "copy" });
    assertEquals([second.kind, second.host.name, second.host.generation], ["held", "gz01", 1]);
    assertEquals((await one.hosts.list()).map(({ name }) => name), ["gz01"]);
    assertEquals((await register(at(other, GONE), lifeOf(ONE, 2))).kind, "registered");
  },
);

fleetTest(
  "of two agents that register one uuid at the same time, one gets it",
  async ({ one, other }) => {
    const outcomes = await Promise.all([
      register(one, lifeOf(ONE)),
      register(other, lifeOf(ONE, 2)),
    ]);
    assertEquals(outcomes.map(({ kind }) => kind).sort(), ["held", "registered"]);
  },
);

fleetTest(
  "a name that several hosts have stands for none, and a forgotten host gives its name up",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE));
    await register(other, lifeOf(OTHER));
    assertEquals(await one.hosts.find("gz01"), { kind: "ambiguous", uuids: [ONE, OTHER] });
    await other.jobs.renew(lifeOf(OTHER), [], LEASE);
    await at(one, GONE).jobs.renew(lifeOf(ONE), [], LEASE);
    await one.hosts.forget(OTHER);
    const found = await one.hosts.find("gz01");
    assert(found.kind === "found");
    assertEquals(found.host.uuid, ONE);
  },
);

fleetTest("a host hears that it was cordoned and admitted", async ({ one, other }) => {
  await register(one, lifeOf(ONE));
  const heard: JobNotice[] = [];
  const end = one.jobs.follow((notice) => heard.push(notice));
  try {
    await other.hosts.cordon(ONE);
    await until("the notice", () => heard.some(({ kind }) => kind === "host"));
    const renewed = await one.jobs.renew(lifeOf(ONE), [], LEASE);
    assert(renewed.kind === "renewed");
    assertEquals(renewed.admission, "cordoned");
  } finally {
    end();
  }
});

fleetTest(
  "the unfinished jobs of a forgotten host fail, and free what they held",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE));
    await register(other, lifeOf(OTHER));
    const machine_uuid = uuidOf<MachineUuid>(70);
    const held = { target: "/t", locks: "^/locked", machine_uuid, callback_url: "http://x.test/y" };
    const running = await runOn(one, ONE, jobOf(1, held));
    const waiting = await runOn(one, ONE, jobOf(2));
    await one.jobs.recordTask(recordOf(waiting, { kind: "cb_wait" }, { runner_id: ONE }));
    const workflow = workflowOf({ oncancel: [taskOf("undo")] });
    const undoing = await runOn(one, ONE, jobOf(3, { workflow }));
    await other.jobs.cancel(undoing.uuid);
    await create(one, jobOf(4));
    await create(one, jobOf(5, { exec_after: instantAfter(T0, 3_600_000) }));
    await create(other, jobOf(6));
    assertEquals((await other.jobs.create(jobOf(7, held))).kind, "duplicate");

    const outcome = await at(other, GONE).hosts.forget(ONE);
    assert(outcome.kind === "forgotten");
    assertEquals([outcome.failed_jobs, outcome.host.state], [5, "forgotten"]);
    const executions = await Promise.all(
      [1, 2, 3, 4, 5, 6].map(async (n) => (await present(other, uuidOf<JobUuid>(n))).execution),
    );
    assertEquals(executions, ["failed", "failed", "canceled", "failed", "failed", "queued"]);
    const [entry] = (await present(other)).chain_results;
    assertEquals([entry?.name, entry?.error, entry?.attempts], ["first", "host_lost", 1]);
    const [waited] = (await present(other, waiting.uuid)).chain_results;
    assertEquals([waited?.error, waited?.finished_at], ["host_lost", GONE]);
    assertEquals((await other.jobs.summary(uuidOf<JobUuid>(4)))?.error, "host_lost");
    // Its oncancel chain will not run.
    assertEquals((await present(other, undoing.uuid)).runner_id, null);
    assertEquals(
      (await other.jobs.create(jobOf(8, { ...held, params: { b: 1 } }))).kind,
      "created",
    );
    const callbacks = await other.callbacks.take(1000, 10);
    assertEquals(callbacks.map(({ job }) => job.uuid), [JOB]);

    // The host itself, which comes back, has lost its job and gets no other.
    const renewed = await one.jobs.renew(lifeOf(ONE), [holdOf(running, ONE)], LEASE);
    assert(renewed.kind === "renewed");
    assertEquals([renewed.lost, renewed.admission], [[running.uuid], "forgotten"]);
  },
);

fleetTest(
  "a forgotten host that returns acts on nothing until it is admitted",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE));
    await at(other, GONE).hosts.forget(ONE);
    assertEquals((await other.hosts.forget(ONE)).kind, "forgotten");
    const again = await register(one, lifeOf(ONE, 2), [lifeOf(ONE)]);
    assertEquals([again.kind, again.host.state], ["registered", "forgotten"]);
    assertEquals((await one.hosts.cordon(ONE))?.state, "forgotten");
    assertEquals((await other.hosts.uncordon(ONE))?.state, "connected");
    await create(one, jobOf(9));
    await one.jobs.begin(lifeOf(ONE, 2), [lifeOf(ONE).incarnation], LEASE);
    assertEquals((await one.jobs.claim(lifeOf(ONE, 2), 1)).jobs.length, 1);
  },
);

fleetTest(
  "what an agent that ended has not failed of a forgotten host, another one fails",
  async ({ one, other, db }) => {
    await register(one, lifeOf(ONE));
    await create(one, jobOf(1));
    await db.write((tx) => tx.run("UPDATE hosts SET forgotten = true"));
    assertEquals(await at(other, GONE).jobs.rescue(OTHER), 0);
    assertEquals((await present(other)).execution, "failed");
  },
);
