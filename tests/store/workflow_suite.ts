// The suite's part on workflows.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { WorkflowUuid } from "../../src/domain/id.ts";
import type { Workflow } from "../../src/domain/job/workflow.ts";
import type { Store, WorkflowFilter, WorkflowPage } from "../../src/store/store.ts";
import { uuidOf, workflowOf } from "../support/job.ts";
import { kindsOf, type Test } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

export function workflowTests(test: Test): void {
  test("workflows come back as sent, keys in their order", async (store) => {
    const workflow = { zebra: 1, ...workflowOf(), alpha: { b: 1, a: "ä" } };
    await store.workflows.create(workflow, { max: NO_LIMIT });
    const found = await store.workflows.get(workflow.uuid);
    assertEquals(JSON.stringify(found?.workflow), JSON.stringify(workflow));
    assertEquals(found?.builtin, false);
  });
  test("replace() and remove() return whether the workflow existed", async (store) => {
    const workflow = workflowOf();
    assertEquals(await store.workflows.replace(workflow), { kind: "not_found" });
    assertFalse(await store.workflows.remove(workflow.uuid));
    await store.workflows.create(workflow, { max: NO_LIMIT });
    const replaced = await store.workflows.replace({ ...workflow, name: "other" });
    assertEquals(replaced, { kind: "replaced" });
    assertEquals((await store.workflows.list({ name: "other" })).length, 1);
    assertEquals((await store.workflows.list({ name: "sample" })).length, 0);
    assert(await store.workflows.remove(workflow.uuid));
    assertEquals(await store.workflows.get(workflow.uuid), undefined);
  });
  test("a built-in workflow cannot be replaced or removed", async (store) => {
    const workflow = workflowOf();
    await store.workflows.putBuiltin(workflow);
    await store.workflows.putBuiltin({ ...workflow, name: "newer" });
    for (const uniqueName of [false, true]) {
      await store.workflows.create(workflowNumber(7), { max: NO_LIMIT });
      assertEquals(await store.workflows.replace(workflow, { uniqueName }), { kind: "not_found" });
    }
    assertFalse(await store.workflows.remove(workflow.uuid));
    assertEquals((await store.workflows.get(workflow.uuid))?.workflow.name, "newer");
  });
  test("list() answers workflows in the order of their creation, part by part", async (store) => {
    for (const number of [3, 1, 2, 5, 4]) {
      await store.workflows.create(workflowNumber(number), { max: NO_LIMIT });
    }
    assertEquals(await numbers(store), [3, 1, 2, 5, 4]);
    assertEquals(await numbers(store, {}, { limit: 2 }), [3, 1]);
    assertEquals(await numbers(store, {}, { limit: 2, offset: 1 }), [1, 2]);
    assertEquals(await numbers(store, {}, { offset: 4 }), [4]);
    assertEquals(await numbers(store, {}, { offset: 5 }), []);
    assertEquals(await numbers(store, {}, { limit: 0 }), []);
    const [, second] = await store.workflows.list({}, { limit: 2 });
    const after = second?.place ?? 0;
    // What is gone meanwhile moves nothing.
    assert(await store.workflows.remove(uuidOf<WorkflowUuid>(3)));
    assertEquals(await numbers(store, {}, { after }), [2, 5, 4]);
    assertEquals(await numbers(store, {}, { after, limit: 1, offset: 1 }), [5]);
  });
  test("a list that is read in parts has every workflow that was created meanwhile", async (store) => {
    for (const number of [1, 2]) {
      await store.workflows.create(workflowNumber(number), { max: NO_LIMIT });
    }
    const after = (await store.workflows.list({})).at(-1)?.place ?? 0;
    assert(await store.workflows.remove(uuidOf<WorkflowUuid>(2)));
    await store.workflows.create(workflowNumber(3), { max: NO_LIMIT });
    assertEquals(await numbers(store, {}, { after }), [3]);
  });
  test("putBuiltin() writes several, those that differ and those that callers made", async (store) => {
    await store.workflows.putBuiltin(workflowNumber(1, "a"), workflowNumber(2, "b"));
    await store.workflows.create(workflowNumber(3, "c"), { max: NO_LIMIT });
    const [one, two, three] = [["a"], ["other"], ["c"]].map(([name], at) =>
      workflowNumber(at + 1, name)
    );
    assert(one !== undefined && two !== undefined && three !== undefined);
    await store.workflows.putBuiltin(one, two, three);
    const listed = await store.workflows.list({ builtin: true });
    assertEquals(listed.map(({ workflow }) => workflow), [one, two, three]);
  });
  test("list() and count() take workflows by name, built-in ones or the others", async (store) => {
    await store.workflows.putBuiltin(workflowNumber(1, "a"));
    for (const [number, name] of [[2, "a"], [3, "b"], [4, "a"]] as const) {
      await store.workflows.create(workflowNumber(number, name), { max: NO_LIMIT });
    }
    const cases: [WorkflowFilter, number[]][] = [
      [{}, [1, 2, 3, 4]],
      [{ name: "a" }, [1, 2, 4]],
      [{ name: "none" }, []],
      [{ builtin: true }, [1]],
      [{ builtin: false }, [2, 3, 4]],
      [{ name: "a", builtin: false }, [2, 4]],
      [{ name: "b", builtin: true }, []],
    ];
    for (const [filter, expected] of cases) {
      assertEquals(await numbers(store, filter), expected);
      assertEquals(await store.workflows.count(filter), expected.length);
      assertEquals(await numbers(store, filter, { offset: 1, limit: 1 }), expected.slice(1, 2));
    }
  });
  test("the workflow over the limit is refused, even among simultaneous ones", async (store) => {
    const create = (number: number) => store.workflows.create(workflowNumber(number), { max: 4 });
    const outcomes = await Promise.all(Array.from({ length: 10 }, (_, number) => create(number)));
    assertEquals(kindsOf(outcomes), { created: 4, full: 6 });
    const [first] = await store.workflows.list({});
    assert(first !== undefined && await store.workflows.remove(first.workflow.uuid));
    assertEquals(await create(99), { kind: "created" });
    assertEquals(await create(98), { kind: "full" });
    // A taken name is reported also when there is no room.
    assertEquals(await create(99), { kind: "uuid_taken" });
    const named = await store.workflows.create(workflowNumber(97, "sample 99"), {
      max: 4,
      uniqueName: true,
    });
    assertEquals(named, { kind: "name_taken", uuid: uuidOf<WorkflowUuid>(99) });
  });
  test("of simultaneous workflows with one uuid, one is created", async (store) => {
    const requests = Array.from(
      { length: 10 },
      (_, number) =>
        store.workflows.create(workflowOf({ name: `sample ${number}` }), { max: NO_LIMIT }),
    );
    assertEquals(kindsOf(await Promise.all(requests)), { created: 1, uuid_taken: 9 });
    assertEquals((await store.workflows.list({})).map(({ workflow }) => workflow.name), [
      "sample 0",
    ]);
  });
  test("where names must be unique, one of several simultaneous workflows gets the name", async (store) => {
    const unique = { max: NO_LIMIT, uniqueName: true };
    const outcomes = await Promise.all(
      [1, 2, 3].map((number) => store.workflows.create(workflowNumber(number, "a"), unique)),
    );
    const taken = { kind: "name_taken" as const, uuid: uuidOf<WorkflowUuid>(1) };
    assertEquals(outcomes, [{ kind: "created" }, taken, taken]);
    await store.workflows.create(workflowNumber(4, "b"), unique);
    await store.workflows.create(workflowNumber(5, "c"), unique);
    const renamed = await Promise.all(
      [4, 5].map((number) => store.workflows.replace(workflowNumber(number, "d"), unique)),
    );
    assertEquals(renamed, [
      { kind: "replaced" },
      { kind: "name_taken", uuid: uuidOf<WorkflowUuid>(4) },
    ]);
    // Its own name is no second one; where names are not unique, any is free.
    assertEquals(await store.workflows.replace(workflowNumber(4, "d"), unique), {
      kind: "replaced",
    });
    assertEquals(await store.workflows.replace(workflowNumber(5, "d")), { kind: "replaced" });
    assertEquals(await store.workflows.create(workflowNumber(6, "d"), { max: NO_LIMIT }), {
      kind: "created",
    });
    assertEquals(await store.workflows.replace(workflowNumber(9, "d"), unique), {
      kind: "not_found",
    });
  });
}

function workflowNumber(number: number, name = `sample ${number}`): Workflow {
  return workflowOf({ uuid: uuidOf<WorkflowUuid>(number), name });
}

/** The numbers that the uuids of a list end in. */
async function numbers(
  { workflows }: Store,
  filter: WorkflowFilter = {},
  page?: WorkflowPage,
): Promise<number[]> {
  const listed = await workflows.list(filter, page);
  return listed.map(({ workflow }) => Number(workflow.uuid.slice(-12)));
}
