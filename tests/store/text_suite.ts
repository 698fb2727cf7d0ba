// Jobs, info and workflows as texts: the same as their values, whatever their size, and in one piece
// whatever is written while they are read.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JobUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { type Instant, instantAfter } from "../../src/domain/instant.ts";
import { EXTRA_FIELDS_BYTES_MAX, jobOnWire, type Wording } from "../../src/domain/job/wire.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { NewJob } from "../../src/domain/job/job.ts";
import { closeText, textBytes } from "../../src/http/answer/text_answer.ts";
import { PART_BYTES, type StoredText } from "../../src/store/stored_text.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, resultOf, RUNNER, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { claim, create, finish, JOB, present, recordOf, run, type Test } from "./store_case.ts";
import { at, claimJobs } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

const DOCUMENT = { wording: "document", now: T0, masksSecrets: false } as const;
const AWKWARD = {
  'q"uote\\': "ü☃😀\u0001\u2028",
  "10": 1,
  "9": [null, true, -0.5e-7],
  __proto: {},
};

async function textOf(text: StoredText | undefined): Promise<string> {
  assert(text !== undefined, "There is no text");
  let read = "";
  const decoder = new TextDecoder();
  let bytes = 0;
  for await (const part of textBytes(text)) {
    assert(part.length <= PART_BYTES + 1024, `${part.length} bytes were read at once`);
    bytes += part.length;
    read += decoder.decode(part, { stream: true });
  }
  assertEquals(bytes, text.bytes);
  return read;
}

/** That the text of every job is what JSON.stringify makes of it at an instant, where the clock stands from then on. */
async function assertTexts(
  store: Store,
  wording: Wording = "document",
  now: Instant = T0,
): Promise<void> {
  at(store, now);
  const showing = { ...DOCUMENT, wording, now };
  const jobs = (await store.jobs.list({})).map(({ job }) => job);
  const wires = jobs.map((job) => JSON.stringify(jobOnWire(job, wording, now)));
  for (const [index, { uuid }] of jobs.entries()) {
    assertEquals(await textOf(await store.jobs.text(uuid, showing)), wires[index]);
  }
  // To callers who see no params, none is shown as a field either.
  const masked = jobs.map((job) =>
    JSON.stringify({ ...jobOnWire({ ...job, params: {} }, wording, now), params: job.params })
  );
  for (const masksSecrets of [true, false]) {
    const read: string[] = [];
    let place: { before?: number } = {};
    for (let last = false; !last;) {
      const page = await store.jobs.texts({}, { limit: 3, ...place }, { ...showing, masksSecrets });
      for (const text of page.texts) read.push(await textOf(text));
      if (page.place !== undefined) place = { before: page.place };
      last = page.last;
    }
    assertEquals(`[${read.join(",")}]`, `[${(masksSecrets ? masked : wires).join(",")}]`);
  }
}

/** Jobs of every execution, with all that a job may have. */
async function fill(store: Store): Promise<void> {
  const whole: Partial<NewJob> = {
    target: 'a "target"\n',
    locks: "ö(.*)",
    callback_url: "https://example.org/a?b=%22",
    params: AWKWARD,
    workflow: workflowOf({
      uuid: uuidOf<WorkflowUuid>(5),
      name: 'ev"ery\\thing ☃',
      onerror: [taskOf("mend")],
      oncancel: [taskOf("undo")],
    }),
    props: { prev_attempt: JOB, num_attempts: 1, attempt: 7, medium_file: "x", "": [1.5e300] },
  };
  const [queued, running, failed, waiting, canceled] = [2, 3, 4, 5, 6];
  await finish(store, await run(store, jobOf(1, { props: { lease: 1 } })));
  await run(store, jobOf(running, { ...whole, target: "r" }));
  const failing = await run(store, jobOf(failed, { ...whole, target: "f" }));
  await store.jobs.recordTask(recordOf(failing, { kind: "fail", onerror: true }, {
    params: AWKWARD,
    props: { ...AWKWARD, error: "x" },
    elapsed_ms: 1_050,
    entry: resultOf("first", { error: { name: "E", message: "no" }, result: AWKWARD }),
  }));
  const mending = await present(store, uuidOf<JobUuid>(failed));
  const end = recordOf(mending, { kind: "fail", onerror: false }, { elapsed_ms: 450 });
  await store.jobs.recordTask(end);
  const waits = await run(store, jobOf(waiting, { ...whole, target: "w" }));
  await store.jobs.recordTask(recordOf(waits, { kind: "cb_wait" }, { elapsed_ms: 12_000 }));
  await run(store, jobOf(canceled, { ...whole, target: "c" }));
  await at(store, instantAfter(T0, 5_000)).jobs.cancel(uuidOf<JobUuid>(canceled));
  await create(store, jobOf(queued, { ...whole, target: "q" }));
  await create(store, jobOf(7, { exec_after: instantAfter(T0, 60_000) }));
}

/** Results of a job, among them one of a megabyte. */
async function finishLarge(store: Store, params: JsonObject): Promise<void> {
  let job = await run(store, jobOf(1, { params }));
  for (let n = 0; n < 40; n++) {
    const result = n === 7 ? "r".repeat(1_000_000) : { n, text: "ü".repeat(5_000) };
    const entry = resultOf(`task ${n}`, { result });
    const props = { large: "p".repeat(n === 39 ? 300_000 : 10) };
    await store.jobs.recordTask(recordOf(job, { kind: "continue" }, { params, props, entry }));
    job = await present(store);
  }
}

export function textTests(test: Test): void {
  test("the text of a job is what its value is written as, in both wordings", async (store) => {
    await fill(store);
    await assertTexts(store);
    await assertTexts(store, "node-workflow");
    // A running job has run longer by then, to the millisecond.
    for (const ms of [1, 999, 12_345, 86_400_007, -5]) {
      await assertTexts(store, "document", instantAfter(T0, ms));
    }
  });

  test("params are fields of their job with node-workflow, up to their limit", async (store) => {
    const job = await run(store, jobOf(1, { params: { p: 1, q: { r: null } } }));
    const set = recordOf(job, { kind: "cb_wait" }, { params: job.params, props: { p: "task" } });
    await store.jobs.recordTask(set);
    const most = "p".repeat(EXTRA_FIELDS_BYTES_MAX - '{"p":""}'.length);
    await create(store, jobOf(2, { params: { p: most } }));
    await create(store, jobOf(3, { params: { p: `${most}p` } }));
    await create(store, jobOf(4, { params: { p: 1, uuid: 2, params: 3, chain: null } }));
    await assertTexts(store, "node-workflow");
    const shown = (await store.jobs.list({})).map(({ job }) =>
      jobOnWire(job, "node-workflow", T0).p
    );
    assertEquals(shown, [1, undefined, most, "task"]);
  });

  test("the text of a large job is read in parts, and is the same", async (store) => {
    await finishLarge(store, { list: Array(100_000).fill({ a: 1 }), text: "ü☃".repeat(100_000) });
    await assertTexts(store);
    await assertTexts(store, "node-workflow");
  });

  test("a text is consistent, even if the job is changed while it is read", async (store) => {
    const params = { text: "old ".repeat(200_000) };
    const job = await run(store, jobOf(1, { params }));
    const before = JSON.stringify(jobOnWire(job, "document", T0));
    const texts: (StoredText | undefined)[] = [];
    for (let n = 0; n < 3; n++) texts.push(await store.jobs.text(JOB, DOCUMENT));
    const begun = texts.map((text) => textBytes(text as StoredText));
    const first = await Promise.all(begun.map(async (part) => (await part.next()).value));
    const next = { params: { text: "new ".repeat(300_000) } };
    await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" }, next));
    await store.jobs.resume(JOB, { kind: "error", error: "no", result: "z".repeat(300_000) });
    await store.jobs.prune({ age_ms: null, finished_max: 0, limit: 10 });
    assertEquals(await store.jobs.get(JOB), undefined);
    for (const [index, rest] of begun.entries()) {
      const parts = [first[index] ?? new Uint8Array()];
      for await (const part of rest) parts.push(part);
      assertEquals(await new Blob(parts as BlobPart[]).text(), before);
    }
    // Everybody has gone: nothing is kept for anybody.
    await assertRejects(() => textOf(texts[0]), AgentError, "was removed");
  });

  test("a page whose jobs are removed while it is read has them as they were, or is empty", async (store) => {
    // Among so many, jobs are looked at in parts, with other work let through in between.
    const exec_after = instantAfter(T0, 60_000);
    const others = Array.from({ length: 1_000 }, (_, n) => jobOf(n + 2, { exec_after }));
    await Promise.all(others.map((job) => store.jobs.create(job, NO_LIMIT)));
    const workflow = workflowOf({ uuid: uuidOf<WorkflowUuid>(5), name: "sought" });
    await finish(store, await run(store, jobOf(1, { workflow })));
    const wire = jobOnWire(await present(store), "document", T0);
    const sought = { execution: "succeeded", name: "sought" } as const;
    const page = store.jobs.texts(sought, { limit: 3 }, DOCUMENT);
    await store.jobs.prune({ age_ms: null, finished_max: 0, limit: 10 });
    const texts = [];
    for (const text of (await page).texts) texts.push(await textOf(text));
    if (texts.length > 0) assertEquals(texts, [JSON.stringify(wire)]);
  });

  test("cancel() and resume() return the changed job", async (store) => {
    const job = await run(store, jobOf(1, { params: { text: "x".repeat(300_000) } }));
    await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" }));
    const resumed = await store.jobs.resume(JOB, { kind: "result", result: 1 }, DOCUMENT);
    const canceled = await store.jobs.cancel(JOB, DOCUMENT);
    assert(resumed.kind === "changed" && canceled.kind === "changed");
    assertEquals(JSON.parse(await textOf(resumed.text)).execution, "queued");
    const wire = jobOnWire(await present(store), "document", T0);
    assertEquals(await textOf(canceled.text), JSON.stringify(wire));
    assertEquals((await store.jobs.cancel(JOB, DOCUMENT)).kind, "made");
  });

  test("the texts of info and of workflows are what was written, page by page", async (store) => {
    await create(store, jobOf(1));
    const entries = [1, 60_000, 60_000, 200_000, 2, 3].map((size) => ({ text: "ü".repeat(size) }));
    for (const entry of entries) await store.info.append(JOB, entry, T0, NO_LIMIT);
    const sizes: number[] = [];
    const read: string[] = [];
    for (let after = 0, last = false; !last;) {
      const page = await store.info.texts(JOB, after, 100);
      assert(page !== undefined);
      for (const text of page.texts) read.push(await textOf(text));
      sizes.push(page.entries);
      after += page.entries;
      last = page.last;
    }
    assertEquals(`[${read.join(",")}]`, JSON.stringify(entries));
    assertEquals(sizes, [2, 1, 1, 2]);
    assertEquals(await store.info.texts(uuidOf<JobUuid>(9), 0, 1), undefined);
    for (const n of [1, 2, 3]) {
      const note = n === 2 ? "☃".repeat(100_000) : '"';
      const workflow = { ...workflowOf({ uuid: uuidOf<WorkflowUuid>(n), name: `w${n}` }), note };
      await store.workflows.create(workflow, { max: NO_LIMIT });
      const text = await store.workflows.text(workflow.uuid, "shown");
      assertEquals(await textOf(text), JSON.stringify({ ...workflow, wf_uuid: workflow.uuid }));
      const stored = await store.workflows.text(workflow.uuid, "stored");
      assertEquals(await textOf(stored), JSON.stringify(workflow));
    }
    const all = (await store.workflows.list({})).map(({ workflow }) => workflow);
    const page = async (after: number) => await store.workflows.texts({}, { limit: 9, after });
    const pages = [await page(0), await page(1), await page(2)];
    const texts = pages.flatMap(({ texts }) => texts);
    const written = [];
    for (const text of texts) written.push(await textOf(text));
    assertEquals(`[${written.join(",")}]`, JSON.stringify(all));
    assertEquals(pages.map(({ last }) => last), [false, false, true]);
  });

  test("claim() takes one large job at a time, and small ones together", async (store) => {
    const params = { text: "x".repeat(700_000) };
    for (const number of [1, 2]) await create(store, jobOf(number, { params }));
    for (const number of [3, 4]) await create(store, jobOf(number));
    const taken = [];
    for (let n = 0; n < 3; n++) taken.push((await claimJobs(store, RUNNER, 9, T0)).length);
    assertEquals(taken, [1, 3, 0]);
  });

  test("a text that is closed unread holds no resource of the store", async (store) => {
    const job = await run(store, jobOf(1, { params: { text: "x".repeat(300_000) } }));
    const text = await store.jobs.text(JOB, DOCUMENT);
    assert(text !== undefined);
    closeText(text);
    closeText(text);
    await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" }, { params: {} }));
    assertEquals(await claim(store).catch(() => null), null);
  });
}
