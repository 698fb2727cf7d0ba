// The suite's part on retry: somebody wants a finished job created again.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import type { NewJob } from "../../src/domain/job/job.ts";
import { jobOf, OTHER_RUNNER, resultOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import {
  changedOf,
  claim,
  create,
  finish,
  JOB,
  kindsOf,
  present,
  recordOf,
  run,
  type Test,
} from "./store_case.ts";
import { rescueAt } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

const anew = (number: number, fields: Partial<NewJob> = {}) =>
  jobOf(number, { props: { prev_attempt: JOB }, ...fields });

export function retryTests(test: Test): void {
  test("retry() creates a finished job again, and both name each other", async (store) => {
    await finish(store, await run(store, jobOf(1, { target: "/t" })), "failed");
    const before = await present(store);
    const outcome = await store.jobs.retry(JOB, anew(2, { target: "/t" }), NO_LIMIT);
    assert(outcome.kind === "created");
    assertEquals(outcome.job, await present(store, uuidOf<JobUuid>(2)));
    assertEquals(outcome.job.props, { prev_attempt: JOB });
    const next_attempt = uuidOf<JobUuid>(2);
    assertEquals(await present(store), { ...before, props: { next_attempt } });
    assertEquals((await claim(store)).uuid, next_attempt);
  });
  test("retry() takes a job that succeeded and one that was canceled too", async (store) => {
    await finish(store, await run(store, jobOf(1)));
    assertEquals((await store.jobs.retry(JOB, anew(2), NO_LIMIT)).kind, "created");
    await store.jobs.cancel(uuidOf<JobUuid>(2));
    assertEquals((await store.jobs.retry(uuidOf<JobUuid>(2), jobOf(3), NO_LIMIT)).kind, "created");
  });
  test("the results that a retried job begins with come before its own", async (store) => {
    const chain_results = [resultOf("first", { result: { disk: 1 } })];
    await finish(store, await run(store), "failed");
    await store.jobs.retry(JOB, anew(2, { chain_results }), NO_LIMIT);
    const job = await claim(store);
    assertEquals(job.chain_results, chain_results);
    const entry = resultOf("second");
    const next = { kind: "succeed" } as const;
    assert(await store.jobs.recordTask(recordOf(job, next, { entry })));
    assertEquals((await present(store, job.uuid)).chain_results, [...chain_results, entry]);
  });
  test("retry() is denied by every unfinished job, and finds no unknown one", async (store) => {
    assertEquals(await store.jobs.retry(JOB, anew(9), NO_LIMIT), { kind: "not_found" });
    await run(store, jobOf(1));
    const waiting = await run(store, jobOf(2));
    await store.jobs.recordTask(recordOf(waiting, { kind: "cb_wait" }));
    await create(store, jobOf(3));
    for (const number of [1, 2, 3]) {
      const job = await present(store, uuidOf<JobUuid>(number));
      const outcome = await store.jobs.retry(job.uuid, anew(9), NO_LIMIT);
      assertEquals(outcome, { kind: "denied", reason: "unfinished", job: changedOf(job) });
      assertEquals(await present(store, job.uuid), job);
    }
    assertEquals(await store.jobs.count({}), 3);
  });
  test("retry() is denied by a canceled job until it has undone what it did", async (store) => {
    await run(store, jobOf(1, { workflow: workflowOf({ oncancel: [taskOf("undo")] }) }));
    await store.jobs.cancel(JOB);
    const undoing = await present(store);
    const denied = { kind: "denied", reason: "unfinished", job: changedOf(undoing) } as const;
    assertEquals(await store.jobs.retry(JOB, anew(2), NO_LIMIT), denied);
    await rescueAt(store, OTHER_RUNNER, T0);
    assertEquals((await store.jobs.retry(JOB, anew(2), NO_LIMIT)).kind, "denied");
    const job = await claim(store);
    await store.jobs.recordTask(recordOf(job, { kind: "succeed" }));
    assertEquals((await store.jobs.retry(JOB, anew(2), NO_LIMIT)).kind, "created");
  });
  test("a job is retried once, even by concurrent callers", async (store) => {
    await finish(store, await run(store));
    const wishes = [2, 3, 4].map((number) => store.jobs.retry(JOB, anew(number), NO_LIMIT));
    const outcomes = await Promise.all(wishes);
    assertEquals(kindsOf(outcomes), { created: 1, denied: 2 });
    const job = await present(store);
    const late = await store.jobs.retry(JOB, anew(5), NO_LIMIT);
    const { next_attempt = null } = job.props;
    assertEquals(late, { kind: "denied", reason: "retried", next_attempt });
    assertEquals(await store.jobs.count({}), 2);
  });
  test("retry() is denied by a job that cb('retry') has repeated, and accepts one without a successor", async (store) => {
    const first = await run(store, jobOf(1));
    await store.jobs.recordTask(recordOf(first, { kind: "cb_retry" }, { successor: jobOf(2) }));
    const outcome = await store.jobs.retry(JOB, anew(9), NO_LIMIT);
    assertEquals(outcome.kind === "denied" && outcome.reason, "retried");
    const second = await claim(store);
    await store.jobs.recordTask(recordOf(second, { kind: "cb_retry" }));
    assertEquals((await store.jobs.retry(second.uuid, jobOf(3), NO_LIMIT)).kind, "created");
  });
  test("retry() is refused when the target is taken or locked, or the limit of jobs is reached, and changes nothing", async (store) => {
    await finish(store, await run(store, jobOf(1, { target: "/t" })));
    const before = await present(store);
    await create(store, jobOf(2, { target: "/t" }));
    const duplicate = { kind: "duplicate", job_uuid: uuidOf<JobUuid>(2) } as const;
    assertEquals(await store.jobs.retry(JOB, anew(9, { target: "/t" }), NO_LIMIT), duplicate);
    await store.jobs.cancel(uuidOf<JobUuid>(2));
    await create(store, jobOf(3, { locks: "^/t" }));
    const locked = { kind: "locked", job_uuid: uuidOf<JobUuid>(3) } as const;
    assertEquals(await store.jobs.retry(JOB, anew(9, { target: "/t" }), NO_LIMIT), locked);
    const full = { kind: "full", what: "unfinished jobs", limit: 1 } as const;
    assertEquals(await store.jobs.retry(JOB, anew(9), 1), full);
    assertEquals(await present(store), before);
    await store.jobs.cancel(uuidOf<JobUuid>(3));
    assertEquals((await store.jobs.retry(JOB, anew(9, { target: "/t" }), 1)).kind, "created");
  });
}
