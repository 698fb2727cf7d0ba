// The suite's part on cb('retry'): a job that ends as retried, and the one that takes its place.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job, NewJob } from "../../src/domain/job/job.ts";
import type { TaskRecord } from "../../src/store/run_store.ts";
import { jobOf, RUNNER, T0, uuidOf } from "../support/job.ts";
import { create, JOB, present, recordOf, run, type Test } from "./store_case.ts";
import { claimJobs, dueOf } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

const SUCCESSOR = uuidOf<JobUuid>(2);

function retried(job: Job, fields: Partial<NewJob> | null): TaskRecord {
  const successor = fields === null ? null : jobOf(2, {
    target: "/t",
    params: { a: 2 },
    props: { num_attempts: 1, prev_attempt: JOB },
    ...fields,
  });
  return recordOf(job, { kind: "cb_retry" }, { successor });
}

export function successorTests(test: Test): void {
  test("a retried job names its successor, which has its target", async (store) => {
    const job = await run(store, jobOf(1, { target: "/t", params: { a: 2 } }));
    assert(await store.jobs.recordTask(retried(job, {})));
    const before = await present(store);
    assertEquals([before.execution, before.props], ["retried", { next_attempt: SUCCESSOR }]);
    assertEquals([before.finished_at, before.runner_id], [T0, null]);
    const after = await present(store, SUCCESSOR);
    assertEquals([after.execution, after.target, after.params], ["queued", "/t", { a: 2 }]);
    assertEquals(after.props, { num_attempts: 1, prev_attempt: JOB });
  });
  test("a successor waits for its time, and takes over the lock", async (store) => {
    const exec_after = instantAfter(T0, 1000);
    const job = await run(store, jobOf(1, { locks: "^/l" }));
    assert(await store.jobs.recordTask(retried(job, { exec_after, locks: "^/l" })));
    assertEquals(await claimJobs(store, RUNNER, 1, T0), []);
    assertEquals(await dueOf(store), { kind: "at", instant: exec_after });
    const refused = await store.jobs.create(jobOf(3, { target: "/l" }), NO_LIMIT);
    assertEquals(refused, { kind: "locked", job_uuid: SUCCESSOR });
  });
  test("a retried job names the one that has taken its target and params meanwhile", async (store) => {
    const job = await run(store, jobOf(1, { target: "/t", params: { a: 1 } }));
    await create(store, jobOf(3, { target: "/t", params: { a: 2 } }));
    assert(await store.jobs.recordTask(retried(job, {})));
    assertEquals((await present(store)).props, { next_attempt: uuidOf(3) });
    assertEquals(await store.jobs.get(SUCCESSOR), undefined);
  });
  test("a successor whose target was locked meanwhile is not created, and its job names the reason", async (store) => {
    const callback_url = "http://tell.example/";
    const job = await run(store, jobOf(1, { target: "/t", callback_url }));
    await create(store, jobOf(3, { locks: "^/t$" }));
    assert(await store.jobs.recordTask(retried(job, { callback_url })));
    assertEquals(await store.jobs.get(SUCCESSOR), undefined);
    const refused = `job ${uuidOf(3)} locks the target`;
    const before = await present(store);
    assertEquals([before.execution, before.props], ["retried", { next_attempt_refused: refused }]);
    // Nobody goes on for it: its own callback is due, and it may be retried once the lock is gone.
    assertEquals(await store.callbacks.nextDue(), { kind: "ready" });
    assertEquals(
      (await store.jobs.retry(JOB, jobOf(4, { target: "/t" }), NO_LIMIT)).kind,
      "locked",
    );
    await store.jobs.cancel(uuidOf<JobUuid>(3));
    assertEquals(
      (await store.jobs.retry(JOB, jobOf(4, { target: "/t" }), NO_LIMIT)).kind,
      "created",
    );
  });
  test("the lock of a job does not hold against its own successor", async (store) => {
    const job = await run(store, jobOf(1, { target: "/t", locks: "^/t$" }));
    assert(await store.jobs.recordTask(retried(job, { locks: "^/t$" })));
    assertEquals((await present(store, SUCCESSOR)).execution, "queued");
  });
  test("a job that was retried often enough ends without a successor", async (store) => {
    const job = await run(store, jobOf(1, { target: "/t" }));
    assert(await store.jobs.recordTask(retried(job, null)));
    const after = await present(store);
    assertEquals([after.execution, after.props], ["retried", {}]);
    assertEquals(await store.jobs.count({}), 1);
    await create(store, jobOf(3, { target: "/t" }));
  });
  test("a simultaneous cancel and retry leave either no successor, or one that runs", async (store) => {
    for (let round = 0; round < 10; round++) {
      const [uuid, next] = [uuidOf<JobUuid>(10 + round), uuidOf<JobUuid>(50 + round)];
      const job = await run(store, jobOf(10 + round));
      const record = retried(job, { uuid: next, target: null });
      const [written, canceled] = await Promise.all([
        store.jobs.recordTask(record),
        store.jobs.cancel(uuid),
      ]);
      const [before, after] = [await present(store, uuid), await store.jobs.get(next)];
      if (written) {
        assertEquals([before.execution, canceled.kind], ["retried", "denied"]);
        assertEquals(after?.execution, "queued");
        await store.jobs.cancel(next);
      } else assertEquals([before.execution, after], ["canceled", undefined]);
    }
  });
}
