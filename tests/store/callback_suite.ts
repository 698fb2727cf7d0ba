// The suite's part on callbacks: the callbacks of finished jobs.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { type Instant, instantAfter } from "../../src/domain/instant.ts";
import type { NewJob } from "../../src/domain/job/job.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { at } from "../support/clocked_store.ts";
import { claim, create, finish, JOB, present, recordOf, run, type Test } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const URL = "http://tell.example/done";
const AGAIN_MS = 60_000;
const AGAIN = instantAfter(T0, AGAIN_MS);
const NONE = { kind: "none" } as const;
const READY = { kind: "ready" } as const;

const telling = (number = 1, fields: Partial<NewJob> = {}) =>
  jobOf(number, { callback_url: URL, ...fields });

async function due(store: Store, now: Instant = T0, limit = 100): Promise<JobUuid[]> {
  const taken = await at(store, now).callbacks.take(AGAIN_MS, limit);
  return taken.map(({ job }) => job.uuid);
}

export function callbackTests(test: Test): void {
  test("a callback is due when its job has succeeded, with the job as it is", async (store) => {
    const job = await run(store, telling());
    await store.jobs.recordTask(recordOf(job, { kind: "continue" }));
    assertEquals(await store.callbacks.nextDue(), NONE);
    await finish(store, job);
    assertEquals(await store.callbacks.nextDue(), READY);
    const taken = await store.callbacks.take(AGAIN_MS, 10);
    assertEquals(taken, [{ job: await present(store), url: URL, attempts: 0 }]);
  });
  test("a callback is due after a failure, a cancel, and a resume with an error", async (store) => {
    await finish(store, await run(store, telling(1)), "failed");
    await create(store, telling(2));
    await store.jobs.cancel(uuidOf<JobUuid>(2));
    const waiting = await run(store, telling(3));
    await store.jobs.recordTask(recordOf(waiting, { kind: "cb_wait" }));
    assertEquals((await due(store)).sort(), [1, 2].map((number) => uuidOf<JobUuid>(number)));
    await store.jobs.resume(waiting.uuid, { kind: "error", error: "no", result: "" });
    assertEquals(await due(store), [waiting.uuid]);
    const canceling = await run(store, telling(4));
    await store.jobs.recordTask(recordOf(canceling, { kind: "cb_cancel", oncancel: false }));
    assertEquals(await due(store), [canceling.uuid]);
  });
  test("a canceled job with an oncancel chain has one callback pending", async (store) => {
    await run(store, telling(1, { workflow: workflowOf({ oncancel: [taskOf("undo")] }) }));
    await store.jobs.cancel(JOB);
    const undoing = await present(store);
    await store.jobs.recordTask(recordOf(undoing, { kind: "succeed" }));
    assertEquals(await due(store), [JOB]);
    await store.callbacks.done(JOB);
    assertEquals(await store.callbacks.nextDue(), NONE);
  });
  test("take() and nextDue() skip callbacks to the named hosts", async (store) => {
    await finish(store, await run(store, telling(1)));
    const other = { callback_url: "http://other.example:81/x" };
    await finish(store, await run(store, telling(2, other)));
    const passed = ["tell.example"];
    assertEquals(await store.callbacks.nextDue(["other.example:81", ...passed]), NONE);
    assertEquals(await store.callbacks.nextDue(passed), READY);
    const taken = await store.callbacks.take(AGAIN_MS, 10, passed);
    assertEquals(taken.map(({ job }) => job.uuid), [uuidOf<JobUuid>(2)]);
  });
  test("a job without a callback_url has no callback pending", async (store) => {
    await finish(store, await run(store));
    await create(store, jobOf(2));
    await store.jobs.cancel(uuidOf<JobUuid>(2));
    assertEquals(await store.callbacks.nextDue(), NONE);
    assertEquals(await due(store, AGAIN), []);
  });
  test("after cb('retry') the callback is pending for the successor", async (store) => {
    const job = await run(store, telling(1));
    await store.jobs.recordTask(recordOf(job, { kind: "cb_retry" }, { successor: telling(2) }));
    assertEquals(await due(store, AGAIN), []);
    await finish(store, await claim(store));
    assertEquals(await due(store, AGAIN), [uuidOf<JobUuid>(2)]);
  });
  test("a retried job without a successor keeps its own callback pending", async (store) => {
    const last = await run(store, telling(1));
    await store.jobs.recordTask(recordOf(last, { kind: "cb_retry" }));
    assertEquals(await due(store), [JOB]);
    // Here another caller's job goes on instead, and tells that caller only.
    const job = await run(store, telling(2, { target: "/t" }));
    await create(store, jobOf(3, { target: "/t", params: { a: 1 } }));
    const successor = telling(4, { target: "/t", params: { a: 1 } });
    await store.jobs.recordTask(recordOf(job, { kind: "cb_retry" }, { successor }));
    assertEquals(await due(store), [job.uuid]);
  });
  test("a job that is retried and its successor both keep their callback", async (store) => {
    await finish(store, await run(store, telling(1)), "failed");
    await store.jobs.retry(JOB, telling(2), NO_LIMIT);
    assertEquals(await due(store), [JOB]);
    await finish(store, await claim(store));
    assertEquals(await due(store), [uuidOf<JobUuid>(2)]);
  });

  test("take() puts a callback off for others, and counts the attempts", async (store) => {
    await finish(store, await run(store, telling()));
    assertEquals((await store.callbacks.take(AGAIN_MS, 10))[0]?.attempts, 0);
    assertEquals(await store.callbacks.nextDue(), { kind: "in", ms: AGAIN_MS });
    assertEquals(await due(store, instantAfter(AGAIN, -1)), []);
    assertEquals((await at(store, AGAIN).callbacks.take(0, 10))[0]?.attempts, 1);
    assertEquals((await store.callbacks.take(AGAIN_MS, 10))[0]?.attempts, 2);
  });
  test("take() gives each callback to one of several concurrent callers, and no more than requested", async (store) => {
    for (let number = 1; number <= 30; number++) {
      await create(store, telling(number));
      await store.jobs.cancel(uuidOf<JobUuid>(number));
    }
    const taken = await Promise.all([1, 2, 3, 4].map(() => due(store, T0, 7)));
    assert(taken.every((uuids) => uuids.length === 7));
    assertEquals(new Set(taken.flat()).size, 28);
    assertEquals((await due(store, T0, 7)).length, 2);
  });
  test("a callback is not due before its job has ended", async (store) => {
    await finish(store, await run(store, telling()), "succeeded", AGAIN);
    assertEquals(await at(store, T0).callbacks.nextDue(), { kind: "in", ms: AGAIN_MS });
    assertEquals(await due(store, T0), []);
    assertEquals(await due(store, AGAIN), [JOB]);
  });
  test("postpone() sets when the next attempt is due, and done() ends them", async (store) => {
    await finish(store, await run(store, telling()));
    await due(store);
    await store.callbacks.postpone(JOB, 5000);
    assertEquals(await store.callbacks.nextDue(), { kind: "in", ms: 5000 });
    const [taken] = await at(store, instantAfter(T0, 5000)).callbacks.take(AGAIN_MS, 10);
    assertEquals(taken?.attempts, 1);
    await store.callbacks.done(JOB);
    assertEquals(await store.callbacks.nextDue(), NONE);
    await store.callbacks.postpone(JOB, 5000);
    await store.callbacks.done(JOB);
    assertEquals(await due(store, AGAIN), []);
  });
}
