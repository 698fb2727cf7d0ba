// The suite's part on summaries: which jobs a list has, in which order, and that its pages together
// are the whole list.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, MachineUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { JobSummary, SummaryFilter, SummaryPlace } from "../../src/domain/job/summary.ts";
import type { Store } from "../../src/store/store.ts";
import { at } from "../support/clocked_store.ts";
import { jobOf, resultOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { claim, create, finish, JOB, present, recordOf, run, type Test } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

type Asked = Partial<SummaryFilter>;

/** The numbers of the jobs of a list, read in pages of one size. */
async function numbersOf(store: Store, asked: Asked, limit = 100): Promise<number[]> {
  const found: number[] = [];
  let after: SummaryPlace | undefined;
  do {
    const filter = { searchesParams: true, ...asked };
    const part = await store.jobs.summaries(filter, { limit, after });
    assert(part.summaries.length <= limit);
    found.push(...part.summaries.map(({ uuid }) => Number(uuid.slice(-12))));
    after = part.next;
  } while (after !== undefined);
  return found;
}

async function summaryOf(store: Store, uuid: JobUuid = JOB): Promise<JobSummary> {
  const summary = await store.jobs.summary(uuid);
  assert(summary !== undefined);
  return summary;
}

const later = (minutes: number) => instantAfter(T0, minutes * 60_000);

/** Nine jobs of two workflows, one a minute; job n ends n minutes before the tenth minute. */
async function fill(store: Store): Promise<void> {
  const other = workflowOf({ uuid: uuidOf<WorkflowUuid>(2), name: "other" });
  for (let n = 1; n <= 9; n++) {
    const job = await run(
      at(store, later(n)),
      jobOf(n, {
        target: n % 3 === 0 ? "/t" : `/t/${n}`,
        params: { who: n === 7 ? 'Zoë "Q"' : `user ${n}` },
        ...(n % 2 === 0 ? { workflow: other } : {}),
      }),
    );
    const error = resultOf("first", { error: { name: "Error", message: `Disk ${n}\n died` } });
    if (n <= 2) await finish(store, job, "succeeded", later(20 - n));
    else if (n <= 6) {
      await at(store, later(20 - n)).jobs.recordTask(
        recordOf(job, { kind: "fail", onerror: false }, { entry: error }),
      );
    }
  }
}

export function summaryTests(test: Test): void {
  listTests(test);
  summaryFields(test);
}

function listTests(test: Test): void {
  test("a list of summaries is the same in pages of any size, by every filter", async (store) => {
    await fill(store);
    const cases: [Asked, number[]][] = [
      [{}, [9, 8, 7, 6, 5, 4, 3, 2, 1]],
      [{ states: ["failed"] }, [6, 5, 4, 3]],
      [{ states: ["failed", "succeeded"] }, [6, 5, 4, 3, 2, 1]],
      [{ states: ["queued", "canceled"] }, []],
      [{ name: "other" }, [8, 6, 4, 2]],
      [{ name: "other", states: ["failed", "running"] }, [8, 6, 4]],
      [{ workflow_uuid: uuidOf<WorkflowUuid>(1), name: "other" }, []],
      [{ workflow_uuid: uuidOf<WorkflowUuid>(1) }, [9, 7, 5, 3, 1]],
      [{ target: "/t" }, [9, 6, 3]],
      [{ uuid: uuidOf<JobUuid>(7) }, [7]],
      [{ uuid: "0000" }, [9, 8, 7, 6, 5, 4, 3, 2, 1]],
      [{ uuid: "00000000-0000-4000-8000-00000000000", states: ["failed"] }, [6, 5, 4, 3]],
      [{ uuid: uuidOf<JobUuid>(5), since: later(1), finished_since: later(1) }, [5]],
      [{ uuid: "00000001" }, []],
      [{ target: "/t", states: ["failed"], since: later(4) }, [6]],
      [{ since: later(3), until: later(6) }, [5, 4, 3]],
      [{ since: later(3), name: "other" }, [8, 6, 4]],
      [{ until: later(3), states: ["succeeded"] }, [2, 1]],
      [{ finished_since: later(15) }, [1, 2, 3, 4, 5]],
      [{ finished_since: later(15), states: ["failed"] }, [3, 4, 5]],
      [{ finished_since: later(15), since: later(4) }, [4, 5]],
      [{ finished_since: later(15), target: "/t" }, [3]],
      [{ search: "OTHER" }, [8, 6, 4, 2]],
      [{ search: "/t/7" }, [7]],
      [{ search: "disk 5 died" }, [5]],
      [{ search: "user 8" }, [8]],
      [{ search: 'zoë "q"' }, [7]],
      [{ search: "user 8", searchesParams: false }, []],
      [{ search: "%" }, []],
      [{ params: { who: "user 8" } }, [8]],
      [{ params: { who: "user 8" }, states: ["failed"] }, []],
      [{ params: { who: "user 8" }, since: later(3), search: "OTHER" }, [8]],
    ];
    for (const [asked, numbers] of cases) {
      for (const limit of [100, 1, 2, 4]) {
        assertEquals([asked, limit, await numbersOf(store, asked, limit)], [asked, limit, numbers]);
      }
      const { counts, whole } = await store.jobs.summaryCounts({ searchesParams: true, ...asked });
      const sum = [...counts.values()].reduce((total, count) => total + count, 0);
      assertEquals([asked, sum, whole], [asked, numbers.length, true]);
    }
    const { counts } = await store.jobs.summaryCounts({ name: "other", searchesParams: false });
    assertEquals([counts.get("failed"), counts.get("succeeded"), counts.get("queued")], [2, 1, 0]);
  });
  test("a search finds jobs with small params and with large ones, in their order", async (store) => {
    for (let n = 1; n <= 6; n++) {
      const params = { note: `${"x".repeat(n % 2 === 0 ? 10_000 : 10)} needle ${n}` };
      await create(store, jobOf(n, { params }));
    }
    for (const limit of [100, 1, 2]) {
      assertEquals(await numbersOf(store, { search: "NEEDLE" }, limit), [6, 5, 4, 3, 2, 1]);
      assertEquals(await numbersOf(store, { search: "needle 4" }, limit), [4]);
      assertEquals(await numbersOf(store, { search: "needle 7" }, limit), []);
    }
  });
  test("a list of one machine has the jobs of its target, by every other filter too", async (store) => {
    const machine = uuidOf<MachineUuid>(77);
    for (let n = 1; n <= 9; n++) {
      const targets = [`/machines/${machine}`, `/machines/${uuidOf(78)}`, null];
      const target = targets[n % 3] ?? null;
      await create(at(store, later(n)), jobOf(n, { target, params: { n } }));
    }
    await store.jobs.cancel(uuidOf<JobUuid>(3));
    const cases: [Asked, number[]][] = [
      [{ machine }, [9, 6, 3]],
      [{ machine, states: ["canceled"] }, [3]],
      [{ machine, since: later(4) }, [9, 6]],
      [{ machine, target: `/machines/${machine}` }, [9, 6, 3]],
      [{ machine, target: `/machines/${uuidOf(78)}` }, []],
      [{ machine, finished_since: T0 }, [3]],
      [{ machine, params: { n: "6" } }, [6]],
      [{ machine: uuidOf<MachineUuid>(79) }, []],
    ];
    for (const [asked, numbers] of cases) {
      for (const limit of [100, 1]) {
        assertEquals([asked, limit, await numbersOf(store, asked, limit)], [asked, limit, numbers]);
      }
    }
    // The place of a list that was begun without it.
    const begun = { order: "created", at: later(7), id: 7 } as const;
    const filter = { searchesParams: true, machine } as const;
    const { summaries } = await store.jobs.summaries(filter, { limit: 9, after: begun });
    assertEquals(summaries.map(({ uuid }) => Number(uuid.slice(-12))), [6, 3]);
  });
  test("a list that is continued has no job twice, even if jobs begin and end meanwhile", async (store) => {
    await fill(store);
    const filter = { searchesParams: false } as const;
    const first = await store.jobs.summaries(filter, { limit: 4 });
    await create(at(store, later(0)), jobOf(10));
    const second = await store.jobs.summaries(filter, { limit: 100, after: first.next });
    assertEquals(second.summaries.map(({ uuid }) => Number(uuid.slice(-12))), [5, 4, 3, 2, 1]);
    assertEquals(second.next, undefined);
  });
  test("jobs of one instant are listed in the order of their creation", async (store) => {
    for (let n = 1; n <= 5; n++) await create(store, jobOf(n));
    assertEquals(await numbersOf(store, { since: T0 }, 2), [5, 4, 3, 2, 1]);
    for (let n = 1; n <= 5; n++) await store.jobs.cancel(uuidOf<JobUuid>(n));
    assertEquals(await numbersOf(store, { finished_since: T0 }, 2), [5, 4, 3, 2, 1]);
  });
}

function summaryFields(test: Test): void {
  test("a summary names the task that runs, waits or has failed, and the error in one line", async (store) => {
    const workflow = workflowOf({ onerror: [taskOf("undo")] });
    await create(store, jobOf(1, { workflow }));
    assertEquals((await summaryOf(store)).task, null);
    const job = await claim(store);
    assertEquals((await summaryOf(store)).task, { name: "first", phase: "chain", index: 0 });
    assert(await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" })));
    const waiting = await summaryOf(store);
    assertEquals(waiting.task, { name: "first", phase: "chain", index: 0 });
    assertEquals(waiting.tasks_done, 0);
    await store.jobs.resume(JOB, { kind: "result", result: "ok" });
    const again = await claim(store);
    const second = await summaryOf(store);
    assertEquals([second.task?.name, second.tasks_done, second.tasks_total], ["second", 1, 2]);
    const entry = resultOf("second", { error: " disk\n\tdied\0 " });
    const fail = { kind: "fail", onerror: true } as const;
    assert(await store.jobs.recordTask(recordOf(again, fail, { entry })));
    assertEquals((await summaryOf(store)).task, { name: "undo", phase: "onerror", index: 0 });
    const undoing = await present(store);
    const undo = resultOf("undo", { error: "no undo" });
    const end = { kind: "fail", onerror: false } as const;
    assert(await store.jobs.recordTask(recordOf(undoing, end, { entry: undo })));
    const failed = await summaryOf(store);
    assertEquals(failed.task, { name: "second", phase: "chain", index: 1 });
    assertEquals(failed.error, "disk died");
  });
  test("a resume with an error says why the job failed", async (store) => {
    const job = await run(store);
    assert(await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" })));
    await store.jobs.resume(JOB, { kind: "error", error: "refused", result: "" });
    assertEquals((await summaryOf(store)).error, "refused");
  });
  test("a summary has the latest progress of the running task, and of no other", async (store) => {
    const job = await run(store);
    const progress = (done: number) => ({ task: "first", progress: { phase: "copy", done } });
    for (const done of [1, 2]) await store.info.append(JOB, progress(done), T0, NO_LIMIT);
    await store.info.append(JOB, { task: "first", log: "info", message: "on" }, T0, NO_LIMIT);
    assertEquals((await summaryOf(store)).progress, { phase: "copy", done: 2 });
    // No older one stands for one that is too large.
    await store.info.append(
      JOB,
      { task: "first", progress: { text: "x".repeat(5000) } },
      T0,
      NO_LIMIT,
    );
    assertEquals((await summaryOf(store)).progress, null);
    await store.info.append(JOB, progress(3), T0, NO_LIMIT);
    assertEquals((await summaryOf(store)).progress, { phase: "copy", done: 3 });
    assert(await store.jobs.recordTask(recordOf(job, { kind: "continue" })));
    assertEquals((await summaryOf(store)).progress, null);
  });
  test("params beyond a size are left out of a summary, which says their size", async (store) => {
    await create(store, jobOf(1, { params: { a: "x".repeat(5000) } }));
    await create(store, jobOf(2, { params: { a: 1 } }));
    const large = await summaryOf(store);
    assertEquals([large.params, large.params_bytes], [null, 5008]);
    assertEquals((await summaryOf(store, uuidOf<JobUuid>(2))).params, { a: 1 });
  });
  test("the alias of a machine comes from the job, or from the first one of its target", async (store) => {
    const target = `/machines/${uuidOf<JobUuid>(77)}`;
    await create(store, jobOf(1, { target, params: { machine: { alias: "web-1" } } }));
    await create(store, jobOf(2, { target, params: { force: true } }));
    await create(store, jobOf(3, { target: "/machines/x", params: { machine: "text" } }));
    assertEquals((await summaryOf(store)).alias, "web-1");
    assertEquals((await summaryOf(store, uuidOf<JobUuid>(2))).alias, "web-1");
    assertEquals((await summaryOf(store, uuidOf<JobUuid>(3))).alias, null);
    assertEquals(await store.jobs.summary(uuidOf<JobUuid>(9)), undefined);
  });
}
