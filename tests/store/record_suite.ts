// The suite's part on the ends of tasks: each is written together with what becomes of the job.

import { assert, assertEquals, assertFalse } from "@std/assert";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JsonObject, JsonValue } from "../../src/domain/json.ts";
import { jobOf, resultOf, T0, taskOf, workflowOf } from "../support/job.ts";
import { claim, create, JOB, present, recordOf, run, type Test } from "./store_case.ts";
import { at, dueOf } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** What JSON can say and programs trip over. */
const ODD: JsonValue[] = [
  null,
  0,
  -0.5,
  2 ** 53,
  1e300,
  "",
  "NUL \0, half \ud83d, quote \" ' \\ and 😀",
  JSON.parse('{"__proto__": {"polluted": true}, "": [], "$.a": 1}') as JsonObject,
  [[[[]]], { constructor: null }],
];

export function recordTests(test: Test): void {
  test("recordTask() writes the result and the next state together", async (store) => {
    const job = await run(store);
    const first = recordOf(job, { kind: "continue" }, { props: { x: 1 } });
    assert(await store.jobs.recordTask(first));
    const between = await present(store);
    assertEquals([between.execution, between.props, between.starts], ["running", { x: 1 }, 1]);
    const later = instantAfter(T0, 1000);
    const second = recordOf(job, { kind: "succeed" }, {
      position: 1,
      entry: resultOf("second"),
      params: { y: 2 },
      elapsed_ms: 99,
    });
    assert(await at(store, later).jobs.recordTask(second));
    const after = await present(store);
    assertEquals([after.execution, after.runner_id], ["succeeded", null]);
    assertEquals(after.chain_results, [resultOf("first"), resultOf("second")]);
    assertEquals([after.params, after.finished_at, after.elapsed_ms], [{ y: 2 }, later, 99]);
  });
  test("recordTask() moves to onerror with a fresh budget and to waiting without an owner", async (store) => {
    const workflow = workflowOf({ onerror: [taskOf("undo")] });
    const job = await run(store, jobOf(1, { workflow }));
    assert(await store.jobs.recordTask(recordOf(job, { kind: "fail", onerror: true })));
    const undoing = await present(store);
    assertEquals([undoing.phase, undoing.elapsed_ms, undoing.starts], ["onerror", 0, 1]);
    assertEquals(undoing.phases_ms, 5);
    const undo = recordOf(undoing, { kind: "cb_wait" }, { entry: resultOf("undo") });
    assert(await store.jobs.recordTask(undo));
    const waiting = await present(store);
    assertEquals([waiting.execution, waiting.runner_id, waiting.starts], ["waiting", null, 0]);
    assertEquals([waiting.onerror_results.length, waiting.finished_at], [1, null]);
    assertEquals(await dueOf(store), { kind: "none" });
  });
  test("a task that was recorded is not recorded again in another phase", async (store) => {
    const workflow = workflowOf({ onerror: [taskOf("undo")] });
    const job = await run(store, jobOf(1, { workflow }));
    assert(await store.jobs.recordTask(recordOf(job, { kind: "fail", onerror: true })));
    const between = await present(store);
    // The same record is known, another one is refused.
    assert(await store.jobs.recordTask(recordOf(job, { kind: "fail", onerror: true })));
    const other = { entry: resultOf("other") };
    assertFalse(await store.jobs.recordTask(recordOf(job, { kind: "fail", onerror: true }, other)));
    assertEquals(await present(store), between);
  });
  test("the requested params are kept beside those that tasks have changed", async (store) => {
    const job = await run(store, jobOf(1, { target: "/t", params: { a: 1 } }));
    assertEquals(job.requested_params, { a: 1 });
    for (const [position, params] of [{ a: 1 }, { a: 2 }, { b: [] }, { a: 1 }].entries()) {
      await store.jobs.recordTask(recordOf(job, { kind: "continue" }, { params, position }));
      const after = await present(store);
      assertEquals([after.params, after.requested_params], [params, { a: 1 }]);
    }
    // Equal requests are known by what was asked for.
    const again = await store.jobs.create(jobOf(2, { target: "/t", params: { a: 1 } }), NO_LIMIT);
    assertEquals(again, { kind: "duplicate", job_uuid: JOB });
    const begun = { target: "/t", params: { c: 3 }, requested_params: { a: 1 } };
    assertEquals(await store.jobs.create(jobOf(3, begun), NO_LIMIT), {
      kind: "duplicate",
      job_uuid: JOB,
    });
    await store.jobs.cancel(JOB);
    const other = await create(store, jobOf(3, begun));
    assertEquals([other.params, other.requested_params], [{ c: 3 }, { a: 1 }]);
    assertEquals(await present(store, other.uuid), other);
  });
  test("a job that is queued again keeps its results and its time, and counts its starts from zero", async (store) => {
    const job = await run(store);
    const queued = recordOf(job, { kind: "cb_queue" }, { elapsed_ms: 50 });
    assert(await store.jobs.recordTask(queued));
    assertEquals(await dueOf(store), { kind: "ready" });
    const again = await claim(store);
    assertEquals([again.starts, again.elapsed_ms, again.chain_results.length], [1, 50, 1]);
  });
  test("a job can end although no task of it ended", async (store) => {
    const job = await run(store);
    const { entry: _entry, ...ended } = recordOf(job, { kind: "fail", onerror: false });
    assert(await store.jobs.recordTask(ended));
    const after = await present(store);
    assertEquals([after.execution, after.chain_results], ["failed", []]);
  });
  test("a task that cancels its job ends it, or leaves its oncancel chain to the runner", async (store) => {
    const job = await run(store);
    assert(await store.jobs.recordTask(recordOf(job, { kind: "cb_cancel", oncancel: false })));
    const canceled = await present(store);
    assertEquals([canceled.execution, canceled.phase, canceled.runner_id], [
      "canceled",
      "chain",
      null,
    ]);
    assertEquals(canceled.finished_at, T0);

    const workflow = workflowOf({ oncancel: [taskOf("undo"), taskOf("more")] });
    const undoable = await run(store, jobOf(2, { workflow }));
    const next = { kind: "cb_cancel", oncancel: true } as const;
    assert(await store.jobs.recordTask(recordOf(undoable, next)));
    const undoing = await present(store, undoable.uuid);
    assertEquals([undoing.execution, undoing.phase, undoing.starts], ["canceled", "oncancel", 1]);
    assertEquals([undoing.elapsed_ms, undoing.finished_at], [0, T0]);
    const later = instantAfter(T0, 5);
    assert(await at(store, later).jobs.recordTask(recordOf(undoing, { kind: "continue" })));
    const last = { position: 1 };
    assert(await store.jobs.recordTask(recordOf(undoing, { kind: "succeed" }, last)));
    const done = await present(store, undoable.uuid);
    assertEquals([done.execution, done.runner_id, done.finished_at], ["canceled", null, T0]);
    assertEquals([done.chain_results.length, done.oncancel_results.length], [1, 2]);
  });
  test("many results stay in the order in which they were written", async (store) => {
    const job = await run(store);
    const names = Array.from({ length: 25 }, (_, index) => `task ${index}`);
    for (const [position, name] of names.entries()) {
      const entry = resultOf(name);
      assert(await store.jobs.recordTask(recordOf(job, { kind: "continue" }, { entry, position })));
    }
    assertEquals((await present(store)).chain_results.map(({ name }) => name), names);
  });
  test("results, params and what tasks set are returned unchanged, even unusual values", async (store) => {
    const job = await run(store);
    for (const [position, value] of ODD.entries()) {
      const record = recordOf(job, { kind: "continue" }, {
        position,
        entry: resultOf("odd", { result: value, error: value }),
        params: { value },
        props: { value },
      });
      assert(await store.jobs.recordTask(record));
      const { params, props, chain_results } = await present(store);
      const last = chain_results.at(-1);
      const found = [params.value, props.value, last?.result, last?.error];
      assertEquals(JSON.stringify(found), JSON.stringify([value, value, value, value]));
    }
    assertEquals((await store.jobs.list({}))[0]?.job, await present(store));
    assertEquals("polluted" in {}, false);
  });
  test("equal concurrent writes under one claim are recorded once, and each is accepted", async (store) => {
    const job = await run(store);
    const end = recordOf(job, { kind: "succeed" });
    assertEquals(await Promise.all([1, 2, 3].map(() => store.jobs.recordTask(end))), [
      true,
      true,
      true,
    ]);
    assertEquals((await present(store, JOB)).chain_results.length, 1);
  });
}
