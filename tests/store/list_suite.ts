// The suite's part on lists of jobs: filters by the fields of jobs, counts, and reading in parts.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JobFilter, JobKey, ListedJob } from "../../src/store/job_store.ts";
import type { Store } from "../../src/store/store.ts";
import { at } from "../support/clocked_store.ts";
import { jobOf, T0, uuidOf, workflowOf } from "../support/job.ts";
import { claim, create, finish, present, recordOf, type Test } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const numberOf = (uuid: JobUuid) => Number(uuid.slice(-12));

/** The numbers of the jobs that fit, newest first; their keys and count are checked along the way. */
async function found(store: Store, filter: JobFilter): Promise<number[]> {
  const jobs = await store.jobs.list(filter);
  assertEquals(await store.jobs.count(filter), jobs.length);
  assertEquals(await store.jobs.keys(filter), jobs.map(keyOf));
  return jobs.map(({ job }) => numberOf(job.uuid));
}

function keyOf({ job, place }: ListedJob): JobKey {
  return { uuid: job.uuid, place, retried: job.props.next_attempt !== undefined };
}

/** Twelve jobs: three workflows, two targets, one a minute. */
async function fill(store: Store): Promise<void> {
  for (let number = 1; number <= 12; number++) {
    const kind = number % 3;
    const workflow = workflowOf({
      uuid: uuidOf<WorkflowUuid>(100 + kind),
      name: kind === 2 ? "second" : "first",
    });
    await create(
      at(store, instantAfter(T0, number * 60_000)),
      jobOf(number, {
        workflow,
        target: number % 2 === 0 ? `/even/${number % 4}` : null,
        params: { number, kind: `${kind}` },
      }),
    );
  }
  for (const number of [3, 6, 9]) await store.jobs.cancel(uuidOf<JobUuid>(number));
}

/** Reads all jobs in parts of so many, doing something between them. */
async function readInParts(
  store: Store,
  filter: JobFilter,
  limit: number,
  between: (part: number) => Promise<void>,
): Promise<number[]> {
  const numbers: number[] = [];
  let before: number | undefined;
  for (let part = 0;; part++) {
    const page = { limit, ...(before === undefined ? {} : { before }) };
    const jobs = await store.jobs.list(filter, page);
    numbers.push(...jobs.map(({ job }) => numberOf(job.uuid)));
    before = jobs.at(-1)?.place;
    if (jobs.length < limit) return numbers;
    await between(part);
  }
}

export function listTests(test: Test): void {
  test("list() answers all jobs newest first, also those of one millisecond", async (store) => {
    for (const number of [3, 1, 2]) await create(store, jobOf(number));
    assertEquals(await found(store, {}), [2, 1, 3]);
  });
  test("list() filters by each field of a job, and count() agrees", async (store) => {
    await fill(store);
    assertEquals(await found(store, { execution: "canceled" }), [9, 6, 3]);
    assertEquals(await found(store, { execution: "running" }), []);
    assertEquals(await found(store, { target: "/even/0" }), [12, 8, 4]);
    assertEquals(await found(store, { target: "/even" }), []);
    assertEquals(await found(store, { name: "second" }), [11, 8, 5, 2]);
    assertEquals(await found(store, { name: "Second" }), []);
    assertEquals(await found(store, { workflow_uuid: uuidOf<WorkflowUuid>(101) }), [10, 7, 4, 1]);
    assertEquals(await found(store, { workflow_uuid: uuidOf<WorkflowUuid>(9) }), []);
    const at = (number: number) => instantAfter(T0, number * 60_000);
    assertEquals(await found(store, { since: at(11) }), [12, 11]);
    assertEquals(await found(store, { until: at(3) }), [2, 1]);
    assertEquals(await found(store, { since: at(5), until: at(5) }), []);
    assertEquals(await found(store, { since: at(5), until: instantAfter(at(5), 1) }), [5]);
  });
  test("a job is listed only if it matches every filter", async (store) => {
    await fill(store);
    assertEquals(await found(store, { execution: "queued", name: "first", target: "/even/0" }), [
      12,
      4,
    ]);
    assertEquals(await found(store, { execution: "canceled", target: "/even/0" }), []);
    assertEquals(
      await found(store, {
        execution: "queued",
        name: "second",
        target: "/even/0",
        workflow_uuid: uuidOf<WorkflowUuid>(102),
        since: T0,
        until: instantAfter(T0, 86_400_000),
        params: { kind: "2", number: "8" },
      }),
      [8],
    );
  });
  test("a filter by state finds a job in each of its states", async (store) => {
    await create(store, jobOf(1));
    const at = async () => {
      const { execution } = await present(store);
      assertEquals(await found(store, { execution }), [1]);
      assertEquals(await store.jobs.count({}), 1);
      return execution;
    };
    assertEquals(await at(), "queued");
    const job = await claim(store);
    assertEquals(await at(), "running");
    await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" }));
    assertEquals(await at(), "waiting");
    await store.jobs.resume(job.uuid, { kind: "result", result: "" });
    assertEquals(await at(), "queued");
    await finish(store, await claim(store));
    assertEquals(await at(), "succeeded");
  });
  test("a filter by name matches the workflow's name at the creation of the job", async (store) => {
    await create(store, jobOf(1));
    await create(store, jobOf(2, { workflow: workflowOf({ name: "renamed" }) }));
    assertEquals(await found(store, { name: "sample" }), [1]);
    assertEquals(await found(store, { name: "renamed" }), [2]);
    assertEquals(await found(store, { workflow_uuid: workflowOf().uuid }), [2, 1]);
  });
  test("limit and offset return that part of the list, with and without a filter", async (store) => {
    await fill(store);
    const page = async (filter: JobFilter, limit: number, offset?: number) => {
      const part = { limit, ...(offset ? { offset } : {}) };
      const jobs = await store.jobs.list(filter, part);
      assertEquals(await store.jobs.keys(filter, part), jobs.map(keyOf));
      return jobs.map(({ job }) => numberOf(job.uuid));
    };
    assertEquals(await page({}, 2), [12, 11]);
    assertEquals(await page({}, 2, 3), [9, 8]);
    assertEquals(await page({}, 5, 10), [2, 1]);
    assertEquals(await page({}, 5, 12), []);
    assertEquals(await page({ name: "second" }, 2, 1), [8, 5]);
    assertEquals(await page({}, 0), []);
    const offsetOnly = await store.jobs.list({}, { offset: 10 });
    assertEquals(offsetOnly.map(({ job }) => numberOf(job.uuid)), [2, 1]);
  });
  test("a retried job is marked in the list of keys", async (store) => {
    for (const number of [1, 2]) {
      await create(store, jobOf(number));
      await store.jobs.cancel(uuidOf<JobUuid>(number));
    }
    await store.jobs.retry(uuidOf<JobUuid>(1), jobOf(3), NO_LIMIT);
    const keys = await store.jobs.keys({});
    assertEquals(keys.map(({ uuid, retried }) => [numberOf(uuid), retried]), [
      [3, false],
      [2, false],
      [1, true],
    ]);
    assertEquals(await found(store, { execution: "canceled" }), [2, 1]);
  });
  test("a thousand jobs are read in parts, each exactly once, during other writes", async (store) => {
    const numbers = Array.from({ length: 1000 }, (_, index) => index + 1);
    for (const number of numbers) await create(store, jobOf(number));
    const read = await readInParts(store, {}, 64, async (part) => {
      for (let more = 0; more < 5; more++) await create(store, jobOf(2000 + part * 10 + more));
      await store.jobs.cancel(uuidOf<JobUuid>(500 + part));
    });
    assertEquals(read, numbers.toReversed());
    const queued = await readInParts(store, { execution: "queued" }, 100, async () => {});
    assertEquals(queued.length, await store.jobs.count({ execution: "queued" }));
  });
  test("a list that is read in parts has no job that was created after its first part", async (store) => {
    for (const number of [1, 2, 3]) await create(store, jobOf(number));
    const [newest] = await store.jobs.list({}, { limit: 1 });
    assert(newest !== undefined);
    for (const number of [1, 2, 3]) await store.jobs.cancel(uuidOf<JobUuid>(number));
    const all = { age_ms: null, finished_max: 0, limit: 10 };
    assertEquals(await store.jobs.prune(all), 3);
    for (const number of [4, 5]) await create(store, jobOf(number));
    assertEquals(await store.jobs.list({}, { before: newest.place }), []);
  });
}
