// Several hosts in one shared database: which of them live, and what becomes of one that is given up.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type {
  HostUuid,
  JobUuid,
  MachineUuid,
  RunnerId,
  WorkflowUuid,
} from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import { dropLeftover } from "../../src/machines/leftovers.ts";
import { silentLog } from "../../src/metrics/log.ts";
import type { SharedDatabase } from "../../src/store/postgres/connection.ts";
import type { JobNotice } from "../../src/store/host_store.ts";
import { at, type ClockedStore, lifeOf } from "../support/clocked_store.ts";
import { jobOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { fleetTests, HOSTS } from "./postgres_fleet.ts";
import { DELETE_WORKFLOW } from "../../src/domain/machine/action.ts";
import { LEASE, register } from "./host_suite.ts";
import { FREE, shown } from "./place_suite.ts";
import { create, holdOf, JOB, present, recordOf } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

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
  "a host is away once it was not heard for its lease, and a renewal is a heartbeat",
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
  "events say once that a host is away, however many notice, and once that it has returned",
  async ({ one, other }) => {
    await registerBoth({ one, other });
    for (let beat = 1; beat <= 4; beat++) {
      const now = at(other, instantAfter(T0, beat * LEASE / 3));
      await now.jobs.renew(lifeOf(OTHER), [], LEASE);
      await Promise.all([now.jobs.rescue(OTHER), one.jobs.rescue(ONE)]);
    }
    const said = async () =>
      (await other.events.after(0, 10)).events.flatMap((event) =>
        event.kind === "host" ? [[event.payload.host_uuid, event.payload.change]] : []
      );
    const before = [[ONE, "registered"], [OTHER, "registered"], [ONE, "away"]];
    assertEquals(await said(), before);
    await one.jobs.renew(lifeOf(ONE), [], LEASE);
    await one.jobs.renew(lifeOf(ONE), [], LEASE);
    assertEquals(await said(), [...before, [ONE, "returned"]]);
    // An agent that was started again is heard by its registration.
    for (let beat = 5; beat <= 8; beat++) {
      const now = at(other, instantAfter(T0, beat * LEASE / 3));
      await now.jobs.renew(lifeOf(OTHER), [], LEASE);
      await now.jobs.rescue(OTHER);
    }
    await register(one, lifeOf(ONE, 2), [lifeOf(ONE)]);
    assertEquals((await said()).slice(4), [[ONE, "away"], [ONE, "returned"]]);
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

fleetTest(
  "a host learns that the store has no row of it, or only one of an earlier life",
  async ({ one }) => {
    const unregistered = async (life: ReturnType<typeof lifeOf>) => {
      const renewed = await one.jobs.renew(life, [], LEASE);
      return renewed.kind === "renewed" && renewed.unregistered;
    };
    const [first, second] = [lifeOf(ONE), lifeOf(ONE, 2)];
    assertEquals(await unregistered(first), true);
    await register(one, first);
    assertEquals(await unregistered(first), undefined);
    await one.jobs.begin(second, [first.incarnation], LEASE);
    assertEquals(await unregistered(second), true);
    await register(one, second, [first]);
    assertEquals(await unregistered(second), undefined);
  },
);

fleetTest("a host learns that it was cordoned and admitted", async ({ one, other }) => {
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
    assertEquals((await other.jobs.create(jobOf(7, held), NO_LIMIT)).kind, "duplicate");

    const outcome = await at(other, GONE).hosts.forget(ONE);
    assert(outcome.kind === "forgotten");
    assertEquals([outcome.failed_jobs, outcome.host.state], [4, "forgotten"]);
    const executions = await Promise.all(
      [1, 2, 3, 4, 5, 6].map(async (n) => (await present(other, uuidOf<JobUuid>(n))).execution),
    );
    assertEquals(executions, ["failed", "failed", "canceled", "failed", "failed", "queued"]);
    const [entry] = (await present(other)).chain_results;
    assertEquals([entry?.name, entry?.error, entry?.attempts], ["first", "host_lost", 1]);
    const [waited] = (await present(other, waiting.uuid)).chain_results;
    assertEquals([waited?.error, waited?.finished_at], ["host_lost", GONE]);
    for (const n of [4, 5]) {
      const { chain_results } = await present(other, uuidOf<JobUuid>(n));
      const never = chain_results.map(({ name, error, attempts }) => [name, error, attempts]);
      assertEquals(never, [["first", "host_lost", 0]]);
      assertEquals((await other.jobs.summary(uuidOf<JobUuid>(n)))?.error, "host_lost");
    }
    // Its oncancel chain will not run.
    assertEquals((await present(other, undoing.uuid)).runner_id, null);
    assertEquals(
      (await other.jobs.create(jobOf(8, { ...held, params: { b: 1 } }), NO_LIMIT)).kind,
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
  "another agent fails the jobs of a forgotten host that an ended agent has left",
  async ({ one, other, db }) => {
    await register(one, lifeOf(ONE));
    await create(one, jobOf(1));
    await db.write((tx) => tx.run("UPDATE hosts SET forgotten = true"));
    assertEquals(await at(other, GONE).jobs.rescue(OTHER), 0);
    assertEquals((await present(other)).execution, "failed");
  },
);

/** Registers both hosts of a test; the second one is called gz02. */
async function registerBoth({ one, other }: { one: ClockedStore; other: ClockedStore }) {
  await register(one, lifeOf(ONE));
  await register(other, lifeOf(OTHER), [], { name: "gz02" });
}

fleetTest(
  "a job is bound to the host that it names, wherever it is accepted, and no other claims it",
  async ({ one, other }) => {
    await registerBoth({ one, other });
    const job = await create(one, jobOf(1, { params: { server_uuid: "gz02" } }));
    assertEquals(job.host, OTHER);
    assertEquals((await one.jobs.claim(lifeOf(ONE), 9)).jobs, []);
    assertEquals((await one.jobs.ready(lifeOf(ONE), 9, new Set())).jobs, []);
    assertEquals((await other.jobs.claim(lifeOf(OTHER), 9)).jobs.map(({ uuid }) => uuid), [JOB]);
    // However long that host is silent.
    const later = instantAfter(T0, 3_600_000);
    await at(one, later).jobs.renew(lifeOf(ONE), [], LEASE);
    assertEquals(await at(one, instantAfter(later, 2 * LEASE)).jobs.rescue(ONE), 0);
    assertEquals((await present(one)).runner_id, OTHER);
  },
);

fleetTest(
  "a job for a host that is away is accepted, and its answer says so",
  async ({ one, other }) => {
    await registerBoth({ one, other });
    await at(one, GONE).jobs.renew(lifeOf(ONE), [], LEASE);
    await create(one, jobOf(1, { params: { server_uuid: OTHER } }));
    assertEquals((await shown(one)).host_state, "away");
    const texts = await one.jobs.texts({ host: OTHER }, { limit: 5 }, {
      wording: "document",
      now: GONE,
      masksSecrets: true,
    });
    assertEquals(texts.entries, 1);
    assertEquals(
      (await one.jobs.summaries({ host: OTHER, searchesParams: true }, { limit: 5 })).summaries
        .length,
      1,
    );
    assertEquals(
      (await one.jobs.summaries({ host: ONE, searchesParams: true }, { limit: 5 })).summaries
        .length,
      0,
    );
    await other.jobs.renew(lifeOf(OTHER), [], LEASE);
    assertEquals((await shown(one)).host_state, undefined);
  },
);

fleetTest("a name of several hosts and a forgotten host take no job", async ({ one, other }) => {
  await register(one, lifeOf(ONE));
  await register(other, lifeOf(OTHER));
  const named = (server_uuid: string) =>
    one.jobs.create(jobOf(1, { params: { server_uuid } }), NO_LIMIT);
  assertEquals(await named("gz01"), { kind: "no_host", host: "gz01", reason: "ambiguous" });
  await at(one, GONE).jobs.renew(lifeOf(ONE), [], LEASE);
  await one.hosts.forget(OTHER);
  assertEquals(await named(OTHER), { kind: "no_host", host: OTHER, reason: "forgotten" });
  // It accepts none for itself either.
  const own = await other.jobs.create(jobOf(2), NO_LIMIT);
  assertEquals(own, { kind: "no_host", host: OTHER, reason: "forgotten" });
});

fleetTest(
  "the host of a machine is that of the latest report or succeeded job",
  async ({ one, other }) => {
    await registerBoth({ one, other });
    const machine = uuidOf<MachineUuid>(70);
    const ofMachine = { target: `/machines/${machine}`, machine_uuid: machine };
    let number = 0;
    const host = async () => {
      const job = jobOf(++number, { params: { uuid: machine } });
      const { host } = await create(one, job);
      await one.jobs.cancel(job.uuid);
      return host;
    };
    const report = async (store: ClockedStore, seconds: number, there: boolean) => {
      const machines = there ? [{ uuid: machine }] : [];
      await at(store, instantAfter(T0, seconds * 1000)).machineReports?.report({
        machines,
        gone: there ? null : [machine],
      });
    };
    const succeed = async (store: ClockedStore, seconds: number, workflow = workflowOf()) => {
      const uuid = store === one ? ONE : OTHER;
      const now = at(store, instantAfter(T0, seconds * 1000));
      const params = { uuid: machine, server_uuid: uuid };
      const job = await runOn(store, uuid, jobOf(++number, { ...ofMachine, workflow, params }));
      await now.jobs.recordTask(recordOf(job, { kind: "succeed" }, { runner_id: uuid }));
    };
    assertEquals(await host(), ONE);
    await report(other, 1, true);
    assertEquals(await host(), OTHER);
    await succeed(one, 2);
    assertEquals(await host(), ONE);
    await report(one, 3, true);
    await report(other, 4, true);
    // Both say so: the one that is asked comes first.
    assertEquals(await host(), ONE);
    await succeed(other, 5, workflowOf({ uuid: DELETE_WORKFLOW, name: "machine-delete" }));
    // The report does not know of it yet.
    assertEquals(await host(), ONE);
    await report(other, 6, false);
    await report(one, 6, false);
    assertEquals(await host(), ONE);
    await report(other, 7, true);
    assertEquals(await host(), OTHER);
    await other.hosts.cordon(OTHER);
    const acting = jobOf(++number, { ...ofMachine, params: { server_uuid: ONE } });
    await create(one, acting);
    assertEquals(await host(), ONE);
  },
);

fleetTest(
  "a job of a machine is bound to the host that has the machine",
  async ({ one, other }) => {
    await registerBoth({ one, other });
    const machine = uuidOf<MachineUuid>(70);
    const ofMachine = { target: `/machines/${machine}`, machine_uuid: machine };
    const making = await runOn(other, OTHER, jobOf(1, { ...ofMachine, params: { uuid: machine } }));
    const hostOf = async (number: number, params: Record<string, string>) =>
      (await create(one, jobOf(number, { params }))).host;
    assertEquals(await hostOf(2, { vm_uuid: machine }), OTHER);
    assertEquals(await hostOf(3, { uuid: machine }), OTHER);
    assertEquals(await hostOf(4, { uuid: uuidOf<MachineUuid>(71) }), ONE);
    assertEquals(await hostOf(5, { uuid: machine, server_uuid: "gz01" }), ONE);
    await other.machineClaims.take({ uuid: machine, host: "simulated", job_uuid: making.uuid });
    await other.jobs.recordTask(
      recordOf(making, { kind: "fail", onerror: false }, { runner_id: OTHER }),
    );
    // What is left of it is there, and its own agent alone acts on it.
    assertEquals(await hostOf(6, { uuid: machine }), OTHER);
    const [left] = await one.machineClaims.left();
    assertEquals(left?.host_uuid, OTHER);
    assertEquals(await one.machineClaims.left({ host: "simulated" }), []);
    assertEquals((await other.machineClaims.left({ host: "simulated" })).length, 1);
  },
);

fleetTest(
  "a leftover stays with its host when another host claims the machine",
  async ({ one, other }) => {
    await registerBoth({ one, other });
    const uuid = uuidOf<MachineUuid>(70);
    const machine = { target: `/machines/${uuid}`, machine_uuid: uuid, params: { uuid } };
    const failed = await runOn(one, ONE, jobOf(1, machine));
    await one.machineClaims.take({ uuid, host: "simulated", job_uuid: failed.uuid });
    await one.jobs.recordTask(
      recordOf(failed, { kind: "fail", onerror: false }, { runner_id: ONE }),
    );
    const [left] = await one.machineClaims.left();
    if (left === undefined) throw new Error("Nothing is left");
    await one.machineClaims.postpone(left, 60_000, "busy");

    const params = { uuid, server_uuid: OTHER };
    const made = await runOn(other, OTHER, jobOf(2, { ...machine, params }));
    await other.machineClaims.take({ uuid, host: "simulated", job_uuid: made.uuid });
    assertEquals((await one.machineClaims.get(uuid))?.job_uuid, failed.uuid);
    assertEquals((await other.machineClaims.get(uuid))?.job_uuid, made.uuid);
    const leftOn = async (host_uuid?: HostUuid) =>
      (await other.machineClaims.left({ uuid, host_uuid })).map((one) => one.host_uuid);
    assertEquals([await leftOn(), await leftOn(ONE), await leftOn(OTHER)], [[ONE], [ONE], []]);
    // A job about the machine goes to the host that makes it, not to the one with its remains.
    assertEquals((await create(one, jobOf(3, { params: { vm_uuid: uuid } }))).host, OTHER);
    await other.machineClaims.postpone(left, 1, "not its own");
    await other.machineClaims.release(uuid, failed.uuid);
    assertEquals((await one.machineClaims.get(uuid))?.error, "busy");
    await one.machineClaims.release(uuid, failed.uuid);
    assertEquals(await one.machineClaims.get(uuid), undefined);
    assertEquals((await other.machineClaims.get(uuid))?.job_uuid, made.uuid);
  },
);

fleetTest(
  "a leftover that two hosts have is dropped only for the host that is named",
  async ({ one, other }) => {
    await registerBoth({ one, other });
    const uuid = uuidOf<MachineUuid>(70);
    const machine = { target: `/machines/${uuid}`, machine_uuid: uuid, params: { uuid } };
    for (const [index, [store, host]] of ([[one, ONE], [other, OTHER]] as const).entries()) {
      const params = { uuid, server_uuid: host };
      const job = await runOn(store, host, jobOf(index + 1, { ...machine, params }));
      await store.machineClaims.take({ uuid, host: "simulated", job_uuid: job.uuid });
      const failed = { kind: "fail", onerror: false } as const;
      await store.jobs.recordTask(recordOf(job, failed, { runner_id: host }));
    }
    const drop = (host_uuid?: HostUuid) =>
      dropLeftover({ uuid, host_uuid }, { store: one, log: silentLog });
    const refused = await assertRejects(() => drop(), AgentError);
    assertEquals(refused.code, "conflict");
    assertStringIncludes(refused.message, "2 hosts have one, expected `host`");
    assertEquals((await drop(OTHER)).host_uuid, OTHER);
    assertEquals((await one.machineClaims.left({ uuid })).map((left) => left.host_uuid), [ONE]);
    assertEquals((await drop()).host_uuid, ONE);
    assertEquals((await assertRejects(() => drop(), AgentError)).code, "not_found");
  },
);

fleetTest(
  "a free job is claimed by one host, and runs on another once its lease is over",
  async ({ one, other }) => {
    await registerBoth({ one, other });
    const ms = (at_ms: number) => instantAfter(T0, at_ms);
    await one.jobs.begin(lifeOf(ONE), [], LEASE);
    await other.jobs.begin(lifeOf(OTHER), [], LEASE);
    await create(other, jobOf(1, FREE));
    assertEquals((await present(one)).host, null);
    const both = await Promise.all([
      one.jobs.claim(lifeOf(ONE), 1),
      other.jobs.claim(lifeOf(OTHER), 1),
    ]);
    const [job] = both.flatMap(({ jobs }) => jobs);
    assert(job !== undefined);
    assertEquals(both.flatMap(({ jobs }) => jobs).length, 1);
    const [holder, next] = job.runner_id === ONE ? [one, other] : [other, one];
    const nextId = next === one ? ONE : OTHER;
    for (let beat = 1; beat <= 3; beat++) {
      await at(next, ms(beat * LEASE / 3)).jobs.renew(lifeOf(nextId), [], LEASE);
      if (beat < 3) assertEquals(await next.jobs.rescue(nextId), 0);
    }
    assertEquals(await next.jobs.rescue(nextId), 1);
    const [again] = (await next.jobs.claim(lifeOf(nextId), 1)).jobs;
    assertEquals([again?.uuid, again?.host, again?.starts], [JOB, nextId, 2]);
    // The first one records nothing any more.
    const late = recordOf(job, { kind: "continue" }, { runner_id: job.runner_id as RunnerId });
    assertEquals(await holder.jobs.recordTask(late), false);
    assert(again !== undefined);
    assert(
      await next.jobs.recordTask(recordOf(again, { kind: "continue" }, { runner_id: nextId })),
    );
    assertEquals((await present(one)).chain_results.length, 1);
  },
);

fleetTest(
  "no lease ends while the database is away, and each holder has a whole lease when it is back",
  async ({ one, other }) => {
    await registerBoth({ one, other });
    const ms = (at_ms: number) => instantAfter(T0, at_ms);
    await one.jobs.begin(lifeOf(ONE), [], LEASE);
    await create(one, jobOf(1, FREE));
    assertEquals((await one.jobs.claim(lifeOf(ONE), 1)).jobs.length, 1);
    // Nobody reached it for an hour; the other host is the first one that does.
    const back = 3_600_000;
    assertEquals(await at(other, ms(back)).jobs.rescue(OTHER), 0);
    await other.jobs.renew(lifeOf(OTHER), [], LEASE);
    for (let beat = 1; beat < 3; beat++) {
      await at(other, ms(back + beat * LEASE / 3)).jobs.renew(lifeOf(OTHER), [], LEASE);
      assertEquals(await other.jobs.rescue(OTHER), 0);
    }
    const renewed = await one.jobs.renew(lifeOf(ONE), [holdOf(await present(one), ONE)], LEASE);
    assert(renewed.kind === "renewed");
    assertEquals(renewed.lost, []);
    // The holder is heard no more: its lease counts from its renewal.
    for (let beat = 3; beat < 6; beat++) {
      await at(other, ms(back + beat * LEASE / 3)).jobs.renew(lifeOf(OTHER), [], LEASE);
    }
    assertEquals(await other.jobs.rescue(OTHER), 1);
  },
);

/** Copies a job that is queued, each copy with a later turn, as if they had been posted after it. */
async function copyQueued(db: SharedDatabase, job: JobUuid, copies: number): Promise<void> {
  await db.write((tx) =>
    tx.run(
      `INSERT INTO jobs OVERRIDING SYSTEM VALUE
       SELECT copy.* FROM jobs CROSS JOIN generate_series(1, $2::bigint) AS place
        CROSS JOIN LATERAL jsonb_populate_record(jobs, jsonb_build_object(
          'id', nextval(pg_get_serial_sequence('jobs', 'id')),
          'uuid', gen_random_uuid(), 'turn', turn + place)) AS copy
        WHERE jobs.uuid = $1`,
      job,
      copies,
    )
  );
}

fleetTest(
  "two thousand jobs of one host, and as many free ones, delay none of another's twenty",
  async ({ one, other, db }) => {
    await registerBoth({ one, other });
    const backlog = 2_000;
    for (const [number, fields] of [[1, {}], [2, FREE]] as const) {
      const { uuid } = await create(one, jobOf(number, fields));
      await copyQueued(db, uuid, backlog - 1);
    }
    // Accepted last, ten of them of the workflow of the backlog.
    const second = { workflow: workflowOf({ uuid: uuidOf<WorkflowUuid>(2) }) };
    const jobs: JobUuid[] = [];
    for (let number = 10; number < 30; number++) {
      jobs.push((await create(other, jobOf(number, number < 20 ? {} : second))).uuid);
    }
    const claimed: Job[] = [];
    for (const _job of jobs) {
      assertEquals((await one.jobs.claim(lifeOf(ONE), 1)).jobs.length, 1);
      const ready = await other.jobs.ready(lifeOf(OTHER), 1, new Set());
      assertEquals([ready.jobs.length, ready.free], [1, true]);
      assertEquals((await other.jobs.hold(lifeOf(OTHER), ready.jobs)).length, 1);
      claimed.push(...ready.jobs);
    }
    assertEquals(claimed.map(({ uuid }) => uuid).sort(), jobs);
    // Workflows take turns among the jobs of this host, whatever stands at the other.
    const early = claimed.slice(0, 10).filter(({ workflow_uuid }) =>
      workflow_uuid === second.workflow.uuid
    );
    assert(early.length >= 4 && early.length <= 6, `${early.length} of 10 claims`);
    assertEquals((await other.jobs.ready(lifeOf(OTHER), 1, new Set())).jobs, []);
    assertEquals(await one.jobs.count({ host: ONE, execution: "queued" }), backlog - jobs.length);
  },
);

fleetTest("a callback of a free job is taken by one host", async ({ one, other }) => {
  await registerBoth({ one, other });
  await create(one, jobOf(1, { ...FREE, callback_url: "http://x.test/y" }));
  await one.jobs.cancel(JOB);
  const taken = await Promise.all([one.callbacks.take(1000, 9), other.callbacks.take(1000, 9)]);
  assertEquals(taken.flat().length, 1);
});
