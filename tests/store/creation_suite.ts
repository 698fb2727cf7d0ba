// The suite's part on the creation of jobs: targets, the limit of unfinished jobs, what is kept.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, MachineUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { jobOf, resultOf, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import {
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
import { NO_LIMIT } from "../support/limits.ts";

export function creationTests(test: Test): void {
  test("create() answers the job as get() reads it", async (store) => {
    const workflow = workflowOf({
      chain: [{ ...taskOf("only"), retry: 2, extra: { b: [1], a: null } }],
      onerror: [taskOf("undo")],
      oncancel: [taskOf("stop")],
      timeout: 9,
    });
    const job = await create(
      store,
      jobOf(1, {
        workflow,
        target: "/t",
        locks: "^/t",
        callback_url: "http://tell.example/",
        params: { "a.b": [1, { c: "é\0" }] },
        props: { num_attempts: 1 },
      }),
    );
    assertEquals(await store.jobs.get(JOB), job);
    assertEquals((await store.jobs.list({}))[0]?.job, job);
    const { chain, onerror, oncancel, timeout, locks, callback_url, execution, phase } = job;
    assertEquals({ chain, onerror, oncancel, timeout }, {
      chain: workflow.chain,
      onerror: workflow.onerror,
      oncancel: workflow.oncancel ?? [],
      timeout: 9,
    });
    assertEquals([locks, callback_url], ["^/t", "http://tell.example/"]);
    assertEquals([execution, phase, job.starts], ["queued", "chain", 0]);
  });
  test("a job keeps the workflow of its creation when that changes later", async (store) => {
    await create(store, jobOf(1));
    await create(store, jobOf(2, { workflow: workflowOf({ name: "renamed", chain: [] }) }));
    await create(store, jobOf(3, { workflow: workflowOf({ timeout: 7 }) }));
    const [third, second, first] = (await store.jobs.list({})).map(({ job }) => job);
    assertEquals([first?.name, first?.chain.length, first?.timeout], ["sample", 2, 3600]);
    assertEquals([second?.name, second?.chain.length], ["renamed", 0]);
    assertEquals([third?.name, third?.chain.length, third?.timeout], ["sample", 2, 7]);
  });
  test("a job that is created with results continues after them", async (store) => {
    const chain_results = [resultOf("first", { result: { disk: 1 } })];
    const job = await create(store, jobOf(1, { chain_results }));
    assertEquals(job.chain_results, chain_results);
    assertEquals((await claim(store)).chain_results, chain_results);
  });

  test("of requests for one target with equal params, whatever their key order, one gets a job", async (store) => {
    const orders: JsonObject[] = [
      { a: 1, b: { c: 2, d: [3, { e: 4, f: 5 }] } },
      { b: { d: [3, { f: 5, e: 4 }], c: 2 }, a: 1 },
    ];
    const outcomes = await Promise.all(Array.from({ length: 10 }, (_, number) => {
      const params = orders[number % 2] ?? {};
      return store.jobs.create(jobOf(number, { target: "/t", params }), NO_LIMIT);
    }));
    assertEquals(kindsOf(outcomes), { created: 1, duplicate: 9 });
    const [held] = await store.jobs.ofTarget("/t", 10);
    for (const outcome of outcomes) {
      if (outcome.kind === "duplicate") assertEquals(outcome.job_uuid, held?.uuid);
    }
  });
  test("jobs of one target whose params differ live side by side", async (store) => {
    const differing: JsonObject[] = [{}, { a: 1 }, { a: "1" }, { a: [1, 2] }, { a: [2, 1] }, {
      b: 1,
    }];
    for (const [index, params] of differing.entries()) {
      await create(store, jobOf(index + 1, { target: "/t", params }));
    }
    const uuids = (await store.jobs.ofTarget("/t", 4)).map((job) => job.uuid);
    assertEquals(uuids, [6, 5, 4, 3].map((number) => uuidOf<JobUuid>(number)));
    assertEquals(await store.jobs.ofTarget("/", 4), []);
  });
  test("jobs without a target may all be equal", async (store) => {
    const requested = [1, 2, 3].map((number) =>
      store.jobs.create(jobOf(number, { params: { a: 1 } }), NO_LIMIT)
    );
    assertEquals(kindsOf(await Promise.all(requested)), { created: 3 });
  });
  test("a target is held by a running and a waiting job, and freed by a finished one", async (store) => {
    const held = async () => (await store.jobs.create(jobOf(9, { target: "/t" }), NO_LIMIT)).kind;
    const job = await run(store, jobOf(1, { target: "/t" }));
    assertEquals(await held(), "duplicate");
    assert(await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" })));
    assertEquals(await held(), "duplicate");
    await store.jobs.cancel(job.uuid);
    assertEquals(await held(), "created");
  });
  test("a failed job frees its target", async (store) => {
    await finish(store, await run(store, jobOf(1, { target: "/t" })), "failed");
    assertEquals((await store.jobs.create(jobOf(2, { target: "/t" }), NO_LIMIT)).kind, "created");
  });

  test("the job over the limit of unfinished jobs is refused, even among simultaneous ones", async (store) => {
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, number) => store.jobs.create(jobOf(number), 5)),
    );
    assertEquals(kindsOf(outcomes), { created: 5, full: 15 });
    const full = outcomes.find((outcome) => outcome.kind === "full");
    assertEquals(full, { kind: "full", what: "unfinished jobs", limit: 5 });
    assertEquals(await store.jobs.count({}), 5);
  });
  test("jobs that run or wait count as unfinished, and finished ones do not", async (store) => {
    const job = await run(store);
    assertEquals((await store.jobs.create(jobOf(2), 1)).kind, "full");
    await finish(store, job);
    assertEquals((await present(store)).execution, "succeeded");
    assertEquals((await store.jobs.create(jobOf(2), 1)).kind, "created");
  });
  test("a second unfinished job of a machine is refused, whatever its target and params", async (store) => {
    const machine_uuid = uuidOf<MachineUuid>(900);
    const of = (number: number) =>
      jobOf(number, { machine_uuid, target: `/t${number}`, params: { number } });
    const outcomes = await Promise.all(
      [1, 2, 3].map((number) => store.jobs.create(of(number), NO_LIMIT)),
    );
    assertEquals(kindsOf(outcomes), { created: 1, machine_taken: 2 });
    const [listed] = await store.jobs.list({});
    assert(listed !== undefined);
    const { uuid } = listed.job;
    assertEquals(listed.job.machine_uuid, machine_uuid);
    const taken = outcomes.filter(({ kind }) => kind === "machine_taken");
    assertEquals(taken, Array(2).fill({ kind: "machine_taken", job_uuid: uuid }));
    // An equal request learns of its job, not of the machine.
    const { target, params } = listed.job;
    const equal = await store.jobs.create(jobOf(4, { machine_uuid, target, params }), NO_LIMIT);
    assertEquals(equal, { kind: "duplicate", job_uuid: uuid });
    await create(store, jobOf(5, { machine_uuid: uuidOf<MachineUuid>(901) }));
    await store.jobs.cancel(uuid);
    await create(store, of(6));
    assertEquals((await store.jobs.retry(uuid, of(7), NO_LIMIT)).kind, "machine_taken");
  });
  test("a canceled job holds its machine until its oncancel chain has ended", async (store) => {
    const machine_uuid = uuidOf<MachineUuid>(900);
    const workflow = workflowOf({ oncancel: [taskOf("undo")] });
    await run(store, jobOf(1, { machine_uuid, workflow }));
    await store.jobs.cancel(JOB);
    const taken = { kind: "machine_taken", job_uuid: JOB } as const;
    assertEquals(await store.jobs.create(jobOf(2, { machine_uuid }), NO_LIMIT), taken);
    await store.jobs.recordTask(recordOf(await present(store), { kind: "succeed" }));
    await create(store, jobOf(2, { machine_uuid }));
  });
  test("a successor takes over the machine of its job", async (store) => {
    const machine_uuid = uuidOf<MachineUuid>(900);
    const job = await run(store, jobOf(1, { machine_uuid }));
    const successor = jobOf(2, { machine_uuid });
    assert(await store.jobs.recordTask(recordOf(job, { kind: "cb_retry" }, { successor })));
    const taken = { kind: "machine_taken", job_uuid: successor.uuid } as const;
    assertEquals(await store.jobs.create(jobOf(3, { machine_uuid }), NO_LIMIT), taken);
  });
}
