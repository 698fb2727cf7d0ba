import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { isUuid } from "../../src/domain/id.ts";
import {
  assertRefused,
  BODY,
  fieldsOf,
  listOf,
  newJob,
  newWorkflow,
  NO_UUID,
  objectOf,
  PROVISION,
  withHttpAgent,
} from "./http_agent.ts";
import { uuidOf, workflowOf } from "../support/job.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { Workflow } from "../../src/domain/job/workflow.ts";
import { createApp } from "../../src/http/app.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { WorkflowStore } from "../../src/store/store.ts";
import { NO_LIMIT } from "../support/limits.ts";

Deno.test("GET /workflows answers an empty array when there is none", async () => {
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("GET", "/workflows");
    assertEquals([answer.status, answer.body], [200, []]);
  });
});

Deno.test("POST /workflows answers 201 with the workflow and its Location", async () => {
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("POST", "/workflows", {
      name: "sample",
      chain: [{ name: "first", body: BODY, fallback: "(err, job, cb) => cb()", retry: 2 }],
      onerror: [{ body: "async (job, cb) => cb()" }],
      timeout: 60,
    });
    assertEquals(answer.status, 201);
    const workflow = objectOf(answer);
    assertEquals(isUuid(workflow.uuid), true);
    assertEquals(answer.headers.get("location"), `/workflows/${workflow.uuid}`);
    assertEquals([workflow.name, workflow.timeout], ["sample", 60]);
    const [task] = workflow.chain as { uuid: string }[];
    assertEquals(isUuid(task?.uuid), true);
    assertEquals((await agent.call("GET", "/workflows")).body, [workflow]);
  });
});

Deno.test("POST /workflows needs nothing but a name", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = objectOf(await agent.call("POST", "/workflows", { name: "bare" }));
    assertEquals(workflow, { name: "bare", uuid: workflow.uuid ?? "", chain: [], onerror: [] });
  });
});

Deno.test("POST /workflows returns tasks with their keys as sent and a uuid", async () => {
  await withHttpAgent(async (agent) => {
    const task = { timeout: 5, body: BODY, note: { b: 1, a: [2] }, name: "first" };
    const workflow = objectOf(await agent.call("POST", "/workflows", { name: "x", chain: [task] }));
    const [stored] = workflow.chain as { uuid: string }[];
    assertEquals(JSON.stringify(stored), JSON.stringify({ ...task, uuid: stored?.uuid }));
  });
});

Deno.test("POST /workflows takes the lists under the names chain[] and onerror[] too", async () => {
  await withHttpAgent(async (agent) => {
    const sent = { name: "x", "chain[]": [{ body: BODY }], "onerror[]": [{ body: BODY }] };
    const workflow = objectOf(await agent.call("POST", "/workflows", sent));
    assertEquals((workflow.chain as unknown[]).length, 1);
    assertEquals((workflow.onerror as unknown[]).length, 1);
    assertEquals(Object.hasOwn(workflow, "chain[]"), false);
  });
});

Deno.test("POST /workflows generates the uuid whatever the body says", async () => {
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("POST", "/workflows", { name: "x", uuid: NO_UUID });
    assertEquals(objectOf(answer).uuid === NO_UUID, false);
  });
});

const INCORRECT: readonly [unknown, string][] = [
  [{}, "name"],
  ["", "name"],
  [[], "body"],
  ["null", "body"],
  [{ name: "" }, "name"],
  [{ name: 7 }, "name"],
  [{ name: null }, "name"],
  [{ name: "a\u0000b" }, "name"],
  ['{"name": "\\ud800"}', "name"],
  [{ name: "n".repeat(256) }, "name"],
  [{ name: "x", chain: {} }, "chain"],
  [{ name: "x", chain: ["text"] }, "chain[0]"],
  [{ name: "x", chain: [{}] }, "chain[0].body"],
  [{ name: "x", chain: [{ body: 1 }] }, "chain[0].body"],
  [{ name: "x", chain: [{ body: BODY }, { body: "not a function" }] }, "chain[1].body"],
  [{ name: "x", chain: [{ body: BODY, name: 1 }] }, "chain[0].name"],
  [{ name: "x", chain: [{ body: BODY, fallback: "1" }] }, "chain[0].fallback"],
  [{ name: "x", chain: [{ body: BODY, retry: -1 }] }, "chain[0].retry"],
  [{ name: "x", chain: [{ body: BODY, retry: "2" }] }, "chain[0].retry"],
  [{ name: "x", chain: [{ body: BODY, timeout: 0 }] }, "chain[0].timeout"],
  [{ name: "x", chain: [{ body: BODY, timeout: 1.5 }] }, "chain[0].timeout"],
  [{ name: "x", chain: [{ body: BODY, modules: {} }] }, "chain[0].modules"],
  [{ name: "x", onerror: [{ body: "{" }] }, "onerror[0].body"],
  [{ name: "x", timeout: "60" }, "timeout"],
  [{ name: "x", timeout: -1 }, "timeout"],
];

Deno.test("POST and PUT /workflows answer 409 naming the incorrect parameter", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newWorkflow(agent);
    for (const [body, field] of INCORRECT) {
      const posted = await agent.call("POST", "/workflows", body);
      assertStringIncludes(
        assertRefused(posted, 409, "InvalidArgument"),
        field.split(".")[0] ?? "",
      );
      assertEquals(fieldsOf(posted), [field]);
      const put = await agent.call("PUT", `/workflows/${uuid}`, body);
      assertRefused(put, 409, "InvalidArgument");
      assertEquals(fieldsOf(put), [field]);
    }
    assertEquals(listOf(await agent.call("GET", "/workflows")).length, 1);
  });
});

Deno.test("POST /workflows names every incorrect parameter at once", async () => {
  await withHttpAgent(async (agent) => {
    const chain = [{ body: "1" }, { retry: -1 }];
    const answer = await agent.call("POST", "/workflows", { chain, timeout: 0 });
    assertEquals(fieldsOf(answer), [
      "name",
      "chain[1].body",
      "chain[1].retry",
      "timeout",
      // Sources are read last, where they do no harm.
      "chain[0].body",
    ]);
  });
});

Deno.test("POST /agent/v1/workflows/validate refuses as POST /workflows does, and keeps nothing", async () => {
  await withHttpAgent(async (agent) => {
    const check = (body: JsonObject) => agent.call("POST", "/agent/v1/workflows/validate", body);
    const valid = await check({ name: "sample", chain: [{ body: BODY }, { body: BODY }] });
    assertEquals([valid.status, valid.body], [200, { valid: true, name: "sample", tasks: 2 }]);
    const wrong = { chain: [{ body: "1" }, { retry: -1 }], timeout: 0 };
    const refused = await check(wrong);
    assertEquals(refused.status, 409);
    assertEquals(fieldsOf(refused), fieldsOf(await agent.call("POST", "/workflows", wrong)));
    assertEquals((await agent.call("GET", "/workflows")).body, []);
  });
});

Deno.test("GET /workflows/:wf_uuid answers the workflow plus wf_uuid", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newWorkflow(agent);
    const [listed] = listOf(await agent.call("GET", "/workflows"));
    const answer = await agent.call("GET", `/workflows/${uuid}`);
    assertEquals(answer.status, 200);
    assertEquals(answer.body, { ...listed, wf_uuid: uuid });
    const upper = await agent.call("GET", `/workflows/${uuid.toUpperCase()}`);
    assertEquals(upper.body, answer.body);
  });
});

Deno.test("GET, PUT and DELETE of a workflow that is not there answer 404, never 410", async () => {
  await withHttpAgent(async (agent) => {
    const destroyed = await newWorkflow(agent);
    assertEquals((await agent.call("DELETE", `/workflows/${destroyed}`)).status, 204);
    for (const id of [destroyed, NO_UUID, "workflow-check", "..%2f..", "%ff", "%00"]) {
      const path = `/workflows/${id}`;
      assertRefused(await agent.call("GET", path), 404, "ResourceNotFound");
      assertRefused(await agent.call("PUT", path, { name: "x" }), 404, "ResourceNotFound");
      assertRefused(await agent.call("DELETE", path), 404, "ResourceNotFound");
    }
  });
});

Deno.test("PUT /workflows/:wf_uuid replaces the workflow and answers as POST does", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newWorkflow(agent, { timeout: 60 });
    const answer = await agent.call("PUT", `/workflows/${uuid}`, { name: "other", uuid: NO_UUID });
    assertEquals(answer.status, 201);
    assertEquals(answer.headers.get("location"), `/workflows/${uuid}`);
    assertEquals(answer.body, { name: "other", uuid, chain: [], onerror: [] });
    assertEquals((await agent.call("GET", "/workflows")).body, [answer.body]);
  });
});

Deno.test("PUT of a workflow as GET answered it changes nothing", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newWorkflow(agent);
    const read = await agent.call("GET", `/workflows/${uuid}`);
    assertEquals((await agent.call("PUT", `/workflows/${uuid}`, read.body)).status, 201);
    assertEquals((await agent.call("GET", `/workflows/${uuid}`)).body, read.body);
    assertEquals(listOf(await agent.call("GET", "/workflows"))[0]?.wf_uuid, undefined);
  });
});

Deno.test("DELETE /workflows/:wf_uuid answers 204 without a body and leaves jobs alone", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const job = await newJob(agent, { workflow });
    const answer = await agent.call("DELETE", `/workflows/${workflow}`);
    assertEquals([answer.status, answer.text], [204, ""]);
    assertEquals((await agent.call("GET", "/workflows")).body, []);
    const kept = objectOf(await agent.call("GET", `/jobs/${job}`));
    assertEquals([kept.workflow_uuid, (kept.chain as unknown[]).length], [workflow, 1]);
  });
});

Deno.test("GET /workflows filters by name and uuid, pages, and refuses unknown filters", async () => {
  await withHttpAgent(async (agent) => {
    for (const name of ["a", "b", "b", "c"]) await newWorkflow(agent, { name });
    const names = async (query: string) =>
      listOf(await agent.call("GET", `/workflows${query}`)).map(({ name }) => name);
    assertEquals(await names(""), ["a", "b", "b", "c"]);
    assertEquals(await names("?name=b"), ["b", "b"]);
    assertEquals(await names("?name=z"), []);
    const [first] = listOf(await agent.call("GET", "/workflows"));
    const beginning = String(first?.uuid).slice(0, 13);
    assertEquals(await names(`?uuid=${beginning.toUpperCase()}`), ["a"]);
    assertEquals(await names(`?uuid=${beginning}&name=b`), []);
    assertRefused(await agent.call("GET", "/workflows?uuid=abc"), 409, "InvalidArgument");
    assertEquals(await names("?limit=2&offset=1"), ["b", "b"]);
    assertEquals(await names("?name=b&offset=1"), ["b"]);
    assertEquals(await names("?offset=4"), []);
    const counts = ["", "?limit=1", "?offset=9", "?name=b&limit=1", "?name=z"].map(
      async (query) => (await agent.call("GET", `/workflows${query}`)).headers.get("x-count"),
    );
    assertEquals(await Promise.all(counts), ["4", "4", "4", "2", "0"]);
    const refused = await agent.call("GET", "/workflows?nmae=b");
    assertRefused(refused, 409, "InvalidArgument");
    assertEquals(fieldsOf(refused), ["nmae"]);
  });
});

Deno.test("GET /workflows answers a list of many pages in the order of creation", async () => {
  await withHttpAgent(async (agent) => {
    const names = Array.from({ length: 90 }, (_, number) => `w${number}`);
    for (const [number, name] of names.entries()) {
      await agent.store.workflows.create(workflowOf({ uuid: uuidOf(number), name }), {
        max: NO_LIMIT,
      });
    }
    const listed = async (query: string) =>
      listOf(await agent.call("GET", `/workflows${query}`)).map(({ name }) => name);
    assertEquals(await listed(""), names);
    assertEquals(await listed("?offset=3"), names.slice(3));
    assertEquals(await listed("?limit=41&offset=7"), names.slice(7, 48));
    assertEquals(await listed("?limit=50&offset=70"), names.slice(70));
  });
});

Deno.test("GET /workflows reads no more workflows than it is about to write", async () => {
  const store = await openSqliteStore(":memory:");
  const reads: number[] = [];
  const texts: WorkflowStore["texts"] = async (filter, page) => {
    const listed = await store.workflows.texts(filter, page);
    reads.push(listed.entries);
    return listed;
  };
  const note = "ü".repeat(500_000);
  const sent = Array.from({ length: 30 }, (_, n) => ({ ...workflowOf({ uuid: uuidOf(n) }), note }));
  for (const workflow of sent) await store.workflows.create(workflow, { max: NO_LIMIT });
  await withHttpAgent(async ({ context }) => {
    // The application without a socket: what it reads is what is taken here.
    const request = new Request("http://localhost/workflows", { headers: { host: "localhost" } });
    const answer = await createApp(context).fetch(request, {});
    assertEquals([answer.status, answer.headers.get("x-count")], [200, "30"]);
    assert(answer.body !== null);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    assertEquals(reads.length, 1);
    const text = [(await reader.read()).value];
    assert(reads.length <= 2, `${reads.length} pages were read for one`);
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text.push(part.value);
    }
    assertEquals(text.join(""), JSON.stringify(sent));
    assert(Math.max(...reads) <= 4, `${Math.max(...reads)} workflows were read at a time`);
    assertEquals(reads.reduce((sum, read) => sum + read), 30);
  }, { store: { ...store, workflows: { ...store.workflows, texts } } });
  await store.close();
});

Deno.test("a built-in workflow can be read and is listed on request, never changed", async () => {
  await withHttpAgent(async (agent) => {
    const builtin: Workflow = {
      uuid: PROVISION,
      name: "provision-machine",
      chain: [],
      onerror: [],
    };
    await agent.store.workflows.putBuiltin(builtin);
    assertEquals((await agent.call("GET", "/workflows")).body, []);
    for (const query of ["?builtin=true", "?name=provision-machine", "?builtin=true&limit=1"]) {
      assertEquals((await agent.call("GET", `/workflows${query}`)).body, [builtin]);
    }
    assertRefused(await agent.call("GET", "/workflows?builtin=1"), 409, "InvalidArgument");
    const path = `/workflows/${PROVISION}`;
    assertEquals((await agent.call("GET", path)).status, 200);
    const put = await agent.call("PUT", path, { name: "x" });
    assertMatch(assertRefused(put, 409, "ConflictError"), /part of the agent/);
    assertRefused(await agent.call("DELETE", path), 409, "ConflictError");
    assertEquals((await agent.call("GET", path)).status, 200);
  });
});
