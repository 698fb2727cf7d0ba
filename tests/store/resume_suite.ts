// The suite's part on resume: somebody reports what became of a waiting task.

import { assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JsonValue } from "../../src/domain/json.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, resultOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
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
import { at, dueOf } from "../support/clocked_store.ts";

const OK = { kind: "result", result: "OK" } as const;
const LATER = instantAfter(T0, 1000);

/** A job that waits after its first task. */
async function wait(store: Store, number = 1): Promise<void> {
  const job = await run(store, jobOf(number));
  const entry = resultOf("first", { result: "so far", error: "wait" });
  await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" }, { entry }));
}

export function resumeTests(test: Test): void {
  test("resume() records the result of the waiting task and queues the job", async (store) => {
    await wait(store);
    const outcome = await at(store, LATER).jobs.resume(JOB, { kind: "result", result: { a: [1] } });
    const job = await present(store);
    assertEquals(outcome, { kind: "changed", job: { uuid: JOB, execution: "queued" } });
    assertEquals([job.execution, job.claimable_at], ["queued", LATER]);
    const entry = resultOf("first", { result: { a: [1] }, error: "", finished_at: LATER });
    assertEquals(job.chain_results, [entry]);
    assertEquals(await dueOf(store), { kind: "ready" });
    assertEquals((await claim(store)).chain_results.length, 1);
  });
  test("resume() with an error ends the job as failed", async (store) => {
    await wait(store);
    const resume = { kind: "error", error: "disk died", result: [0] } as const;
    const outcome = await at(store, LATER).jobs.resume(JOB, { ...resume, result: [0] });
    assertEquals(outcome.kind, "changed");
    const job = await present(store);
    assertEquals([job.execution, job.finished_at], ["failed", LATER]);
    assertEquals([job.chain_results[0]?.error, job.chain_results[0]?.result], ["disk died", [0]]);
    assertEquals(await dueOf(store), { kind: "none" });
  });
  test("resume() writes into the last result of the phase that waits", async (store) => {
    const workflow = workflowOf({ onerror: [taskOf("undo"), taskOf("more")] });
    const job = await run(store, jobOf(1, { workflow }));
    await store.jobs.recordTask(recordOf(job, { kind: "fail", onerror: true }, {
      entry: resultOf("first", { error: "no" }),
    }));
    const undoing = await present(store);
    await store.jobs.recordTask(recordOf(undoing, { kind: "continue" }, {
      entry: resultOf("undo"),
    }));
    await store.jobs.recordTask(recordOf(undoing, { kind: "cb_wait" }, {
      position: 1,
      entry: resultOf("more", { error: "wait" }),
    }));
    await store.jobs.resume(JOB, { kind: "result", result: "done" });
    const after = await present(store);
    assertEquals(after.chain_results.map(({ error }) => error), ["no"]);
    assertEquals(after.onerror_results.map(({ result }) => result), ["OK", "done"]);
  });
  test("a reported result is returned unchanged, even an unusual value", async (store) => {
    const odd: JsonValue[] = ["NUL \0 half \ud83d", [], { "": { "$": 1 } }, 1e300, false];
    for (const [index, result] of odd.entries()) {
      await wait(store, index + 1);
      const uuid = uuidOf<JobUuid>(index + 1);
      await store.jobs.resume(uuid, { kind: "error", error: "half \ud83d", result });
      const [entry] = (await present(store, uuid)).chain_results;
      const found = JSON.stringify([entry?.result, entry?.error]);
      assertEquals(found, JSON.stringify([result, "half \ud83d"]));
    }
  });

  test("of simultaneous resumes one is accepted", async (store) => {
    await wait(store);
    const results = ["a", "b", "c"];
    const outcomes = await Promise.all(
      results.map((result) => store.jobs.resume(JOB, { kind: "result", result })),
    );
    assertEquals(kindsOf(outcomes), { changed: 1, denied: 2 });
    const accepted = results[outcomes.findIndex(({ kind }) => kind === "changed")];
    const [entry] = (await present(store)).chain_results;
    assertEquals(entry?.result, accepted);
  });
  test("a simultaneous resume and cancel leave the job canceled", async (store) => {
    for (let round = 1; round <= 10; round++) {
      await wait(store, round);
      const uuid = uuidOf<JobUuid>(round);
      const [, canceled] = await Promise.all([
        store.jobs.resume(uuid, OK),
        store.jobs.cancel(uuid),
      ]);
      assertEquals(canceled.kind, "changed");
      assertEquals((await present(store, uuid)).execution, "canceled");
    }
  });
  test("resume() is denied by every job that does not wait, and finds no unknown one", async (store) => {
    assertEquals((await store.jobs.resume(JOB, OK)).kind, "not_found");
    await finish(store, await run(store, jobOf(1)));
    await run(store, jobOf(2));
    await wait(store, 4);
    await create(store, jobOf(3));
    await store.jobs.cancel(uuidOf<JobUuid>(4));
    for (const number of [1, 2, 3, 4]) {
      for (const resume of [OK, { kind: "error", error: "x", result: "" } as const]) {
        const before = await present(store, uuidOf<JobUuid>(number));
        const outcome = await store.jobs.resume(before.uuid, resume);
        assertEquals(outcome, { kind: "denied", reason: "not_waiting", job: changedOf(before) });
      }
    }
  });
}
