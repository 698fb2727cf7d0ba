// The suite's part on hosts: what an agent registers, that one agent at a time has a uuid, and what a cordoned
// host claims.

import { assert, assertEquals } from "@std/assert";
import type { HostFacts } from "../../src/domain/host.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { RunnerLife } from "../../src/store/run_store.ts";
import type { RegisterOutcome } from "../../src/store/host_store.ts";
import type { Store } from "../../src/store/store.ts";
import { at, lifeOf } from "../support/clocked_store.ts";
import { jobOf, OTHER_RUNNER, RUNNER, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { create, holdOf, present, recordOf, type Test } from "./store_case.ts";

/** Milliseconds. */
export const LEASE = 30_000;

/** What the host of the tests says of itself. */
export const FACTS: HostFacts = {
  name: "gz01",
  version: "1.2.3",
  capabilities: ["vmadm", "info"],
  slots: 4,
  brands: ["bhyve"],
  address: null,
  public_key: null,
  allow_workflow: [],
  allow_caller: [],
};

/** Registers a host in one of the lives of its agent. */
export function register(
  store: Store,
  life: RunnerLife = lifeOf(RUNNER),
  earlier: readonly RunnerLife[] = [],
  facts: Partial<HostFacts> = {},
): Promise<RegisterOutcome> {
  return store.hosts.register({
    uuid: life.runner_id,
    incarnation: life.incarnation,
    earlier: earlier.map(({ incarnation }) => incarnation),
    facts: { ...FACTS, ...facts },
    lease_ms: LEASE,
  });
}

export function hostTests(test: Test): void {
  test("a host is listed as it registered, and found by its uuid and its name", async (store) => {
    const { kind, host } = await register(store);
    const listed = {
      ...FACTS,
      uuid: RUNNER,
      generation: 1,
      seen_at: T0,
      lease_ms: LEASE,
      cordoned: false,
      forgotten: false,
      state: "connected",
      silent_ms: 0,
    } as const;
    assertEquals([kind, host], ["registered", listed]);
    assertEquals(await store.hosts.list(), [listed]);
    for (const name of [RUNNER, RUNNER.toUpperCase(), "gz01"]) {
      assertEquals(await store.hosts.find(name), { kind: "found", host: listed });
    }
    for (const name of [OTHER_RUNNER, "gz0", "GZ01", "", "\0", "%"]) {
      assertEquals(await store.hosts.find(name), { kind: "not_found" });
    }
  });
  test("the generation of a host rises once for each life, and the facts are those of the last one", async (store) => {
    const [first, second] = [lifeOf(RUNNER), lifeOf(RUNNER, 2)];
    await register(store, first);
    assertEquals((await register(store, first)).host.generation, 1);
    const { host } = await register(store, second, [first], { name: "gz02", slots: 8 });
    assertEquals([host.generation, host.name, host.slots], [2, "gz02", 8]);
    assertEquals((await store.hosts.list()).length, 1);
  });
  test("a host that is cordoned claims nothing new, and what runs goes on", async (store) => {
    await register(store);
    const life = lifeOf(RUNNER);
    await create(store, jobOf(1));
    const [job] = (await store.jobs.claim(life, 1)).jobs;
    assert(job !== undefined);
    await create(store, jobOf(2));
    const cordoned = await store.hosts.cordon(RUNNER);
    assertEquals([cordoned?.state, cordoned?.cordoned], ["cordoned", true]);
    assertEquals(await store.jobs.claim(life, 0), { jobs: [], due: { kind: "none" } });
    assertEquals(await store.jobs.claim(life, 1), { jobs: [], due: { kind: "none" } });
    assertEquals(await store.jobs.ready(life, 1, new Set()), { jobs: [], due: { kind: "none" } });
    assert(await store.jobs.recordTask(recordOf(job, { kind: "continue" })));
    const renewed = await store.jobs.renew(life, [holdOf(job)], LEASE);
    assert(renewed.kind === "renewed");
    assertEquals([renewed.admission, renewed.lost], ["cordoned", []]);
    assertEquals((await present(store)).execution, "running");
    // It stays so in its next life, until it is uncordoned.
    await register(store, lifeOf(RUNNER, 2), [life]);
    assertEquals((await store.hosts.list())[0]?.state, "cordoned");
    assertEquals((await store.hosts.uncordon(RUNNER))?.state, "connected");
    assertEquals((await store.jobs.ready(life, 1, new Set())).jobs.length, 1);
    assertEquals((await store.jobs.claim(life, 1)).jobs.length, 1);
  });
  test("a job that a runner has read before its host was cordoned is not claimed afterwards", async (store) => {
    await register(store);
    const life = lifeOf(RUNNER);
    await create(store, jobOf(1));
    await create(store, jobOf(2));
    const [first, second] = (await store.jobs.ready(life, 2, new Set())).jobs;
    assert(first !== undefined && second !== undefined);
    assertEquals(await store.jobs.hold(life, [first]), [first.uuid]);
    await store.hosts.cordon(RUNNER);
    assertEquals(await store.jobs.hold(life, [first, second]), [first.uuid]);
    assertEquals((await present(store, second.uuid)).execution, "queued");
  });
  test("the running and the waiting jobs of a host are counted separately", async (store) => {
    await register(store);
    // Of the host that runs them, and of the one that they wait for: in this suite they may be two.
    const jobs = async () => {
      const counts = [...(await store.hosts.jobs()).values()];
      return {
        running: counts.reduce((sum, { running }) => sum + running, 0),
        queued: counts.reduce((sum, { queued }) => sum + queued, 0),
      };
    };
    assertEquals(await jobs(), { running: 0, queued: 0 });
    await create(store, jobOf(1));
    await create(store, jobOf(2, { exec_after: instantAfter(T0, 3_600_000) }));
    assertEquals(await jobs(), { running: 0, queued: 2 });
    const [job] = (await store.jobs.claim(lifeOf(RUNNER), 2)).jobs;
    assert(job !== undefined);
    assertEquals(await jobs(), { running: 1, queued: 1 });
    await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" }));
    assertEquals(await jobs(), { running: 0, queued: 1 });
    const workflow = workflowOf({ oncancel: [taskOf("undo")] });
    await create(store, jobOf(3, { workflow }));
    await store.jobs.claim(lifeOf(RUNNER), 1);
    await store.jobs.cancel(uuidOf<JobUuid>(3));
    assertEquals((await present(store, uuidOf<JobUuid>(3))).execution, "canceled");
    assertEquals(await jobs(), { running: 1, queued: 1 });
  });
  test("each change of a host is one event, and a call without a change is none", async (store) => {
    await register(store);
    await register(store);
    await store.hosts.cordon(RUNNER);
    await store.hosts.cordon(RUNNER);
    await store.hosts.uncordon(RUNNER);
    await store.hosts.uncordon(RUNNER);
    await store.hosts.forget(RUNNER);
    const { events } = await store.events.after(0, 10);
    const said = events.map((event) => event.kind === "host" ? event.payload : event.kind);
    assertEquals(
      said,
      (["registered", "cordoned", "uncordoned"] as const).map((change) => ({
        host_uuid: RUNNER,
        change,
        detail: "gz01",
      })),
    );
  });
  test("a host that is not registered cannot be cordoned, admitted or forgotten", async (store) => {
    await register(store);
    assertEquals(await store.hosts.cordon(OTHER_RUNNER), undefined);
    assertEquals(await store.hosts.uncordon(OTHER_RUNNER), undefined);
    assertEquals(await store.hosts.forget(OTHER_RUNNER), { kind: "not_found" });
    assertEquals((await store.hosts.list())[0]?.cordoned, false);
  });
  test("a host that was heard within its lease is not forgotten", async (store) => {
    const { host } = await register(store);
    assertEquals(await store.hosts.forget(RUNNER), { kind: "heard", host });
    const later = instantAfter(T0, LEASE - 1);
    assertEquals((await at(store, later).hosts.forget(RUNNER)).kind, "heard");
    assertEquals((await store.hosts.list())[0]?.forgotten, false);
  });
}
