// The suite's part on calls that are made together: a store may carry out many of them at once, and each is answered
// as if it had come by itself.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import type { JobOrder, OrderOutcome, OrderRules } from "../../src/store/job_store.ts";
import type { Store } from "../../src/store/store.ts";
import { claimJobs, lifeOf } from "../support/clocked_store.ts";
import { jobOf, resultOf, RUNNER, T0, uuidOf, workflowOf } from "../support/job.ts";
import { create, kindsOf, present, recordOf, run, type Test } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const RULES: OrderRules = {
  unfinishedMax: 100,
  workflowBytesMax: 10_000,
  needsTasks: false,
  showing: { wording: "document", now: T0, masksSecrets: false },
};

function orderOf(number: number, fields: Partial<JobOrder> = {}): JobOrder {
  const { workflow, ...job } = jobOf(number);
  return { ...job, workflow_uuid: workflow.uuid, ...fields };
}

/** Orders of the same turn of the event loop. */
async function together(
  store: Store,
  orders: readonly JobOrder[],
  rules: Partial<OrderRules> = {},
): Promise<OrderOutcome[]> {
  return await Promise.all(orders.map((order) => store.jobs.order(order, { ...RULES, ...rules })));
}

const uuidsOf = (numbers: readonly number[]) => numbers.map((number) => uuidOf<JobUuid>(number));

export function togetherTests(test: Test): void {
  test("simultaneous orders are each created with their own params", async (store) => {
    await store.workflows.create(workflowOf(), { max: NO_LIMIT });
    const numbers = [1, 2, 3, 4, 5];
    const paramsOf = (number: number) => ({ number, odd: 'a,"b"\\{}\u00e9', none: null });
    const outcomes = await together(
      store,
      numbers.map((number) => orderOf(number, { params: paramsOf(number) })),
    );
    assertEquals(kindsOf(outcomes), { created: 5 });
    for (const number of numbers) {
      assertEquals((await present(store, uuidOf<JobUuid>(number))).params, paramsOf(number));
    }
  });

  test("of simultaneous orders with one key, one creates a job", async (store) => {
    await store.workflows.create(workflowOf(), { max: NO_LIMIT });
    const idempotency = { key: "once", request_sha256: "a".repeat(64) };
    const outcomes = await together(store, [
      orderOf(1, { idempotency }),
      orderOf(2),
      orderOf(3, { idempotency }),
      orderOf(4, { idempotency: { ...idempotency, request_sha256: "b".repeat(64) } }),
    ]);
    assertEquals(outcomes.map(({ kind }) => kind), [
      "created",
      "created",
      "repeated",
      "key_reused",
    ]);
    assertEquals(await store.jobs.count({}), 2);
  });

  test("simultaneous orders fill the store up to its limit, and not beyond", async (store) => {
    await store.workflows.create(workflowOf(), { max: NO_LIMIT });
    await create(store, jobOf(9));
    const orders = [1, 2, 3, 4, 5].map((number) => orderOf(number));
    const outcomes = await together(store, orders, { unfinishedMax: 4 });
    assertEquals(kindsOf(outcomes), { created: 3, full: 2 });
    assertEquals(await store.jobs.count({}), 4);
  });

  test("of simultaneous orders for one target, one gets it", async (store) => {
    await store.workflows.create(workflowOf(), { max: NO_LIMIT });
    const orders = [1, 2, 3].map((number) => orderOf(number, { target: "/one" }));
    const outcomes = await together(store, [...orders, orderOf(4, { target: "/two" })]);
    assertEquals(kindsOf(outcomes), { created: 2, duplicate: 2 });
    const [first] = outcomes.flatMap((one) => one.kind === "created" ? one.job.uuid : []);
    for (const outcome of outcomes) {
      if (outcome.kind === "duplicate") assertEquals(outcome.job_uuid, first);
    }
  });

  test("a task may end in the same commit as the claim under which it has run", async (store) => {
    for (const number of [1, 2, 3]) await create(store, jobOf(number));
    const { jobs } = await store.jobs.ready(lifeOf(RUNNER), 9, new Set());
    // Each end stands behind its own claim, and before the next one.
    const calls = jobs.map((job, at) => [
      store.jobs.hold(lifeOf(RUNNER), [job]),
      ...(at === 2 ? [] : [
        store.jobs.recordTask(recordOf(job, { kind: "succeed" }, { params: { of: job.uuid } })),
      ]),
    ]);
    store.jobs.hurry();
    const answers = await Promise.all(calls.map((pair) => Promise.all<unknown>(pair)));
    const [first, second, third] = uuidsOf([1, 2, 3]);
    assertEquals(answers, [[[first], true], [[second], true], [[third]]]);
    const ended = await present(store, uuidOf<JobUuid>(2));
    assertEquals([ended.execution, ended.params], ["succeeded", { of: ended.uuid }]);
    assertEquals(ended.chain_results, [resultOf("first")]);
  });

  test("tasks that end together go on, queue, wait, fail and are lost, each as it ended", async (store) => {
    for (const number of [1, 2, 3, 4, 5]) await create(store, jobOf(number));
    const jobs = await claimJobs(store, RUNNER, 9);
    const events = [
      { kind: "continue" },
      { kind: "cb_queue" },
      { kind: "cb_wait" },
      { kind: "fail", onerror: false },
    ] as const;
    const ends = await Promise.all(jobs.map((job, at) => {
      const event = events[at];
      return event === undefined
        ? store.jobs.recordTask(recordOf({ ...job, lease: 7 }, { kind: "succeed" }))
        : store.jobs.recordTask(recordOf(job, event));
    }));
    assertEquals(ends, [true, true, true, true, false]);
    const now = await Promise.all(jobs.map(({ uuid }) => present(store, uuid)));
    assertEquals(
      now.map(({ execution, chain_results }) => [execution, chain_results.length]),
      [["running", 1], ["queued", 1], ["waiting", 1], ["failed", 1], ["running", 0]],
    );
  });

  test("tasks that end under claims that wait go on, queue, wait, fail and retry, each as it ended", async (store) => {
    await store.workflows.create(workflowOf(), { max: NO_LIMIT });
    for (const number of [1, 2, 3, 4, 5]) await create(store, jobOf(number));
    const { jobs } = await store.jobs.ready(lifeOf(RUNNER), 9, new Set());
    const held = store.jobs.hold(lifeOf(RUNNER), jobs);
    const events = [
      { kind: "continue" },
      { kind: "cb_queue" },
      { kind: "cb_wait" },
      { kind: "fail", onerror: false },
      { kind: "cb_retry" },
    ] as const;
    const ends = await Promise.all(events.map((event, at) => {
      const job = jobs[at];
      assert(job !== undefined);
      return store.jobs.recordTask(recordOf(job, event, { params: { at }, elapsed_ms: 40 }));
    }));
    assertEquals([ends, await held], [events.map(() => true), uuidsOf([1, 2, 3, 4, 5])]);
    const now = await Promise.all(jobs.map(({ uuid }) => present(store, uuid)));
    assertEquals(
      now.map(({ execution, lease, starts, runner_id }) => [execution, lease, starts, runner_id]),
      [
        ["running", 1, 1, RUNNER],
        ["queued", 1, 0, null],
        ["waiting", 1, 0, null],
        ["failed", 1, 0, null],
        ["retried", 1, 0, null],
      ],
    );
    for (const [at, job] of now.entries()) {
      assertEquals([job.params, job.requested_params], [{ at }, jobs[at]?.params]);
      assertEquals(job.chain_results.length, 1);
      assertEquals(job.started_at, jobs[at]?.started_at);
    }
    const [goesOn] = now;
    assert(goesOn !== undefined);
    assert(await store.jobs.recordTask(recordOf(goesOn, { kind: "succeed" }, { position: 1 })));
    const again = await store.jobs.claim(lifeOf(RUNNER), 9);
    assertEquals(again.jobs.map(({ uuid, lease }) => [uuid, lease]), [[uuidOf<JobUuid>(2), 2]]);
  });

  test("of two ends of one task that are written together, one counts", async (store) => {
    const job = await run(store);
    const ends = await Promise.all([
      store.jobs.recordTask(recordOf(job, { kind: "succeed" })),
      store.jobs.recordTask(
        recordOf(job, { kind: "fail", onerror: false }, { entry: resultOf("x") }),
      ),
    ]);
    assertEquals(ends, [true, false]);
    assertEquals((await present(store)).execution, "succeeded");
  });
}
