// The suite's part on cancel, which wins over whatever comes later.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { JobNotice } from "../../src/store/host_store.ts";
import { jobOf, resultOf, RUNNER, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import {
  changedOf,
  claim,
  create,
  finish,
  holdOf,
  JOB,
  kindsOf,
  present,
  recordOf,
  run,
  type Test,
} from "./store_case.ts";
import { at, claimJobs, dueOf } from "../support/clocked_store.ts";

export function cancelTests(test: Test): void {
  const undoing = (number = 1) =>
    jobOf(number, { workflow: workflowOf({ oncancel: [taskOf("undo")] }) });

  test("cancel() wins over a late result", async (store) => {
    const job = await run(store);
    assertEquals((await store.jobs.cancel(JOB)).kind, "changed");
    assertFalse(await store.jobs.recordTask(recordOf(job, { kind: "continue" })));
    const after = await present(store);
    assertEquals([after.execution, after.chain_results, after.finished_at], ["canceled", [], T0]);
    assertEquals(after.runner_id, null);
  });
  test("followers learn of a cancel, and that the job has ended", async (store) => {
    await run(store);
    const notices: JobNotice[] = [];
    const end = store.jobs.follow((notice) => void notices.push(notice));
    await store.jobs.cancel(JOB);
    await store.jobs.cancel(JOB);
    end();
    const of = (kind: JobNotice["kind"]) => notices.filter((notice) => notice.kind === kind);
    assertEquals(of("canceled"), [{ kind: "canceled", job_uuid: JOB }]);
    assertEquals(of("changed"), [{ kind: "changed", job_uuid: JOB }]);
  });
  test("followers learn that a job is waiting, and of its callback", async (store) => {
    const { uuid } = await run(store, jobOf(1, { callback_url: "https://hooks.example.com/1" }));
    const notices: JobNotice[] = [];
    const end = store.jobs.follow((notice) => void notices.push(notice));
    const held = await present(store, uuid);
    await store.jobs.recordTask(recordOf(held, { kind: "cb_wait" }));
    assertEquals(notices, [{ kind: "changed", job_uuid: uuid }]);
    await store.jobs.cancel(uuid);
    end();
    assertEquals(notices.filter(({ kind }) => kind === "callback"), [{ kind: "callback" }]);
  });
  test("of concurrent cancels one succeeds, and the others report the job as canceled", async (store) => {
    await run(store);
    const outcomes = await Promise.all([1, 2, 3, 4].map(() => store.jobs.cancel(JOB)));
    assertEquals(kindsOf(outcomes), { changed: 1, made: 3 });
    const canceled = { uuid: JOB, execution: "canceled" };
    for (const outcome of outcomes) {
      if (outcome.kind !== "not_found") assertEquals(outcome.job, canceled);
    }
  });
  test("of a cancel and a last result at the same time, exactly one counts", async (store) => {
    for (let round = 0; round < 10; round++) {
      const job = await run(store, jobOf(round));
      const end = recordOf(job, { kind: "succeed" });
      const [written, canceled] = await Promise.all([
        store.jobs.recordTask(end),
        store.jobs.cancel(job.uuid),
      ]);
      const after = await present(store, job.uuid);
      assertEquals(canceled.kind, written ? "denied" : "changed");
      assertEquals(after.execution, written ? "succeeded" : "canceled");
      assertEquals(after.chain_results.length, written ? 1 : 0);
    }
  });
  test("cancel() is denied by every job that ended otherwise, and finds no unknown one", async (store) => {
    assertEquals((await store.jobs.cancel(JOB)).kind, "not_found");
    await finish(store, await run(store, jobOf(1)), "succeeded");
    await finish(store, await run(store, jobOf(2)), "failed");
    const retried = recordOf(await run(store, jobOf(3)), { kind: "cb_retry" });
    await store.jobs.recordTask(retried);
    for (const number of [1, 2, 3]) {
      const before = await present(store, uuidOf<JobUuid>(number));
      const outcome = await at(store, instantAfter(T0, 1)).jobs.cancel(before.uuid);
      assertEquals(outcome, { kind: "denied", reason: "finalized", job: changedOf(before) });
      assertEquals(await present(store, before.uuid), before);
    }
  });
  test("cancel() ends a queued, a delayed and a waiting job, which nobody claims any more", async (store) => {
    await create(store, jobOf(1, { exec_after: instantAfter(T0, 1000) }));
    const waiting = await run(store, jobOf(2));
    await store.jobs.recordTask(recordOf(waiting, { kind: "cb_wait" }));
    await create(store, jobOf(3));
    for (const number of [1, 2, 3]) {
      const outcome = await store.jobs.cancel(uuidOf<JobUuid>(number));
      assertEquals(outcome.kind, "changed");
    }
    assertEquals(await store.jobs.count({ execution: "canceled" }), 3);
    assertEquals(await dueOf(store), { kind: "none" });
    assertEquals(await claimJobs(store, RUNNER, 9, instantAfter(T0, 5000)), []);
  });

  test("cancel() of a running job leaves its oncancel chain to the owner", async (store) => {
    const running = await run(store, undoing());
    const outcome = await store.jobs.cancel(JOB);
    const job = await present(store);
    assertEquals(outcome, { kind: "changed", job: { uuid: JOB, execution: "canceled" } });
    assertEquals([job.execution, job.phase, job.runner_id], ["canceled", "oncancel", RUNNER]);
    assertEquals([job.elapsed_ms, job.starts], [0, 1]);
    assertFalse(await store.jobs.recordTask(recordOf(running, { kind: "continue" })));
    const done = recordOf(job, { kind: "succeed" }, { entry: resultOf("undo") });
    assert(await store.jobs.recordTask(done));
    const after = await present(store);
    assertEquals([after.execution, after.runner_id, after.finished_at], ["canceled", null, T0]);
    assertEquals([after.chain_results.length, after.oncancel_results.length], [0, 1]);
  });
  test("the oncancel chain of a job that waits, or was queued again, becomes claimable", async (store) => {
    const leave = [
      (job: Job) => store.jobs.recordTask(recordOf(job, { kind: "cb_wait" })),
      (job: Job) => store.jobs.release(holdOf(job), 7),
    ];
    for (const [number, end] of leave.entries()) {
      await end(await run(store, undoing(number)));
      await store.jobs.cancel(uuidOf<JobUuid>(number));
      assertEquals(await dueOf(store), { kind: "ready" });
      const job = await claim(store);
      assertEquals([job.execution, job.phase, job.starts], ["canceled", "oncancel", 1]);
      assertEquals([job.uuid, job.elapsed_ms], [uuidOf<JobUuid>(number), 0]);
      assert(job.phases_ms > 0);
    }
  });
  test("a job in its oncancel chain is released like any other, and stays canceled", async (store) => {
    await run(store, undoing());
    await store.jobs.cancel(JOB);
    assert(await store.jobs.release(holdOf(await present(store)), 3));
    const released = await present(store);
    assertEquals([released.execution, released.phase, released.starts], [
      "canceled",
      "oncancel",
      0,
    ]);
    const again = await claim(store);
    assertEquals([again.elapsed_ms, again.starts], [3, 1]);
    assert(await store.jobs.abandon(holdOf(again)));
    assertEquals((await claim(store)).starts, 2);
  });
  test("the oncancel chain has its own timeout, without the time of the canceled chain", async (store) => {
    const running = await run(store, undoing());
    await store.jobs.cancel(JOB);
    assert(await store.jobs.release(holdOf(running), 99));
    const released = await present(store);
    assertEquals([released.phase, released.elapsed_ms], ["oncancel", 0]);
  });
  test("a job in its oncancel chain cannot be canceled, resumed or failed", async (store) => {
    await run(store, undoing());
    await store.jobs.cancel(JOB);
    const before = await present(store);
    assertEquals((await store.jobs.cancel(JOB)).kind, "made");
    const resume = { kind: "error", error: "x", result: "" } as const;
    assertEquals((await store.jobs.resume(JOB, resume)).kind, "denied");
    assertEquals(await present(store), before);
  });
  test("cancel() of a job that never ran starts no oncancel chain", async (store) => {
    await create(store, undoing());
    await store.jobs.cancel(JOB);
    assertEquals((await claimJobs(store, RUNNER, 1, T0)).length, 0);
    assertEquals((await present(store)).phase, "chain");
  });
}
