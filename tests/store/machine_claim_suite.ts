// The suite's part on the claims of jobs on machines.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { JobUuid, MachineUuid } from "../../src/domain/id.ts";
import { type Instant, instantAfter, msBetween } from "../../src/domain/instant.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { at } from "../support/clocked_store.ts";
import { create, finish, JOB, present, recordOf, run, type Test } from "./store_case.ts";

const MACHINE = uuidOf<MachineUuid>(901);
const OTHER_JOB = uuidOf<JobUuid>(2);
const T1 = "2026-11-21T12:00:00.000Z";
const T2 = "2026-11-21T12:30:00.000Z";

const FRESH = { tries: 0, next_try_at: null, error: null };

const HOST = "one";

function take(store: Store, uuid: MachineUuid, job_uuid: JobUuid, now: Instant): Promise<boolean> {
  return at(store, now).machineClaims.take({ uuid, host: HOST, job_uuid });
}

async function leftOf(store: Store): Promise<string[]> {
  return (await store.machineClaims.left()).map(({ uuid }) => uuid);
}

export function machineClaimTests(test: Test): void {
  test("a machine belongs to the job that claimed it last", async (store) => {
    for (const number of [1, 2]) await create(store, jobOf(number));
    await take(store, MACHINE, JOB, T0);
    const claim = await store.machineClaims.get(MACHINE);
    assert(claim !== undefined);
    // Of which host it is, the tests of several hosts show.
    const { host_uuid } = claim;
    const expected = { uuid: MACHINE, host: HOST, host_uuid, claimed_at: T0, ...FRESH };
    assertEquals(claim, { ...expected, job_uuid: JOB });
    await store.machineClaims.postpone(claim, 60_000, "busy");
    await take(store, MACHINE, OTHER_JOB, T1);
    const later = { ...expected, job_uuid: OTHER_JOB, claimed_at: T1 };
    assertEquals(await store.machineClaims.get(MACHINE), later);
  });

  test("only its own job releases a machine", async (store) => {
    await create(store, jobOf(1));
    await take(store, MACHINE, JOB, T0);
    await store.machineClaims.release(MACHINE, OTHER_JOB);
    assertEquals((await store.machineClaims.get(MACHINE))?.job_uuid, JOB);
    await store.machineClaims.release(MACHINE, JOB);
    assertEquals(await store.machineClaims.get(MACHINE), undefined);
  });

  test("a machine is claimed for a job that there is, and for no other", async (store) => {
    assertFalse(await take(store, MACHINE, JOB, T0));
    assertEquals(await store.machineClaims.get(MACHINE), undefined);
    await create(store, jobOf(1));
    assert(await take(store, MACHINE, JOB, T0));
  });

  test("the machine of a job that succeeded is released", async (store) => {
    const job = await run(store);
    await take(store, MACHINE, JOB, T0);
    await store.machineClaims.settle();
    assertEquals((await store.machineClaims.get(MACHINE))?.job_uuid, JOB);
    await finish(store, job, "succeeded");
    assertEquals(await leftOf(store), []);
    await store.machineClaims.settle();
    assertEquals(await store.machineClaims.get(MACHINE), undefined);
  });

  test("a leftover is known even after its job was removed", async (store) => {
    const failed = await run(store);
    await take(store, MACHINE, JOB, T0);
    await finish(store, failed, "failed");
    const before = await store.machineClaims.left();
    const done = await run(store, jobOf(2));
    const other = uuidOf<MachineUuid>(902);
    await take(store, other, OTHER_JOB, T0);
    await finish(store, done, "succeeded");
    const all = { age_ms: null, finished_max: 0, limit: 9 };
    assertEquals(await store.jobs.prune(all), 2);
    assertEquals(await store.jobs.get(JOB), undefined);
    await store.machineClaims.settle();
    assertEquals(await store.machineClaims.left(), before);
    assertEquals([before.length, before[0]?.execution], [1, "failed"]);
    assertEquals(await store.machineClaims.get(other), undefined);
    await store.machineClaims.release(MACHINE, JOB);
    assertEquals(await store.machineClaims.left(), []);
  });

  test("each host gets its own leftovers, and a query without a host gets all of them", async (store) => {
    for (const [number, host] of [[1, "one"], [2, "two"]] as const) {
      const job = await run(store, jobOf(number));
      const uuid = uuidOf<MachineUuid>(900 + number);
      await store.machineClaims.take({ uuid, host, job_uuid: job.uuid });
      await finish(store, job, "failed");
    }
    const hostsOf = async (host?: string) =>
      (await store.machineClaims.left({ host })).map((left) => left.host);
    assertEquals(await hostsOf("two"), ["two"]);
    assertEquals(await hostsOf("three"), []);
    assertEquals(await hostsOf(), ["one", "two"]);
  });

  test("a machine is left when its job has failed, and not before", async (store) => {
    const job = await run(store);
    await take(store, MACHINE, JOB, T0);
    assertEquals(await leftOf(store), []);
    await finish(store, job, "failed");
    await store.machineClaims.settle();
    const { workflow } = jobOf(1);
    const left = await store.machineClaims.left();
    assertEquals(left, [{
      uuid: MACHINE,
      host: HOST,
      host_uuid: left[0]?.host_uuid ?? null,
      job_uuid: JOB,
      claimed_at: T0,
      ...FRESH,
      execution: "failed",
      workflow_uuid: workflow.uuid,
      wait_ms: null,
    }]);
  });

  test("left() returns the time until the next attempt, by the clock of the store", async (store) => {
    const job = await run(store);
    await take(store, MACHINE, JOB, T0);
    await finish(store, job, "failed");
    const [left] = await at(store, T0).machineClaims.left();
    assert(left !== undefined);
    await store.machineClaims.postpone(left, 60_000, "busy");
    const waitAt = async (ms: number) =>
      (await at(store, instantAfter(T0, ms)).machineClaims.left())[0]?.wait_ms;
    assertEquals([await waitAt(20_000), await waitAt(70_000)], [40_000, -10_000]);
  });

  test("left() finds the leftover of one machine, and no other", async (store) => {
    const job = await run(store);
    await take(store, MACHINE, JOB, T0);
    assertEquals(await store.machineClaims.left({ uuid: MACHINE }), []);
    await finish(store, job, "failed");
    const left = await store.machineClaims.left();
    assertEquals(left.length, 1);
    assertEquals(await store.machineClaims.left({ uuid: MACHINE }), left);
    assertEquals(await store.machineClaims.left({ uuid: uuidOf<MachineUuid>(999) }), []);
  });

  test("a machine is left when its canceled job has run its last task", async (store) => {
    await run(store, jobOf(1, { workflow: workflowOf({ oncancel: [taskOf("undo")] }) }));
    await take(store, MACHINE, JOB, T0);
    await store.jobs.cancel(JOB);
    assertEquals(await leftOf(store), []);
    const done = recordOf(await present(store), { kind: "succeed" });
    await store.jobs.recordTask(done);
    assertEquals(await leftOf(store), [MACHINE]);
  });

  test("attempts are counted, and keep what the latest failed with", async (store) => {
    const job = await run(store);
    await take(store, MACHINE, JOB, T0);
    await finish(store, job, "failed");
    const look = async () => {
      const [left] = await store.machineClaims.left();
      if (left === undefined) throw new Error("Nothing is left");
      return left;
    };
    const shown = async () => {
      const { tries, next_try_at, error } = await look();
      return { tries, next_try_at, error };
    };
    await at(store, T0).machineClaims.postpone(await look(), msBetween(T0, T1), null);
    assertEquals(await shown(), { tries: 0, next_try_at: T1, error: null });
    await store.machineClaims.postpone(await look(), msBetween(T0, T2), "busy");
    await store.machineClaims.postpone(await look(), msBetween(T0, T1), "still busy");
    assertEquals(await shown(), { tries: 2, next_try_at: T1, error: "still busy" });
    // A claim that was taken over meanwhile is another one.
    const before = await look();
    await create(store, jobOf(2));
    await take(store, MACHINE, OTHER_JOB, T1);
    await store.machineClaims.postpone(before, 60_000, "late");
    assertEquals((await store.machineClaims.get(MACHINE))?.tries, 0);
  });

  test("events of a machine name the leftover that was made of it, failed attempts, and its end", async (store) => {
    const job = await run(store);
    await take(store, MACHINE, JOB, T0);
    await finish(store, job, "failed");
    const [left] = await store.machineClaims.left();
    assert(left !== undefined, "Nothing is left");
    await store.machineClaims.postpone(left, 60_000, null);
    const long = "busy\n".repeat(1000);
    // The second time is a call whose answer was lost.
    for (let times = 0; times < 2; times++) await store.machineClaims.postpone(left, 60_000, long);
    await create(store, jobOf(2));
    await take(store, MACHINE, OTHER_JOB, T1);
    const { events } = await store.events.after(0, 100, { machine: [MACHINE] });
    const changes = events.flatMap((event) =>
      event.kind === "own_machine" ? [event.payload.change] : []
    );
    assertEquals(changes, ["leftover_made", "leftover_failed", "leftover_removed"]);
    const [failed] = events.flatMap((event) =>
      event.kind === "own_machine" ? event.payload.error ?? [] : []
    );
    assertEquals(failed, long.replaceAll("\n", " ").slice(0, 255));
  });
}
