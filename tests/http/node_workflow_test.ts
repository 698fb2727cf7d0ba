// What a client of node-workflow finds behind `--compat node-workflow`, from an empty agent to an empty one:
// the statuses, codes, words and headers on which such clients rely.

import { createHash } from "node:crypto";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { isUuid, type JobUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import {
  type Answer,
  BODY,
  claimAll,
  endTask,
  type HttpAgent,
  listOf,
  newWorkflow,
  NO_UUID,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

const COMPAT = { wording: "node-workflow" } as const;

const TASK = { name: "only", timeout: 30, retry: 3, body: BODY };
const UNDO = { name: "undo", body: BODY };
const SENT = { name: "deploy", chain: [TASK], onerror: [UNDO], timeout: 180, team: "web" };

function md5Of(text: string): string {
  return createHash("md5").update(text).digest("hex");
}

/** What such a client makes an error of. */
function errorOf(answer: Answer): [status: number, code: unknown, message: unknown] {
  const { code, message } = objectOf(answer);
  return [answer.status, code, message];
}

/** Asserts the parts of an error; the message may be more than what is looked for. */
function assertError(answer: Answer, status: number, code: string, words: RegExp | string): void {
  const [found, foundCode, message] = errorOf(answer);
  assertEquals([found, foundCode], [status, code], answer.text);
  if (typeof words === "string") assertEquals(message, words);
  else assertMatch(String(message), words);
}

Deno.test("a new workflow has its uuid, its chains, their digests and what else was sent", async () => {
  await withHttpAgent(async (agent) => {
    assertEquals((await agent.call("GET", "/workflows")).body, []);
    const made = await agent.call("POST", "/workflows", SENT);
    const workflow = objectOf(made);
    assertEquals([made.status, isUuid(workflow.uuid), workflow.team], [201, true, "web"]);
    assertEquals(workflow.chain_md5, md5Of(JSON.stringify(workflow.chain)));
    assertEquals(workflow.onerror_md5, md5Of(JSON.stringify(workflow.onerror)));
    assertEquals(workflow.oncancel_md5, undefined);
    assertEquals(made.headers.get("location"), `/workflows/${workflow.uuid}`);
    assertEquals(made.headers.get("request-id"), workflow.uuid);
    const read = objectOf(await agent.call("GET", `/workflows/${workflow.uuid}`));
    assertEquals(read, { ...workflow, wf_uuid: String(workflow.uuid) });
    assertEquals((await agent.call("GET", "/workflows")).body, [made.body]);
    assertEquals((await agent.call("GET", "/workflows?name=deploy")).body, [made.body]);
    assertEquals((await agent.call("GET", "/workflows?name=other")).body, []);
  }, COMPAT);
});

Deno.test("a changed workflow has new digests, even if the old ones are sent back", async () => {
  await withHttpAgent(async (agent) => {
    const made = objectOf(await agent.call("POST", "/workflows", SENT));
    const longer = { ...made, chain: [...(made.chain as JsonObject[]), { ...TASK, name: "more" }] };
    const put = await agent.call("PUT", `/workflows/${made.uuid}`, { ...longer, oncancel: [UNDO] });
    const changed = objectOf(put);
    assertEquals([put.status, changed.uuid], [200, made.uuid]);
    assertEquals([listIn(changed, "chain").length, listIn(changed, "onerror").length], [2, 1]);
    assertEquals(changed.chain_md5, md5Of(JSON.stringify(changed.chain)));
    assertEquals(changed.oncancel_md5, md5Of(JSON.stringify(changed.oncancel)));
    assertEquals(changed.chain_md5 === made.chain_md5, false);
    assertEquals(changed.onerror_md5, made.onerror_md5);
  }, COMPAT);
});

Deno.test("without compat a workflow has no digests", async () => {
  await withHttpAgent(async (agent) => {
    const made = objectOf(await agent.call("POST", "/workflows", SENT));
    assertEquals([made.chain_md5, made.onerror_md5], [undefined, undefined]);
  });
});

function listIn(object: JsonObject, name: string): unknown[] {
  const list = object[name];
  assert(Array.isArray(list), `${name} is no list`);
  return list;
}

Deno.test("a second workflow of a name answers InvalidArgument and names Workflow.name", async () => {
  await withHttpAgent(async (agent) => {
    await newWorkflow(agent, SENT);
    const id = { "request-id": "b7c1" };
    const second = await agent.call("POST", "/workflows", SENT, id);
    assertError(second, 409, "InvalidArgument", /Workflow\.name/);
    assertEquals(second.headers.get("x-request-id"), "b7c1");
    assertEquals(second.headers.get("request-id"), "b7c1");
    assertEquals(listOf(await agent.call("GET", "/workflows")).length, 1);
  }, COMPAT);
});

Deno.test("a task without a body answers ConflictError, whichever chain it is in", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newWorkflow(agent, SENT);
    const without = { name: "only", timeout: 30 };
    const words = "Task body is required";
    for (const list of ["chain", "onerror", "oncancel"]) {
      const body = { ...SENT, [list]: [TASK, without] };
      const posted = await agent.call("POST", "/workflows", body);
      assertError(posted, 409, "ConflictError", words);
      assertError(await agent.call("PUT", `/workflows/${uuid}`, body), 409, "ConflictError", words);
      const [named] = listIn(objectOf(posted), "errors") as JsonObject[];
      assertEquals([named?.field, named?.code], [`${list}[1].body`, "Missing"]);
    }
    const empty = await agent.call("POST", "/workflows", { ...SENT, chain: [{ body: "" }] });
    assertError(empty, 409, "ConflictError", words);
    // Every other mistake is answered in the agent's words.
    const odd = await agent.call("POST", "/workflows", { ...SENT, chain: [{ body: 7 }] });
    assertError(odd, 409, "InvalidArgument", /chain\[0\]\.body must be a text/);
  }, COMPAT);
});

Deno.test("node-workflow: an absent workflow or job answers ResourceNotFound, worded for each request", async () => {
  await withHttpAgent(async (agent) => {
    const missing: [method: string, path: string, body: unknown, words: RegExp | string][] = [
      ["GET", `/workflows/${NO_UUID}`, undefined, /does not exist/],
      ["PUT", `/workflows/${NO_UUID}`, SENT, /does not exist/],
      ["DELETE", `/workflows/${NO_UUID}`, undefined, /does not exist/],
      ["GET", `/jobs/${NO_UUID}`, undefined, /does not exist/],
      ["POST", "/jobs", { workflow: NO_UUID }, new RegExp(NO_UUID)],
      ["POST", `/jobs/${NO_UUID}/cancel`, {}, /does not exist/],
      ["POST", `/jobs/${NO_UUID}/resume`, { results: "OK" }, /does not exist/],
      ["POST", `/jobs/${NO_UUID}/info`, { "10%": "a" }, "Job does not exist. Cannot Update."],
      ["GET", `/jobs/${NO_UUID}/info`, undefined, "Job does not exist. Cannot get info."],
    ];
    for (const [method, path, body, words] of missing) {
      assertError(await agent.call(method, path, body), 404, "ResourceNotFound", words);
    }
  }, COMPAT);
});

Deno.test("a list of jobs by an unknown execution answers ConflictError", async () => {
  await withHttpAgent(async (agent) => {
    assertEquals((await agent.call("GET", "/jobs")).body, []);
    assertEquals((await agent.call("GET", "/jobs?execution=queued")).body, []);
    const odd = await agent.call("GET", "/jobs?execution=asleep");
    assertError(odd, 409, "ConflictError", /execution/);
  }, COMPAT);
});

Deno.test("a job without a workflow answers ConflictError and names j.workflow", async () => {
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("POST", "/jobs", { target: "/vm/1", size: "small" });
    assertError(answer, 409, "ConflictError", /j\.workflow/);
  }, COMPAT);
});

/** A queued job, as the agent answers it. */
async function queuedJob(agent: HttpAgent, fields: JsonObject = {}): Promise<JsonObject> {
  const answer = await agent.call("POST", "/jobs", fields);
  assertEquals(answer.status, 201, answer.text);
  return objectOf(answer);
}

Deno.test("a new job is queued, with its params under their name and as fields of their own", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, SENT);
    const params = { vm_uuid: "0f5c", size: "small", uuid: "mine", name: "other" };
    const answer = await agent.call("POST", "/jobs", { workflow, target: "/vm/1", ...params });
    const job = objectOf(answer);
    assertEquals([answer.status, job.execution, job.workflow_uuid], [201, "queued", workflow]);
    assertEquals([listIn(job, "chain").length, listIn(job, "onerror").length], [1, 1]);
    assertEquals([job.chain_results, job.params, job.target], [[], params, "/vm/1"]);
    // Fields of the job itself stay what they are.
    assertEquals([job.vm_uuid, job.size, job.name], ["0f5c", "small", "deploy"]);
    assertEquals(isUuid(job.uuid), true);
    assertEquals(answer.headers.get("location"), `/jobs/${job.uuid}`);
    assertEquals(answer.headers.get("request-id"), job.uuid);
    assertEquals((await agent.call("GET", `/jobs/${job.uuid}`)).body, job);
    assertEquals((await agent.call("GET", "/jobs")).body, [job]);
  }, COMPAT);
});

Deno.test("without compat params are not fields of the job", async () => {
  await withHttpAgent(async (agent) => {
    const job = await queuedJob(agent, { workflow: await newWorkflow(agent), vm_uuid: "0f5c" });
    assertEquals([job.vm_uuid, job.params], [undefined, { vm_uuid: "0f5c" }]);
  });
});

Deno.test("an equal job answers InvalidArgument; one with other params is made", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, SENT);
    const asked = { workflow, target: "/vm/1", size: "small", tier: "a" };
    const { uuid } = await queuedJob(agent, asked);
    const words = "Another job with the same target and params is already queued";
    const equal = await agent.call("POST", "/jobs", asked);
    assertError(equal, 409, "InvalidArgument", words);
    // Which job that is stands beside it.
    assertStringIncludes(equal.text, String(uuid));
    const other = await queuedJob(agent, { ...asked, size: "large" });
    assertEquals(other.params, { size: "large", tier: "a" });
    const found = async (query: string) =>
      listOf(await agent.call("GET", `/jobs${query}`)).map((job) => job.uuid);
    assertEquals(await found(""), [other.uuid, uuid]);
    assertEquals(await found("?execution=queued"), [other.uuid, uuid]);
    assertEquals(await found("?execution=queued&tier=a"), [other.uuid, uuid]);
    assertEquals(await found("?size=large"), [other.uuid]);
    const stats = objectOf(await agent.call("GET", "/stats"));
    assertEquals(Object.keys(stats).sort(), ["all_time", "current", "past_24h", "past_hour"]);
    assertEquals((stats.current as JsonObject).queued, 2);
  }, COMPAT);
});

Deno.test("a job takes info as it is sent, and shows it", async () => {
  await withHttpAgent(async (agent) => {
    const { uuid } = await queuedJob(agent, { workflow: await newWorkflow(agent, SENT) });
    const entry = { "10%": "the first step is done" };
    const added = await agent.call("POST", `/jobs/${uuid}/info`, entry);
    assertEquals([added.status, added.text], [200, ""]);
    const read = await agent.call("GET", `/jobs/${uuid}/info`);
    assertEquals([read.status, read.body], [200, [entry]]);
  }, COMPAT);
});

Deno.test("a canceled job answers as canceled, and cannot be resumed with any body", async () => {
  await withHttpAgent(async (agent) => {
    const { uuid } = await queuedJob(agent, { workflow: await newWorkflow(agent, SENT) });
    const canceled = await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    assertEquals([canceled.status, objectOf(canceled).uuid], [200, uuid]);
    assertEquals(objectOf(canceled).execution, "canceled");
    const words = "Only waiting jobs can be resumed";
    for (const body of [{}, { result: "OK" }, { results: "OK" }]) {
      const answer = await agent.call("POST", `/jobs/${uuid}/resume`, body);
      assertError(answer, 409, "ConflictError", words);
    }
  }, COMPAT);
});

Deno.test("a waiting job is resumed with its result, and failed with an error", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { ...SENT, chain: [TASK, TASK] });
    const { uuid } = await queuedJob(agent, { workflow });
    const wait = async () => {
      await claimAll(agent);
      await endTask(agent, uuid as JobUuid, { kind: "cb_wait" });
    };
    const resume = async (body: unknown) => {
      const answer = await agent.call("POST", `/jobs/${uuid}/resume`, body);
      const { execution, chain_results } = objectOf(answer);
      const last = (chain_results as JsonObject[]).at(-1);
      return [answer.status, execution, last?.result, last?.error];
    };
    await wait();
    assertEquals(await resume({ result: "done elsewhere" }), [200, "queued", "done elsewhere", ""]);
    await wait();
    assertEquals(await resume({ error: "it broke" }), [200, "failed", "", "it broke"]);
  }, COMPAT);
});

Deno.test("a deleted workflow answers 204, and is not there any more", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newWorkflow(agent, SENT);
    const gone = await agent.call("DELETE", `/workflows/${uuid}`);
    assertEquals([gone.status, gone.text], [204, ""]);
    const again = await agent.call("DELETE", `/workflows/${uuid}`);
    assertError(again, 404, "ResourceNotFound", /does not exist/);
  }, COMPAT);
});
