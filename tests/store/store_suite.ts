// What every implementation of the store must do; sqlite_store_test.ts runs it.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { JobUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { NextStep, Store, TaskRecord } from "../../src/store/store.ts";
import {
  jobOf,
  OTHER_RUNNER,
  resultOf,
  RUNNER,
  T0,
  taskOf,
  uuidOf,
  workflowOf,
} from "../support/job.ts";

const JOB = uuidOf<JobUuid>(1);

function recordOf(next: NextStep, fields: Partial<TaskRecord> = {}): TaskRecord {
  return {
    job_uuid: JOB,
    runner_id: RUNNER,
    phase: "chain",
    entry: resultOf("first"),
    params: {},
    props: {},
    elapsed_ms: 5,
    next,
    now: T0,
    ...fields,
  };
}

export function storeSuite(kind: string, open: () => Promise<Store>): void {
  const test = (name: string, run: (store: Store) => Promise<void>) =>
    Deno.test(`${kind}: ${name}`, async () => {
      const store = await open();
      try {
        await run(store);
      } finally {
        await store.close();
      }
    });
  workflowTests(test);
  claimTests(test);
  recordTests(test);
  retryTests(test);
  cancelTests(test);
  resumeTests(test);
  targetTests(test);
  infoTests(test);
  statsTests(test);
  indexTests(test);
}

type Test = (name: string, run: (store: Store) => Promise<void>) => void;

function workflowTests(test: Test): void {
  test("workflows come back as sent, keys in their order", async (store) => {
    const workflow = { zebra: 1, ...workflowOf(), alpha: { b: 1, a: 2 } };
    await store.workflows.create(workflow, T0);
    const found = await store.workflows.get(workflow.uuid);
    assertEquals(JSON.stringify(found?.workflow), JSON.stringify(workflow));
    assertEquals(found?.builtin, false);
  });
  test("replace() and remove() tell whether the workflow was there", async (store) => {
    const workflow = workflowOf();
    assertFalse(await store.workflows.replace(workflow));
    assertFalse(await store.workflows.remove(workflow.uuid));
    await store.workflows.create(workflow, T0);
    assert(await store.workflows.replace({ ...workflow, name: "other" }));
    assertEquals((await store.workflows.list({ name: "other" })).length, 1);
    assertEquals((await store.workflows.list({ name: "sample" })).length, 0);
    assert(await store.workflows.remove(workflow.uuid));
    assertEquals(await store.workflows.get(workflow.uuid), undefined);
  });
  test("a built-in workflow cannot be replaced or removed", async (store) => {
    const workflow = workflowOf();
    await store.workflows.putBuiltin(workflow, T0);
    await store.workflows.putBuiltin({ ...workflow, name: "newer" }, T0);
    assertFalse(await store.workflows.replace(workflow));
    assertFalse(await store.workflows.remove(workflow.uuid));
    assertEquals((await store.workflows.get(workflow.uuid))?.workflow.name, "newer");
  });
  test("list() answers workflows in the order of their creation", async (store) => {
    for (const number of [3, 1, 2]) {
      await store.workflows.create({ ...workflowOf(), uuid: uuidOf<WorkflowUuid>(number) }, T0);
    }
    const uuids = (await store.workflows.list({})).map(({ workflow }) => workflow.uuid);
    assertEquals(uuids, [3, 1, 2].map((number) => uuidOf<WorkflowUuid>(number)));
  });
}

function claimTests(test: Test): void {
  test("claim() gives a job to one of two runners", async (store) => {
    await store.jobs.create(jobOf(1));
    const [mine, theirs] = await Promise.all([
      store.jobs.claim(RUNNER, 1, T0),
      store.jobs.claim(OTHER_RUNNER, 1, T0),
    ]);
    assertEquals([mine.length, theirs.length], [1, 0]);
    assertEquals(mine[0]?.execution, "running");
    assertEquals(mine[0]?.runner_id, RUNNER);
    assertEquals(mine[0]?.starts, 1);
  });
  test("claim() skips a job whose exec_after is in the future", async (store) => {
    const later = instantAfter(T0, 1000);
    await store.jobs.create(jobOf(1, { exec_after: later }));
    await store.jobs.create(jobOf(2));
    assertEquals((await store.jobs.claim(RUNNER, 5, T0)).map((job) => job.uuid), [
      uuidOf<JobUuid>(2),
    ]);
    assertEquals(await store.jobs.nextDue(), later);
    assertEquals((await store.jobs.claim(RUNNER, 5, later)).length, 1);
    assertEquals(await store.jobs.nextDue(), undefined);
  });
  test("claim() takes no more jobs than asked for, the longest due first", async (store) => {
    for (const number of [1, 2, 3]) {
      await store.jobs.create(jobOf(number, { exec_after: instantAfter(T0, -number * 1000) }));
    }
    const claimed = await store.jobs.claim(RUNNER, 2, T0);
    assertEquals(new Set(claimed.map((job) => job.uuid)), new Set([uuidOf(3), uuidOf(2)]));
  });
  test("release() takes the start of its claim back", async (store) => {
    await store.jobs.create(jobOf(1));
    await store.jobs.claim(RUNNER, 1, T0);
    assertFalse(await store.jobs.release(JOB, OTHER_RUNNER, T0));
    assert(await store.jobs.release(JOB, RUNNER, T0));
    assertEquals((await store.jobs.get(JOB))?.execution, "queued");
    assertEquals((await store.jobs.get(JOB))?.starts, 0);
  });
  test("abandon() queues one job of its runner, the start of its claim counted", async (store) => {
    await store.jobs.create(jobOf(1));
    await store.jobs.claim(RUNNER, 1, T0);
    assertFalse(await store.jobs.abandon(JOB, OTHER_RUNNER, T0));
    assert(await store.jobs.abandon(JOB, RUNNER, T0));
    const job = await store.jobs.get(JOB);
    assertEquals([job?.execution, job?.starts, job?.runner_id], ["queued", 1, null]);
  });
  test("rescue() queues what other runners left, its starts counted, and spares its own", async (store) => {
    await store.jobs.create(jobOf(1));
    await store.jobs.claim(OTHER_RUNNER, 1, T0);
    await store.jobs.create(jobOf(2));
    await store.jobs.claim(RUNNER, 1, T0);
    assertEquals(await store.jobs.rescue(RUNNER, T0), 1);
    const job = await store.jobs.get(JOB);
    assertEquals([job?.execution, job?.starts], ["queued", 1]);
    assertEquals((await store.jobs.get(uuidOf<JobUuid>(2)))?.execution, "running");
    assertEquals((await store.jobs.claim(RUNNER, 1, T0))[0]?.starts, 2);
  });
}

function recordTests(test: Test): void {
  test("recordTask() writes the result and the next state together", async (store) => {
    await store.jobs.create(jobOf(1));
    await store.jobs.claim(RUNNER, 1, T0);
    assert(await store.jobs.recordTask(recordOf({ kind: "continue" }, { props: { x: 1 } })));
    const second = recordOf({ kind: "finished", execution: "succeeded" }, {
      entry: resultOf("second"),
      params: { y: 2 },
    });
    assert(await store.jobs.recordTask(second));
    const job = await store.jobs.get(JOB);
    assertEquals(job?.execution, "succeeded");
    assertEquals(job?.chain_results.map(({ name }) => name), ["first", "second"]);
    assertEquals([job?.params, job?.runner_id, job?.finished_at], [{ y: 2 }, null, T0]);
  });
  test("recordTask() refuses a runner that lost the job", async (store) => {
    await store.jobs.create(jobOf(1));
    await store.jobs.claim(RUNNER, 1, T0);
    await store.jobs.rescue(OTHER_RUNNER, T0);
    await store.jobs.claim(OTHER_RUNNER, 1, T0);
    assertFalse(await store.jobs.recordTask(recordOf({ kind: "continue" })));
    assertEquals((await store.jobs.get(JOB))?.chain_results, []);
  });
  test("recordTask() moves to onerror with a fresh budget and to waiting without an owner", async (store) => {
    await store.jobs.create(jobOf(1, { workflow: workflowOf({ onerror: [taskOf("undo")] }) }));
    await store.jobs.claim(RUNNER, 1, T0);
    assert(await store.jobs.recordTask(recordOf({ kind: "onerror" })));
    const job = await store.jobs.get(JOB);
    assertEquals([job?.phase, job?.elapsed_ms, job?.starts], ["onerror", 0, 1]);
    const undo = recordOf({ kind: "waiting" }, { phase: "onerror", entry: resultOf("undo") });
    assert(await store.jobs.recordTask(undo));
    const waiting = await store.jobs.get(JOB);
    assertEquals([waiting?.execution, waiting?.runner_id], ["waiting", null]);
    assertEquals(waiting?.onerror_results.length, 1);
  });
}

function retryTests(test: Test): void {
  const retry = recordOf({
    kind: "retried",
    successor: jobOf(2, { target: "/t", params: { a: 2 }, props: { num_attempts: 1 } }),
  });
  test("a retried job names its successor, which has its target", async (store) => {
    await store.jobs.create(jobOf(1, { target: "/t", params: { a: 2 } }));
    await store.jobs.claim(RUNNER, 1, T0);
    assert(await store.jobs.recordTask(retry));
    const [successor, retried] = await store.jobs.list({});
    assertEquals([retried?.execution, retried?.props], ["retried", { next_attempt: uuidOf(2) }]);
    assertEquals([successor?.execution, successor?.target], ["queued", "/t"]);
  });
  test("a retried job names the one that has taken its target and params meanwhile", async (store) => {
    await store.jobs.create(jobOf(1, { target: "/t", params: { a: 1 } }));
    await store.jobs.claim(RUNNER, 1, T0);
    await store.jobs.create(jobOf(3, { target: "/t", params: { a: 2 } }));
    assert(await store.jobs.recordTask(retry));
    assertEquals((await store.jobs.get(JOB))?.props, { next_attempt: uuidOf(3) });
    assertEquals(await store.jobs.get(uuidOf<JobUuid>(2)), undefined);
  });
}

function cancelTests(test: Test): void {
  test("cancel() wins over a late result, and a second cancel is denied", async (store) => {
    await store.jobs.create(jobOf(1));
    await store.jobs.claim(RUNNER, 1, T0);
    const [first, second] = await Promise.all([
      store.jobs.cancel(JOB, T0),
      store.jobs.cancel(JOB, T0),
    ]);
    assertEquals([first.kind, second.kind], ["changed", "denied"]);
    assertFalse(await store.jobs.recordTask(recordOf({ kind: "continue" })));
    const job = await store.jobs.get(JOB);
    assertEquals([job?.execution, job?.chain_results], ["canceled", []]);
  });
  test("cancel() of an unknown job finds nothing", async (store) => {
    assertEquals((await store.jobs.cancel(JOB, T0)).kind, "not_found");
  });
  const undoing = () => jobOf(1, { workflow: workflowOf({ oncancel: [taskOf("undo")] }) });
  test("cancel() of a running job leaves its oncancel chain to the owner", async (store) => {
    await store.jobs.create(undoing());
    await store.jobs.claim(RUNNER, 1, T0);
    await store.jobs.cancel(JOB, T0);
    const job = await store.jobs.get(JOB);
    assertEquals([job?.execution, job?.phase, job?.runner_id], ["canceled", "oncancel", RUNNER]);
    assertFalse(await store.jobs.recordTask(recordOf({ kind: "continue" })));
    const done = recordOf({ kind: "cancel_done" }, { phase: "oncancel", entry: resultOf("undo") });
    assert(await store.jobs.recordTask(done));
    const after = await store.jobs.get(JOB);
    assertEquals([after?.execution, after?.runner_id], ["canceled", null]);
    assertEquals(after?.oncancel_results.length, 1);
  });
  test("the oncancel chain of a canceled job survives the death of its runner", async (store) => {
    await store.jobs.create(undoing());
    await store.jobs.claim(RUNNER, 1, T0);
    await store.jobs.cancel(JOB, T0);
    assertEquals(await store.jobs.rescue(OTHER_RUNNER, T0), 1);
    const [job] = await store.jobs.claim(OTHER_RUNNER, 1, T0);
    assertEquals([job?.execution, job?.phase], ["canceled", "oncancel"]);
  });
  test("cancel() of a job that never ran leaves nothing to undo", async (store) => {
    await store.jobs.create(undoing());
    await store.jobs.cancel(JOB, T0);
    assertEquals((await store.jobs.claim(RUNNER, 1, T0)).length, 0);
  });
}

function resumeTests(test: Test): void {
  const wait = async (store: Store) => {
    await store.jobs.create(jobOf(1));
    await store.jobs.claim(RUNNER, 1, T0);
    const entry = resultOf("first", { error: "wait" });
    await store.jobs.recordTask(recordOf({ kind: "waiting" }, { entry }));
  };
  test("resume() records the result of the waiting task and queues the job", async (store) => {
    await wait(store);
    const outcome = await store.jobs.resume(JOB, { kind: "result", result: { a: [1] } }, T0);
    assertEquals(outcome.kind, "changed");
    const job = await store.jobs.get(JOB);
    assertEquals(job?.execution, "queued");
    assertEquals(job?.chain_results[0]?.result, { a: [1] });
    assertEquals(job?.chain_results[0]?.error, "");
  });
  test("resume() with an error ends the job as failed", async (store) => {
    await wait(store);
    await store.jobs.resume(JOB, { kind: "error", error: "disk died", result: "" }, T0);
    const job = await store.jobs.get(JOB);
    assertEquals(job?.execution, "failed");
    assertEquals(job?.chain_results[0]?.error, "disk died");
  });
  test("of two resumes one is accepted, and a queued job denies it", async (store) => {
    await wait(store);
    const resume = { kind: "result", result: "OK" } as const;
    const outcomes = await Promise.all([
      store.jobs.resume(JOB, resume, T0),
      store.jobs.resume(JOB, resume, T0),
    ]);
    assertEquals(outcomes.map(({ kind }) => kind), ["changed", "denied"]);
    const [, second] = outcomes;
    assertEquals(second?.kind === "denied" && second.reason, "not_waiting");
  });
}

function targetTests(test: Test): void {
  test("of two equal requests for a target one gets a job, key order apart", async (store) => {
    const [first, second] = await Promise.all([
      store.jobs.create(jobOf(1, { target: "/t", params: { a: 1, b: { c: 2, d: 3 } } })),
      store.jobs.create(jobOf(2, { target: "/t", params: { b: { d: 3, c: 2 }, a: 1 } })),
    ]);
    // Which of them is first is not promised.
    const [made, refused] = first.kind === "created" ? [first, second] : [second, first];
    assert(made.kind === "created" && refused.kind === "duplicate");
    assertEquals(refused.job_uuid, made.job.uuid);
    assertEquals((await store.jobs.create(jobOf(3, { target: "/t" }))).kind, "created");
    assertEquals((await store.jobs.ofTarget("/t", 10)).map((job) => job.uuid), [
      uuidOf(3),
      made.job.uuid,
    ]);
  });
  test("a finished job frees its target", async (store) => {
    await store.jobs.create(jobOf(1, { target: "/t" }));
    await store.jobs.cancel(JOB, T0);
    assertEquals((await store.jobs.create(jobOf(2, { target: "/t" }))).kind, "created");
  });
  test("list() filters by execution and pages newest first", async (store) => {
    for (const number of [1, 2, 3]) await store.jobs.create(jobOf(number));
    await store.jobs.cancel(uuidOf<JobUuid>(2), T0);
    const queued = await store.jobs.list({ execution: "queued" });
    assertEquals(queued.map((job) => job.uuid), [uuidOf(3), uuidOf(1)]);
    const page = await store.jobs.list({ limit: 1, offset: 1 });
    assertEquals(page.map((job) => job.uuid), [uuidOf(2)]);
    assertEquals(await store.jobs.count({ execution: "canceled" }), 1);
  });
}

function infoTests(test: Test): void {
  test("info keeps every entry in the order of arrival", async (store) => {
    await store.jobs.create(jobOf(1));
    const entries = Array.from({ length: 50 }, (_, n) => ({ n, "10%": "x" }));
    const kept = await Promise.all(entries.map((entry) => store.info.append(JOB, entry, T0)));
    assert(kept.every(Boolean));
    assertEquals(await store.info.list(JOB), entries);
    assertEquals(await store.info.list(JOB, 48), entries.slice(48));
  });
  test("info of an unknown job is neither read nor written", async (store) => {
    assertFalse(await store.info.append(JOB, { a: 1 }, T0));
    assertEquals(await store.info.list(JOB), undefined);
  });
}

function statsTests(test: Test): void {
  test("stats count each job once, in the window of its age, at its present execution", async (store) => {
    const minutesAgo = [0, 59, 61, 119, 121, 1439, 1441, 100_000];
    for (const [index, minutes] of minutesAgo.entries()) {
      await store.jobs.create(
        jobOf(index + 1, { created_at: instantAfter(T0, -minutes * 60_000) }),
      );
    }
    await store.jobs.cancel(JOB, T0);
    const stats = await store.jobs.stats(T0);
    assertEquals([stats.current.queued, stats.current.canceled], [1, 1]);
    assertEquals(stats.past_hour.queued, 2);
    assertEquals(stats.past_24h.queued, 2);
    assertEquals(stats.all_time.queued, 2);
  });
  test("the border of a window is exact to the millisecond", async (store) => {
    await store.jobs.create(jobOf(1, { created_at: instantAfter(T0, -3_600_000) }));
    await store.jobs.create(jobOf(2, { created_at: instantAfter(T0, -3_600_001) }));
    const stats = await store.jobs.stats(T0);
    assertEquals([stats.current.queued, stats.past_hour.queued], [1, 1]);
  });
}

function indexTests(test: Test): void {
  const documentOf = (path: string, text: string) => ({
    path,
    body: new TextEncoder().encode(text),
    sha256: "0".repeat(64),
    etag: null,
    last_modified: null,
    fetched_at: T0,
  });
  test("swap() puts, replaces and removes documents and records the sync", async (store) => {
    const sync = {
      started_at: T0,
      finished_at: T0,
      upstream: "folder",
      outcome: "complete",
      added: 2,
      changed: 0,
      removed: 0,
      unchanged: 0,
      problems: [],
    } as const;
    await store.index.swap([documentOf("a", "1"), documentOf("b", "é")], [], sync);
    await store.index.swap([documentOf("b", "2")], ["a"], { ...sync, added: 0 });
    assertEquals((await store.index.list()).map(({ path }) => path), ["b"]);
    assertEquals(new TextDecoder().decode((await store.index.get("b"))?.body), "2");
    assertEquals((await store.index.lastSync())?.added, 0);
  });
}
