// The points in which clients of node-workflow need other answers. The document's own answers are
// tested beside each route.

import { assert, assertEquals } from "@std/assert";
import { isUuid } from "../../src/domain/id.ts";
import { T0 } from "../support/job.ts";
import {
  type Answer,
  assertRefused,
  BODY,
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

Deno.test("with compat, one of several simultaneous requests for a name succeeds", async () => {
  await withHttpAgent(async (agent) => {
    const post = () => agent.call("POST", "/workflows", { name: "a" });
    const made = grantedOne(await Promise.all(Array.from({ length: 12 }, post)), 201);
    assertEquals((await agent.call("GET", "/workflows")).body, [made.body]);
    const others = [];
    for (const name of ["b", "c", "d"]) others.push(await newWorkflow(agent, { name }));
    const put = (uuid: string) => agent.call("PUT", `/workflows/${uuid}`, { name: "e" });
    grantedOne(await Promise.all(others.map(put)), 200);
    assertEquals((await agent.call("GET", "/workflows?name=e")).headers.get("x-count"), "1");
  }, COMPAT);
});

/** The one answer of its status; the others refuse the name. */
function grantedOne(answers: readonly Answer[], status: number): Answer {
  const [granted, ...more] = answers.filter((answer) => answer.status === status);
  assert(granted !== undefined && more.length === 0, `${more.length + 1} of ${answers.length}`);
  for (const answer of answers.filter((answer) => answer !== granted)) {
    const { uuid } = objectOf(granted);
    const message = assertRefused(answer, 409, "InvalidArgument");
    assertEquals(
      message,
      `Cannot accept the workflow: Workflow.name must be unique, and ${uuid} has it`,
    );
    assertEquals(fieldsOf(answer), ["name"]);
  }
  return granted;
}

Deno.test("with compat, one of several simultaneous requests for a uuid succeeds", async () => {
  await withHttpAgent(async (agent) => {
    const answers = await Promise.all(
      Array.from(
        { length: 50 },
        (_, number) => agent.call("POST", "/workflows", { name: `w${number}`, uuid: NO_UUID }),
      ),
    );
    const refused = answers.filter(({ status }) => status !== 201);
    assertEquals(refused.length, 49);
    for (const answer of refused) assertRefused(answer, 409, "ConflictError");
    assertEquals(listOf(await agent.call("GET", "/workflows")).length, 1);
  }, COMPAT);
});

Deno.test("a workflow without tasks makes a job by the document, and is refused with compat", async () => {
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

Deno.test("with compat, request-id is the uuid of the resource, unless the client sent one", async () => {
  await withHttpAgent(async (agent) => {
    const made = await agent.call("POST", "/workflows", { name: "a", chain: [{ body: BODY }] });
    const workflow = String(objectOf(made).uuid);
    const job = await agent.call("POST", "/jobs", { workflow });
    const uuid = String(objectOf(job).uuid);
    const named: [Answer, string][] = [
      [made, workflow],
      [job, uuid],
      [await agent.call("GET", `/workflows/${workflow}`), workflow],
      [await agent.call("GET", `/jobs/${uuid}`), uuid],
      [await agent.call("HEAD", `/jobs/${uuid}`), uuid],
    ];
    for (const [answer, id] of named) {
      assertEquals(answer.headers.get("request-id"), id);
      const request_id = answer.headers.get("x-request-id");
      assertEquals([isUuid(request_id), request_id === id], [true, false]);
    }
    for (const header of ["request-id", "x-request-id"]) {
      const sent = await agent.call("GET", `/jobs/${uuid}`, undefined, { [header]: "mine-1" });
      assertEquals(sent.headers.get("request-id"), "mine-1");
      assertEquals(sent.headers.get("x-request-id"), "mine-1");
    }
    for (const path of ["/jobs", "/workflows", `/jobs/${uuid}/info`, `/jobs/${NO_UUID}`]) {
      assertEquals((await agent.call("GET", path)).headers.get("request-id"), null);
    }
  }, COMPAT);
  await withHttpAgent(async (agent) => {
    const made = await agent.call("POST", "/workflows", { name: "a" }, { "request-id": "mine-1" });
    assertEquals(made.headers.get("request-id"), null);
    assertEquals(made.headers.get("x-request-id"), "mine-1");
  });
});

Deno.test("with compat, jobs are found by any of their params, as older clients ask", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const vm_uuid = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
    const job = await agent.call("POST", "/jobs", { workflow, vm_uuid, task: "provision" });
    await agent.call("POST", "/jobs", { workflow, vm_uuid, task: "destroy" });
    const query = `vm_uuid=${vm_uuid}&task=provision&execution=queued&since=${Date.parse(T0)}`;
    const found = await agent.call("GET", `/jobs?${query}`);
    assertEquals(listOf(found).map(({ uuid }) => uuid), [objectOf(job).uuid]);
    assertEquals(found.headers.get("x-count"), "1");
  }, COMPAT);
});
