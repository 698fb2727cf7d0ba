// The suite's part on workflows.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { WorkflowUuid } from "../../src/domain/id.ts";
import { T0, uuidOf, workflowOf } from "../support/job.ts";
import type { Test } from "./store_case.ts";

export function workflowTests(test: Test): void {
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
      await store.workflows.create(workflowOf({ uuid: uuidOf<WorkflowUuid>(number) }), T0);
    }
    const uuids = (await store.workflows.list({})).map(({ workflow }) => workflow.uuid);
    assertEquals(uuids, [3, 1, 2].map((number) => uuidOf<WorkflowUuid>(number)));
  });
  test("no more workflows are created than may be, also when they come together", async (store) => {
    const wishes = Array.from(
      { length: 10 },
      (_, number) =>
        store.workflows.create(workflowOf({ uuid: uuidOf<WorkflowUuid>(number) }), T0, 4),
    );
    assertEquals((await Promise.all(wishes)).filter((created) => created).length, 4);
    const [first] = await store.workflows.list({});
    assert(first !== undefined && await store.workflows.remove(first.workflow.uuid));
    assert(await store.workflows.create(workflowOf({ uuid: uuidOf<WorkflowUuid>(99) }), T0, 4));
    assertFalse(
      await store.workflows.create(workflowOf({ uuid: uuidOf<WorkflowUuid>(98) }), T0, 4),
    );
  });
}
