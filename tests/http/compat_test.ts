// The points in which clients of node-workflow need other answers. The document's own answers are
// tested beside each route.

import { assertEquals } from "@std/assert";
import {
  assertRefused,
  fieldsOf,
  jobIn,
  listOf,
  newWorkflow,
  NO_UUID,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";
import type { JsonObject } from "../../src/domain/json.ts";

const COMPAT = { wording: "node-workflow" } as const;

Deno.test("with compat, finished jobs are called succeeded and failed", async () => {
  await withHttpAgent(async (agent) => {
    for (const execution of ["succeeded", "failed"] as const) {
      const uuid = await jobIn(agent, execution);
      assertEquals(objectOf(await agent.call("GET", `/jobs/${uuid}`)).execution, execution);
      const [listed] = listOf(await agent.call("GET", `/jobs?execution=${execution}`));
      assertEquals(listed?.execution, execution);
      // Each further workflow needs a name of its own here.
      await agent.call("DELETE", `/workflows/${listed?.workflow_uuid}`);
    }
  }, COMPAT);
});

Deno.test("with compat, PUT of a workflow answers 200 without Location", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newWorkflow(agent);
    const answer = await agent.call("PUT", `/workflows/${uuid}`, { name: "sample" });
    assertEquals([answer.status, objectOf(answer).uuid], [200, uuid]);
    assertEquals(answer.headers.get("location"), null);
  }, COMPAT);
});

Deno.test("with compat, a client may choose a workflow's uuid once", async () => {
  await withHttpAgent(async (agent) => {
    const chosen = await agent.call("POST", "/workflows", { name: "a", uuid: NO_UUID });
    assertEquals([chosen.status, objectOf(chosen).uuid], [201, NO_UUID]);
    const again = await agent.call("POST", "/workflows", { name: "b", uuid: NO_UUID });
    assertRefused(again, 409, "ConflictError");
    const odd = await agent.call("POST", "/workflows", { name: "b", uuid: "x" });
    assertEquals([odd.status, fieldsOf(odd)], [409, ["uuid"]]);
  }, COMPAT);
});

Deno.test("with compat, names of workflows are unique", async () => {
  await withHttpAgent(async (agent) => {
    await newWorkflow(agent, { name: "a" });
    const other = await newWorkflow(agent, { name: "b" });
    const second = await agent.call("POST", "/workflows", { name: "a" });
    assertRefused(second, 409, "InvalidArgument");
    assertEquals(fieldsOf(second), ["name"]);
    const renamed = await agent.call("PUT", `/workflows/${other}`, { name: "a" });
    assertRefused(renamed, 409, "InvalidArgument");
  }, COMPAT);
});

Deno.test("without tasks a job is made by the document, and refused with compat", async () => {
  const create = async (wording: "document" | "node-workflow") => {
    let status = 0;
    await withHttpAgent(async (agent) => {
      const workflow = await newWorkflow(agent, { chain: [] });
      status = (await agent.call("POST", "/jobs", { workflow })).status;
    }, { wording });
    return status;
  };
  assertEquals(await create("document"), 201);
  assertEquals(await create("node-workflow"), 409);
});

Deno.test("with compat, resume has another default result and only truthy errors fail", async () => {
  await withHttpAgent(async (agent) => {
    const cases: [JsonObject, string, unknown][] = [
      [{}, "queued", "External task: OK"],
      [{ error: "" }, "queued", "External task: OK"],
      [{ error: null, result: "x" }, "queued", "x"],
      [{ error: "boom" }, "failed", ""],
    ];
    for (const [body, execution, result] of cases) {
      const uuid = await jobIn(agent, "waiting");
      const job = objectOf(await agent.call("POST", `/jobs/${uuid}/resume`, body));
      const [entry] = job.chain_results as JsonObject[];
      assertEquals([job.execution, entry?.result], [execution, result]);
      await agent.call("POST", `/jobs/${uuid}/cancel`, {});
      await agent.call("DELETE", `/workflows/${job.workflow_uuid}`);
    }
  }, COMPAT);
});
