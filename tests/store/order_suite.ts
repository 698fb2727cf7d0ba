// The suite's part on orders: jobs of stored workflows, made and shown in one call.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { textBytes } from "../../src/http/answer/text_answer.ts";
import type { JobOrder, OrderOutcome, OrderRules } from "../../src/store/job_store.ts";
import type { Store } from "../../src/store/store.ts";
import type { StoredText } from "../../src/store/stored_text.ts";
import { jobOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { claim, create, JOB, kindsOf, present, recordOf, type Test } from "./store_case.ts";
import { at } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

const SHOWING = { wording: "document", now: T0, masksSecrets: false } as const;
const RULES: OrderRules = {
  unfinishedMax: 3,
  workflowBytesMax: 10_000,
  needsTasks: false,
  showing: SHOWING,
};
const KEY = { key: "order-1", request_sha256: "a".repeat(64) };

function orderOf(number: number, fields: Partial<JobOrder> = {}): JobOrder {
  const { workflow, ...job } = jobOf(number);
  return { ...job, workflow_uuid: workflow.uuid, ...fields };
}

async function wholeText(text: StoredText | undefined): Promise<string> {
  assert(text !== undefined);
  let read = "";
  for await (const part of textBytes(text)) read += new TextDecoder().decode(part);
  return read;
}

/** Asserts that the outcome shows a job as the store shows it otherwise. */
async function assertShown(
  store: Store,
  outcome: OrderOutcome,
  kind: "created" | "repeated",
  uuid: JobUuid,
): Promise<void> {
  assert(outcome.kind === "created" || outcome.kind === "repeated", outcome.kind);
  assertEquals([outcome.kind, outcome.job], [kind, { uuid }]);
  const shown = await wholeText(outcome.text);
  assertEquals(shown, await wholeText(await store.jobs.text(uuid, SHOWING)));
}

export function orderTests(test: Test): void {
  test("order() makes a job of a stored workflow, as create() does, and shows it", async (store) => {
    const workflow = {
      ...workflowOf({ oncancel: workflowOf().chain }),
      secret_params: ["plan"],
    };
    await store.workflows.create(workflow, { max: NO_LIMIT });
    const fields = { target: "/a", params: { plan: 1 } };
    await assertShown(store, await store.jobs.order(orderOf(1, fields), RULES), "created", JOB);
    const ordered = await present(store);
    const made = await create(store, jobOf(2, { ...fields, workflow, target: "/b" }));
    assertEquals({ ...ordered, uuid: made.uuid, target: "/b" }, made);
  });

  test("a job that has just been ordered or resumed is shown as waiting for a slot", async (store) => {
    const later = at(store, instantAfter(T0, 1));
    await store.workflows.create(workflowOf(), { max: NO_LIMIT });
    const ordered = await later.jobs.order(orderOf(1), RULES);
    assert(ordered.kind === "created");
    const reasonOf = async (text: StoredText | undefined) => {
      const { reason, next_run_at } = JSON.parse(await wholeText(text));
      return [reason, next_run_at];
    };
    assertEquals(await reasonOf(ordered.text), ["waiting_for_slot", undefined]);
    await later.jobs.recordTask(recordOf(await claim(later), { kind: "cb_wait" }));
    const resume = { kind: "result", result: "OK" } as const;
    const resumed = await later.jobs.resume(JOB, resume, SHOWING);
    assert(resumed.kind === "changed");
    assertEquals(await reasonOf(resumed.text), ["waiting_for_slot", undefined]);
  });

  test("order() is refused for the same reasons as create(), and then creates nothing", async (store) => {
    await store.workflows.create(workflowOf(), { max: NO_LIMIT });
    const first = orderOf(1, { target: "/a", locks: "^/locked" });
    await store.jobs.order(first, RULES);
    const kinds: [JobOrder, Partial<OrderRules>, OrderOutcome][] = [
      [orderOf(2, { target: "/a" }), {}, { kind: "duplicate", job_uuid: JOB }],
      [orderOf(2, { target: "/locked/1" }), {}, { kind: "locked", job_uuid: JOB }],
      [
        orderOf(2),
        { unfinishedMax: 1 },
        { kind: "full", what: "unfinished jobs", limit: 1 },
      ],
      [orderOf(2, { workflow_uuid: uuidOf<WorkflowUuid>(7) }), {}, { kind: "no_workflow" }],
    ];
    for (const [order, rules, outcome] of kinds) {
      assertEquals(await store.jobs.order(order, { ...RULES, ...rules }), outcome);
    }
    assertEquals(await store.jobs.count({}), 1);
  });

  test("order() of a workflow without tasks is refused where tasks are required", async (store) => {
    await store.workflows.create(workflowOf({ chain: [] }), { max: NO_LIMIT });
    const refused = await store.jobs.order(orderOf(1), { ...RULES, needsTasks: true });
    assertEquals(refused, { kind: "no_tasks" });
    await assertShown(store, await store.jobs.order(orderOf(1), RULES), "created", JOB);
  });

  test("order() refuses a workflow over the size limit without reading it", async (store) => {
    const workflow = { ...workflowOf(), note: "n".repeat(10_000) };
    await store.workflows.create(workflow, { max: NO_LIMIT });
    const bytes = JSON.stringify(workflow).length;
    const large = await store.jobs.order(orderOf(1), { ...RULES, workflowBytesMax: bytes - 1 });
    assertEquals(large, { kind: "large_workflow", bytes });
    assertEquals(await store.jobs.count({}), 0);
    const most = await store.jobs.order(orderOf(1), { ...RULES, workflowBytesMax: bytes });
    await assertShown(store, most, "created", JOB);
    // As for the workflows of the program itself.
    const any = { ...RULES, workflowBytesMax: Number.MAX_SAFE_INTEGER };
    const job = uuidOf<JobUuid>(2);
    await assertShown(store, await store.jobs.order(orderOf(2), any), "created", job);
  });

  test("order() with a used key returns its job, even if the workflow has changed or is gone", async (store) => {
    const { uuid } = workflowOf();
    await store.workflows.create(workflowOf(), { max: NO_LIMIT });
    const outcomes = await Promise.all(
      [1, 2, 3].map((number) => store.jobs.order(orderOf(number, { idempotency: KEY }), RULES)),
    );
    assertEquals(kindsOf(outcomes), { created: 1, repeated: 2 });
    await store.workflows.remove(uuid);
    const again = await store.jobs.order(orderOf(4, { idempotency: KEY }), RULES);
    await assertShown(store, again, "repeated", JOB);
    const other = { ...KEY, request_sha256: "b".repeat(64) };
    const reused = await store.jobs.order(orderOf(5, { idempotency: other }), RULES);
    assertEquals(reused, { kind: "key_reused", job_uuid: JOB });
    assertEquals(await store.jobs.count({}), 1);
  });

  test("order() repeated after a lost answer returns the same answer", async (store) => {
    await store.workflows.create(workflowOf(), { max: NO_LIMIT });
    for (const fields of [{ target: "/a" }, { target: "/b", idempotency: KEY }]) {
      const order = orderOf("idempotency" in fields ? 2 : 1, fields);
      await store.jobs.order(order, RULES);
      await assertShown(store, await store.jobs.order(order, RULES), "created", order.uuid);
    }
    assertEquals(await store.jobs.count({}), 2);
  });
  test("order() uses the current workflow, even after many jobs of it", async (store) => {
    const rules = { ...RULES, unfinishedMax: 20 };
    const chainOf = async (number: number) => {
      const outcome = await store.jobs.order(orderOf(number), rules);
      if (outcome.kind !== "created") return outcome.kind;
      return (await present(store, outcome.job.uuid)).chain.map(({ name }) => name).join();
    };
    const named = (name: string) => workflowOf({ chain: [taskOf(name)] });
    await store.workflows.create(named("old"), { max: NO_LIMIT });
    assertEquals([await chainOf(1), await chainOf(2)], ["old", "old"]);
    // Both are written in one commit.
    const replaced = store.workflows.replace(named("new"));
    assertEquals([await chainOf(3), await chainOf(4)], ["new", "new"]);
    assertEquals(await replaced, { kind: "replaced" });
    await store.workflows.replace(named("old"));
    assertEquals(await chainOf(6), "old");
    await store.workflows.remove(named("old").uuid);
    assertEquals(await chainOf(7), "no_workflow");
    await store.workflows.create(named("third"), { max: NO_LIMIT });
    assertEquals(await chainOf(8), "third");
  });
  test("order() creates a job of a workflow whose earlier jobs were all removed", async (store) => {
    await store.workflows.create(workflowOf({}), { max: NO_LIMIT });
    for (const number of [1, 2, 3]) {
      await store.jobs.order(orderOf(number), RULES);
      const uuid = uuidOf<JobUuid>(number);
      await store.jobs.cancel(uuid);
      const retention = { age_ms: null, finished_max: 0, limit: 10 };
      assertEquals(await store.jobs.prune(retention), 1);
      assertEquals(await store.jobs.get(uuid), undefined);
    }
  });
}
