// The suite's part on the claims of jobs on machines.

import { assertEquals } from "@std/assert";
import type { JobUuid, MachineUuid } from "../../src/domain/id.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { finish, JOB, present, recordOf, run, type Test } from "./store_case.ts";

const MACHINE = uuidOf<MachineUuid>(901);
const OTHER_JOB = uuidOf<JobUuid>(2);
const T1 = "2026-11-21T12:00:00.000Z";
const T2 = "2026-11-21T12:30:00.000Z";

const FRESH = { tries: 0, next_try_at: null, error: null };

async function leftOf(store: Store): Promise<string[]> {
  return (await store.machineClaims.left()).map(({ uuid }) => uuid);
}

export function machineClaimTests(test: Test): void {
  test("a machine is the job's that claimed it last", async (store) => {
    await store.machineClaims.take(MACHINE, JOB, T0);
    const claim = { uuid: MACHINE, job_uuid: JOB, claimed_at: T0, ...FRESH };
    assertEquals(await store.machineClaims.get(MACHINE), claim);
    await store.machineClaims.postpone(claim, T2, "busy");
    await store.machineClaims.take(MACHINE, OTHER_JOB, T1);
    const later = { uuid: MACHINE, job_uuid: OTHER_JOB, claimed_at: T1, ...FRESH };
    assertEquals(await store.machineClaims.get(MACHINE), later);
  });

  test("only its own job releases a machine", async (store) => {
    await store.machineClaims.take(MACHINE, JOB, T0);
    await store.machineClaims.release(MACHINE, OTHER_JOB);
    assertEquals((await store.machineClaims.get(MACHINE))?.job_uuid, JOB);
    await store.machineClaims.release(MACHINE, JOB);
    assertEquals(await store.machineClaims.get(MACHINE), undefined);
  });

  test("the machine of a job that succeeded, or that is not kept, is released", async (store) => {
    const job = await run(store);
    await store.machineClaims.take(MACHINE, JOB, T0);
    const unknown = uuidOf<MachineUuid>(902);
    await store.machineClaims.take(unknown, uuidOf<JobUuid>(77), T0);
    await store.machineClaims.settle();
    assertEquals((await store.machineClaims.get(MACHINE))?.job_uuid, JOB);
    assertEquals(await store.machineClaims.get(unknown), undefined);
    await finish(store, job, "succeeded");
    assertEquals(await leftOf(store), []);
    await store.machineClaims.settle();
    assertEquals(await store.machineClaims.get(MACHINE), undefined);
  });

  test("a machine is left when its job has failed, and not before", async (store) => {
    const job = await run(store);
    await store.machineClaims.take(MACHINE, JOB, T0);
    assertEquals(await leftOf(store), []);
    await finish(store, job, "failed");
    await store.machineClaims.settle();
    const { workflow } = jobOf(1);
    assertEquals(await store.machineClaims.left(), [{
      uuid: MACHINE,
      job_uuid: JOB,
      claimed_at: T0,
      ...FRESH,
      execution: "failed",
      workflow_uuid: workflow.uuid,
    }]);
  });

  test("a machine is left when its canceled job has run its last task", async (store) => {
    await run(store, jobOf(1, { workflow: workflowOf({ oncancel: [taskOf("undo")] }) }));
    await store.machineClaims.take(MACHINE, JOB, T0);
    await store.jobs.cancel(JOB, T0);
    assertEquals(await leftOf(store), []);
    const done = recordOf(await present(store), { kind: "succeed" });
    await store.jobs.recordTask(done);
    assertEquals(await leftOf(store), [MACHINE]);
  });

  test("attempts are counted, and keep what the latest failed with", async (store) => {
    const job = await run(store);
    await store.machineClaims.take(MACHINE, JOB, T0);
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
    await store.machineClaims.postpone(await look(), T1, null);
    assertEquals(await shown(), { tries: 0, next_try_at: T1, error: null });
    await store.machineClaims.postpone(await look(), T2, "busy");
    await store.machineClaims.postpone(await look(), T1, "still busy");
    assertEquals(await shown(), { tries: 2, next_try_at: T1, error: "still busy" });
    // A claim that was taken over meanwhile is another one.
    const before = await look();
    await store.machineClaims.take(MACHINE, OTHER_JOB, T1);
    await store.machineClaims.postpone(before, T2, "late");
    assertEquals((await store.machineClaims.get(MACHINE))?.tries, 0);
  });
}
