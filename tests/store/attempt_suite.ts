// The suite's part on failed attempts and the log of a job: what is kept, in which order, and that a
// write is bounded however often a task fails.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { Store } from "../../src/store/store.ts";
import type { AttemptRecord } from "../../src/store/run_store.ts";
import { jobOf, OTHER_RUNNER, resultOf, RUNNER, T0, taskOf, workflowOf } from "../support/job.ts";
import { claim, create, holdOf, JOB, present, recordOf, run, type Test } from "./store_case.ts";
import { at, beginAgain, lifeOf } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

const LATER = instantAfter(T0, 60_000);

function failedOf(
  job: Job,
  number: number,
  fields: Partial<AttemptRecord["attempt"]> = {},
): AttemptRecord["attempt"] {
  return {
    task: "first",
    index: job.chain_results.length,
    attempt: number,
    fallback: false,
    error: `no ${number}`,
    started_at: T0,
    finished_at: T0,
    wait_seconds: 5,
    ...fields,
  };
}

function attemptOf(job: Job, number: number, fields: Partial<AttemptRecord> = {}): AttemptRecord {
  return {
    ...holdOf(job),
    attempt: failedOf(job, number),
    params: job.params,
    props: job.props,
    failures: number - 1,
    elapsed_ms: 7 * number,
    ...fields,
  };
}

/** A first attempt that failed, with the wait before the next one. */
export function waiting(job: Job, wait_seconds: number): AttemptRecord {
  return attemptOf(job, 1, { attempt: failedOf(job, 1, { wait_seconds }) });
}

async function numbersOf(store: Store): Promise<number[]> {
  return (await store.log.attempts(JOB)).map(({ attempt }) => attempt);
}

export function attemptTests(test: Test): void {
  recordingTests(test);
  endTests(test);
  logTests(test);
}

function recordingTests(test: Test): void {
  test("renew() reports a job between attempts with the rest of its delay", async (store) => {
    const job = await run(store);
    assert(await store.jobs.recordAttempt(waiting(job, 90)));
    const renewed = await at(store, LATER).jobs.renew(lifeOf(RUNNER), [], 60_000);
    assert(renewed.kind === "renewed");
    const times = renewed.unknown.map(({ elapsed_at, retry_at }) => [elapsed_at, retry_at]);
    assertEquals(times, [[LATER, instantAfter(T0, 90_000)]]);
  });

  test("recordAttempt() keeps the attempt, counts it and says when the next one begins", async (store) => {
    const job = await run(store);
    assertEquals([job.failures, job.retry_at, job.elapsed_at], [0, null, T0]);
    assert(await at(store, LATER).jobs.recordAttempt(attemptOf(job, 1)));
    const after = await present(store);
    assertEquals([after.execution, after.failures, after.elapsed_ms], ["running", 1, 7]);
    assertEquals([after.retry_at, after.elapsed_at], [instantAfter(LATER, 5000), LATER]);
    assertEquals(await store.log.attempts(JOB), [{ phase: "chain", ...failedOf(job, 1) }]);
    assertEquals(after.chain_results, []);
  });
  test("an attempt keeps what its body set on the job, and the requested params unchanged", async (store) => {
    const job = await run(store);
    const set = { params: { size: 2 }, props: { ...job.props, tries: 1 } };
    assert(await store.jobs.recordAttempt(attemptOf(job, 1, set)));
    const after = await present(store);
    assertEquals([after.params, after.props], [set.params, set.props]);
    assertEquals(after.requested_params, job.params);
  });
  test("a repeated record of an attempt is written once and answers as the first", async (store) => {
    const job = await run(store);
    const record = attemptOf(job, 1);
    assertEquals(await Promise.all([record, record].map(store.jobs.recordAttempt)), [true, true]);
    assertEquals([(await present(store)).failures, await numbersOf(store)], [1, [1]]);
  });
  test("a runner that has lost the job records no attempt", async (store) => {
    const job = await run(store);
    const lost = { ...holdOf(job, OTHER_RUNNER) };
    assertFalse(await store.jobs.recordAttempt(attemptOf(job, 1, lost)));
    assertFalse(await store.jobs.recordAttempt(attemptOf(job, 1, { lease: job.lease + 1 })));
    await store.jobs.cancel(JOB);
    assertFalse(await store.jobs.recordAttempt(attemptOf(job, 1)));
    assertEquals(await numbersOf(store), []);
  });
  test("of the failed attempts of a task, the first 5 and the last 20 are kept", async (store) => {
    const job = await run(store);
    for (let number = 1; number <= 60; number++) {
      assert(await store.jobs.recordAttempt(attemptOf(job, number)));
      assert((await numbersOf(store)).length <= 25);
    }
    const last = Array.from({ length: 20 }, (_, at) => 41 + at);
    assertEquals(await numbersOf(store), [1, 2, 3, 4, 5, ...last]);
    assertEquals((await present(store)).failures, 60);
  });
  test("a long error of an attempt is cut, a short one is kept as it is", async (store) => {
    const job = await run(store);
    const error = { name: "Error", message: "x".repeat(100_000) };
    const long = { attempt: failedOf(job, 1, { error }) };
    assert(await store.jobs.recordAttempt(attemptOf(job, 1, long)));
    const odd = { attempt: failedOf(job, 2, { error: { name: "E", message: "a\0\ud800" } }) };
    assert(await store.jobs.recordAttempt(attemptOf(job, 2, odd)));
    const [first, second] = await store.log.attempts(JOB);
    assertEquals(first?.error, `${"x".repeat(4095)}…`);
    assertEquals(second?.error, { name: "E", message: "a\0\ud800" });
  });
}

function endTests(test: Test): void {
  test("the end of a task resets the count, and its result has the last failed attempts", async (store) => {
    const workflow = workflowOf({ onerror: [taskOf("undo")] });
    const job = await run(store, jobOf(1, { workflow }));
    assert(await store.jobs.recordAttempt(attemptOf(job, 1)));
    const attempts = [
      { ...failedOf(job, 2), wait_seconds: null },
      { ...failedOf(job, 3, { fallback: true }), wait_seconds: null },
    ];
    const fail = { kind: "fail", onerror: true } as const;
    const entry = resultOf("first", { error: "no 3" });
    assert(await at(store, LATER).jobs.recordTask(recordOf(job, fail, { attempts, entry })));
    const undoing = await present(store);
    assertEquals([undoing.failures, undoing.retry_at, undoing.elapsed_at], [0, null, LATER]);
    const undo = failedOf(undoing, 1, { index: 0, task: "undo" });
    assert(await store.jobs.recordAttempt(attemptOf(undoing, 1, { attempt: undo })));
    const kept = await store.log.attempts(JOB);
    assertEquals(kept.map(({ phase, attempt }) => `${phase} ${attempt}`), [
      "chain 1",
      "chain 2",
      "chain 3",
      "onerror 1",
    ]);
    assertEquals(kept.map(({ fallback }) => fallback), [false, false, true, false]);
  });
  test("an attempt that ended with its runner is recorded when the job is rescued", async (store) => {
    const job = await run(store);
    assert(await store.jobs.recordAttempt(waiting(job, 0)));
    assertEquals(await beginAgain(store, RUNNER, LATER), 1);
    const queued = await present(store);
    assertEquals([queued.failures, queued.elapsed_at, queued.elapsed_ms], [1, null, 7]);
    const [, broken] = await store.log.attempts(JOB);
    assertEquals([broken?.attempt, broken?.error, broken?.task], [2, "interrupted", "first"]);
    assertEquals([broken?.started_at, broken?.finished_at], [T0, LATER]);
    const again = await claim(store, LATER, OTHER_RUNNER);
    assertEquals([again.failures, again.starts, again.elapsed_at], [1, 2, LATER]);
  });
  test("a runner that ends between two attempts interrupts neither, and no start is counted", async (store) => {
    const chain = [{ ...taskOf("first"), retry_delay: 60 }];
    const job = await run(store, jobOf(1, { workflow: workflowOf({ chain }) }));
    assert(await store.jobs.recordAttempt(waiting(job, 60)));
    await beginAgain(store, RUNNER, T0);
    assertEquals(await numbersOf(store), [1]);
    const again = await claim(store, T0, OTHER_RUNNER);
    assertEquals([again.retry_at, again.starts, again.failures], [LATER, 1, 1]);
  });
  test("a clock that is set back adds no delay to an attempt that was running", async (store) => {
    const job = await run(store);
    assert(await store.jobs.recordAttempt(waiting(job, 60)));
    await beginAgain(store, RUNNER, T0);
    assertEquals(await numbersOf(store), [1, 2]);
    assertEquals((await claim(store, T0, OTHER_RUNNER)).starts, 2);
  });
  test("a cancel counts the time that the job has run", async (store) => {
    await run(store);
    await at(store, LATER).jobs.cancel(JOB);
    const canceled = await present(store);
    assertEquals([canceled.elapsed_ms, canceled.elapsed_at], [60_000, null]);
    const workflow = workflowOf({ oncancel: [taskOf("undo")] });
    const { uuid } = await run(at(store, T0), jobOf(2, { workflow }));
    await at(store, LATER).jobs.cancel(uuid);
    const undoing = await present(store, uuid);
    assertEquals([undoing.phases_ms, undoing.elapsed_ms, undoing.elapsed_at], [60_000, 0, LATER]);
  });
}

function logTests(test: Test): void {
  test("the log holds entries and attempts in one order, which rises over all jobs", async (store) => {
    const job = await run(store);
    await create(store, jobOf(2));
    await store.info.append(JOB, { n: 1 }, T0, NO_LIMIT, 1);
    assert(await store.jobs.recordAttempt(attemptOf(job, 1)));
    await store.info.append(
      "00000000-0000-4000-8000-000000000002" as JobUuid,
      { n: 2 },
      T0,
      NO_LIMIT,
    );
    await store.info.append(JOB, { n: 3 }, LATER, NO_LIMIT);
    const whole = await store.log.lines(JOB, { limit: 10 });
    assertEquals(whole?.lines.map(({ entry }) => entry.n ?? entry.task), [1, "first", 3]);
    assertEquals(whole?.lines.map(({ attempt, phase }) => [attempt, phase]), [
      [1, null],
      [1, "chain"],
      [null, null],
    ]);
    assertEquals([whole?.more, whole?.secrets], [false, []]);
    const [one = 0, two = 0, three = 0] = whole?.lines.map(({ seq }) => seq) ?? [];
    assert(one < two && two + 1 < three);
    // The info of the job shows its entries only.
    assertEquals(await store.info.list(JOB), [{ n: 1 }, { n: 3 }]);
    assertEquals(await store.info.list(JOB, 1), [{ n: 3 }]);
  });
  test("the log is read from its end, before a line and after one", async (store) => {
    await create(store, jobOf(1));
    for (let n = 0; n < 10; n++) await store.info.append(JOB, { n }, T0, NO_LIMIT);
    const read = async (page: Parameters<Store["log"]["lines"]>[1]) => {
      const part = await store.log.lines(JOB, page);
      return { ns: part?.lines.map(({ entry }) => entry.n), more: part?.more };
    };
    assertEquals(await read({ limit: 3 }), { ns: [7, 8, 9], more: true });
    const seqs = (await store.log.lines(JOB, { limit: 10 }))?.lines.map(({ seq }) => seq) ?? [];
    assertEquals(await read({ limit: 3, before: seqs[2] ?? 0 }), { ns: [0, 1], more: false });
    assertEquals(await read({ limit: 3, after: seqs[2] ?? 0 }), { ns: [3, 4, 5], more: true });
    assertEquals(await read({ limit: 3, after: seqs[9] ?? 0 }), { ns: [], more: false });
    assertEquals(await store.log.lines(jobOf(9).uuid, { limit: 3 }), undefined);
  });
  test("a page of the log ends at a bounded size, with one line at least", async (store) => {
    await create(store, jobOf(1));
    const entry = { text: "x".repeat(200_000) };
    for (let n = 0; n < 3; n++) await store.info.append(JOB, entry, T0, NO_LIMIT);
    const part = await store.log.lines(JOB, { limit: 3 });
    assertEquals([part?.lines.length, part?.more], [1, true]);
  });
}
