// The table of endpoints of document 2, row by row, over HTTP.

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import {
  assertRefused,
  fieldsOf,
  listOf,
  newJob,
  newWorkflow,
  NO_UUID,
  objectOf,
} from "./http_agent.ts";
import { FAIL, OK, type Row, type RunningAgent, testRows, WAIT } from "./running_agent.ts";

const TASK = { name: "first", body: OK, retry: 1, timeout: 30 };
const FALLBACK = { name: "undo", body: OK, fallback: "function (err, job, cb) { cb(); }" };
const WORKFLOW = { name: "sample", chain: [TASK], onerror: [FALLBACK], timeout: 60 };

/** Tasks as they were sent, without the uuids that were made for them. */
function sent(tasks: unknown): JsonObject[] {
  return (tasks as JsonObject[]).map(({ uuid: _, ...task }) => task);
}

async function refuses(
  agent: RunningAgent,
  method: string,
  path: string,
  cases: readonly (readonly [body: unknown, field: string])[],
): Promise<void> {
  for (const [body, field] of cases) {
    const answer = await agent.call(method, path, body);
    assertRefused(answer, 409, "InvalidArgument");
    assertEquals([body, fieldsOf(answer)[0]], [body, field]);
  }
}

async function notAllowed(agent: RunningAgent, method: string, path: string): Promise<void> {
  const uuid = await newJob(agent);
  const before = await agent.jobWhen(uuid, "success");
  for (const body of [undefined, {}]) {
    const answer = await agent.call(method, path.replace(":job_uuid", uuid), body);
    assertRefused(answer, 405, "MethodNotAllowedError");
  }
  assertEquals((await agent.call("GET", `/jobs/${uuid}`)).body, before);
}

const WORKFLOWS: readonly Row[] = [
  ["GET /workflows: 200, array of Workflow, empty when none", async (agent) => {
    const none = await agent.call("GET", "/workflows");
    assertEquals([none.status, none.body], [200, []]);
    const made = objectOf(await agent.call("POST", "/workflows", WORKFLOW));
    assertEquals((await agent.call("GET", "/workflows")).body, [made]);
  }],
  [
    "POST /workflows: 201, Workflow, Location holding the new uuid; 409 says which",
    async (agent) => {
      const answer = await agent.call("POST", "/workflows", WORKFLOW);
      const { uuid, chain, onerror, ...fields } = objectOf(answer);
      assertEquals(answer.status, 201);
      assertEquals(answer.headers.get("location"), `/workflows/${uuid}`);
      assertEquals(fields, { name: "sample", timeout: 60 });
      assertEquals([sent(chain), sent(onerror)], [[TASK], [FALLBACK]]);
      const least = await agent.call("POST", "/workflows", { name: "least" });
      assertEquals([least.status, objectOf(least).chain], [201, []]);
      const listed = { name: "lists", "chain[]": [TASK], "onerror[]": [FALLBACK] };
      const lists = objectOf(await agent.call("POST", "/workflows", listed));
      assertEquals([sent(lists.chain), sent(lists.onerror)], [[TASK], [FALLBACK]]);
      await refuses(agent, "POST", "/workflows", [
        [{}, "name"],
        [{ name: 7 }, "name"],
        [{ name: "x", chain: {} }, "chain"],
        [{ name: "x", chain: [{ name: "y" }] }, "chain[0].body"],
        [{ name: "x", chain: [{ body: "not a function" }] }, "chain[0].body"],
        [{ name: "x", onerror: [{ body: 1 }] }, "onerror[0].body"],
        [{ name: "x", timeout: "soon" }, "timeout"],
      ]);
    },
  ],
  [
    "GET /workflows/:wf_uuid: 200, Workflow plus wf_uuid; 404, also when destroyed",
    async (agent) => {
      const made = objectOf(await agent.call("POST", "/workflows", WORKFLOW));
      const path = `/workflows/${made.uuid}`;
      const answer = await agent.call("GET", path);
      assertEquals([answer.status, answer.body], [200, { ...made, wf_uuid: made.uuid }]);
      await agent.call("DELETE", path);
      for (const gone of [path, `/workflows/${NO_UUID}`, "/workflows/x"]) {
        assertRefused(await agent.call("GET", gone), 404, "ResourceNotFound");
      }
    },
  ],
  ["PUT /workflows/:wf_uuid: as POST, 201 and Location; 404 when not found", async (agent) => {
    const uuid = await newWorkflow(agent);
    const path = `/workflows/${uuid}`;
    const answer = await agent.call("PUT", path, WORKFLOW);
    assertEquals([answer.status, objectOf(answer).uuid], [201, uuid]);
    assertEquals(answer.headers.get("location"), path);
    const read = objectOf(await agent.call("GET", path));
    assertEquals([read.name, read.timeout, sent(read.chain)], ["sample", 60, [TASK]]);
    await refuses(agent, "PUT", path, [[{}, "name"], [{ name: "x", chain: 1 }, "chain"]]);
    assertEquals(objectOf(await agent.call("GET", path)), read);
    const nowhere = await agent.call("PUT", `/workflows/${NO_UUID}`, WORKFLOW);
    assertRefused(nowhere, 404, "ResourceNotFound");
  }],
  ["DELETE /workflows/:wf_uuid: 204; its jobs go on", async (agent) => {
    const workflow = await newWorkflow(agent, { chain: [{ body: WAIT }, { body: OK }] });
    const uuid = await newJob(agent, { workflow });
    await agent.jobWhen(uuid, "waiting");
    const answer = await agent.call("DELETE", `/workflows/${workflow}`);
    assertEquals([answer.status, answer.text], [204, ""]);
    const again = await agent.call("DELETE", `/workflows/${workflow}`);
    assertRefused(again, 404, "ResourceNotFound");
    await agent.call("POST", `/jobs/${uuid}/resume`, {});
    await agent.jobWhen(uuid, "success");
  }],
];

const JOBS: readonly Row[] = [
  ["GET /jobs: 200, array of Job, empty allowed; all without execution", async (agent) => {
    const none = await agent.call("GET", "/jobs");
    assertEquals([none.status, none.body], [200, []]);
    const [ok, bad] = [await agent.run([OK]), await agent.run([FAIL])];
    const jobs = [await agent.jobWhen(bad, "failure"), await agent.jobWhen(ok, "success")];
    assertEquals((await agent.call("GET", "/jobs")).body, jobs);
    assertEquals((await agent.call("GET", "/jobs?execution=failed")).body, [jobs[0]]);
    assertEquals((await agent.call("GET", "/jobs?execution=succeeded")).body, [jobs[1]]);
    for (const word of ["running", "canceled", "queued"]) {
      assertEquals((await agent.call("GET", `/jobs?execution=${word}`)).body, []);
    }
    assertRefused(await agent.call("GET", "/jobs?execution=x"), 409, "InvalidArgument");
  }],
  [
    "POST /jobs: 201, Job, Location holding the new uuid; further keys are params",
    async (agent) => {
      const workflow = await newWorkflow(agent);
      const exec_after = "2026-01-31T18:30:00Z";
      const request = { workflow, exec_after, target: "/vm/1", ram: 512, nested: { a: [1] } };
      const answer = await agent.call("POST", "/jobs", request);
      const job = objectOf(answer);
      assertEquals([answer.status, job.execution], [201, "queued"]);
      assertEquals(answer.headers.get("location"), `/jobs/${job.uuid}`);
      assertEquals(job.params, { ram: 512, nested: { a: [1] } });
      assertEquals([job.target, job.exec_after], ["/vm/1", "2026-01-31T18:30:00.000Z"]);
      await refuses(agent, "POST", "/jobs", [
        [{}, "workflow"],
        [{ workflow: "sample" }, "workflow"],
        [{ workflow, exec_after: "soon" }, "exec_after"],
        [{ workflow, target: 7 }, "target"],
      ]);
    },
  ],
  ["GET /jobs/:job_uuid: 200, Job; 404, also for removed jobs", async (agent) => {
    const uuid = await agent.run([OK]);
    const job = await agent.jobWhen(uuid, "success");
    assertEquals(job.uuid, uuid);
    await agent.store.jobs.prune({ age_ms: null, finished_max: 0, limit: 10 });
    for (const gone of [uuid, NO_UUID, "x"]) {
      assertRefused(await agent.call("GET", `/jobs/${gone}`), 404, "ResourceNotFound");
    }
  }],
  ["PUT /jobs/:job_uuid: 405", (agent) => notAllowed(agent, "PUT", "/jobs/:job_uuid")],
  ["DELETE /jobs/:job_uuid: 405", (agent) => notAllowed(agent, "DELETE", "/jobs/:job_uuid")],
  ["POST /jobs/:job_uuid/cancel: 200, Job; 404; 409 already finalized", async (agent) => {
    const uuid = await agent.run([WAIT]);
    await agent.jobWhen(uuid, "waiting");
    const path = `/jobs/${uuid}/cancel`;
    const answer = await agent.call("POST", path, {});
    assertEquals([answer.status, objectOf(answer).uuid], [200, uuid]);
    assertEquals((await agent.call("GET", `/jobs/${uuid}`)).body, answer.body);
    assertRefused(await agent.call("POST", path, {}), 409, "ConflictError");
    const nowhere = await agent.call("POST", `/jobs/${NO_UUID}/cancel`, {});
    assertRefused(nowhere, 404, "ResourceNotFound");
  }],
  ["POST /jobs/:job_uuid/resume: 200, Job; 404; 409 not waiting", async (agent) => {
    const uuid = await agent.run([WAIT]);
    await agent.jobWhen(uuid, "waiting");
    const path = `/jobs/${uuid}/resume`;
    const answer = await agent.call("POST", path, { result: "done" });
    assertEquals([answer.status, objectOf(answer).uuid], [200, uuid]);
    await agent.jobWhen(uuid, "success");
    assertRefused(await agent.call("POST", path, {}), 409, "ConflictError");
    const nowhere = await agent.call("POST", `/jobs/${NO_UUID}/resume`, {});
    assertRefused(nowhere, 404, "ResourceNotFound");
  }],
];

const INFO_AND_STATS: readonly Row[] = [
  ["GET /jobs/:job_uuid/info: 200, array of progress objects; 404", async (agent) => {
    const path = `/jobs/${await newJob(agent)}/info`;
    const none = await agent.call("GET", path);
    assertEquals([none.status, none.body], [200, []]);
    for (const n of [1, 2]) await agent.call("POST", path, { message: { n } });
    assertEquals((await agent.call("GET", path)).body, [{ n: 1 }, { n: 2 }]);
    const nowhere = await agent.call("GET", `/jobs/${NO_UUID}/info`);
    assertRefused(nowhere, 404, "ResourceNotFound");
  }],
  ["POST /jobs/:job_uuid/info: empty body, each appends one member; 404", async (agent) => {
    const path = `/jobs/${await newJob(agent)}/info`;
    const answer = await agent.call("POST", path, { message: { "10%": "begun", step: [1] } });
    assertEquals([answer.status, answer.text], [200, ""]);
    assertEquals((await agent.call("GET", path)).body, [{ "10%": "begun", step: [1] }]);
    await refuses(agent, "POST", path, [[{}, "message"], [{ message: {} }, "message"]]);
    const nowhere = await agent.call("POST", `/jobs/${NO_UUID}/info`, { message: { n: 1 } });
    assertRefused(nowhere, 404, "ResourceNotFound");
  }],
  ["PUT /jobs/:job_uuid/info: 405", (agent) => notAllowed(agent, "PUT", "/jobs/:job_uuid/info")],
  [
    "DELETE /jobs/:job_uuid/info: 405",
    (agent) => notAllowed(agent, "DELETE", "/jobs/:job_uuid/info"),
  ],
  ["GET /stats: 200, Stats; counters may all be zero", async (agent) => {
    const zeros = { queued: 0, failed: 0, succeeded: 0, canceled: 0, running: 0, retried: 0 };
    const none = { ...zeros, waiting: 0 };
    const answer = await agent.call("GET", "/stats");
    assertEquals(answer.status, 200);
    const windows = { all_time: none, past_24h: none, past_hour: none, current: none };
    assertEquals(answer.body, windows);
    const [ok, bad, waits] = [
      await agent.run([OK]),
      await agent.run([FAIL]),
      await agent.run([WAIT]),
    ];
    await agent.jobWhen(ok, "success");
    await agent.jobWhen(bad, "failure");
    await agent.jobWhen(waits, "waiting");
    const counted = { ...none, succeeded: 1, failed: 1, waiting: 1 };
    assertEquals((await agent.call("GET", "/stats")).body, { ...windows, current: counted });
  }],
];

const ERRORS: readonly Row[] = [
  ["404: workflow or job uuid not found, never 410", async (agent) => {
    const calls: [string, string, unknown?][] = [
      ["GET", `/workflows/${NO_UUID}`],
      ["PUT", `/workflows/${NO_UUID}`, { name: "x" }],
      ["DELETE", `/workflows/${NO_UUID}`],
      ["GET", `/jobs/${NO_UUID}`],
      ["POST", `/jobs/${NO_UUID}/cancel`, {}],
      ["POST", `/jobs/${NO_UUID}/resume`, {}],
      ["GET", `/jobs/${NO_UUID}/info`],
      ["POST", `/jobs/${NO_UUID}/info`, { message: { n: 1 } }],
      ["POST", "/jobs", { workflow: NO_UUID }],
    ];
    for (const [method, path, body] of calls) {
      assertRefused(await agent.call(method, path, body), 404, "ResourceNotFound");
    }
  }],
  ["405: PUT or DELETE on /jobs/:job_uuid and its info, also of no job", async (agent) => {
    for (const path of [`/jobs/${NO_UUID}`, `/jobs/${NO_UUID}/info`, "/jobs"]) {
      for (const method of ["PUT", "DELETE"]) {
        assertRefused(await agent.call(method, path), 405, "MethodNotAllowedError");
      }
    }
  }],
  [
    "409: an incorrect parameter is named; cancel of a finalized job; resume of one that does not wait",
    async (agent) => {
      await refuses(agent, "POST", "/workflows", [[{ chain: [] }, "name"]]);
      await refuses(agent, "POST", "/jobs", [[{ target: "/a" }, "workflow"]]);
      const uuid = await agent.run([OK]);
      await agent.jobWhen(uuid, "success");
      for (const verb of ["cancel", "resume"]) {
        const answer = await agent.call("POST", `/jobs/${uuid}/${verb}`, {});
        assertRefused(answer, 409, "ConflictError");
      }
    },
  ],
  ["only JSON is spoken, and every POST and PUT needs its content type", async (agent) => {
    const uuid = await newWorkflow(agent);
    const text = { "content-type": "text/plain" };
    const paths = [["POST", "/workflows"], ["PUT", `/workflows/${uuid}`], [
      "POST",
      "/jobs",
    ]] as const;
    for (const [method, path] of paths) {
      const answer = await agent.call(method, path, '{"name":"x"}', text);
      assertRefused(answer, 415, "UnsupportedMediaType");
    }
    assertRefused(await agent.call("POST", "/workflows", "{"), 400, "InvalidContent");
    assertEquals(listOf(await agent.call("GET", "/workflows")).length, 1);
  }],
];

testRows("document 2: the endpoints of workflows answer as described", WORKFLOWS);
testRows("document 2: the endpoints of jobs answer as described", JOBS);
testRows("document 2: the endpoints of info and stats answer as described", INFO_AND_STATS);
testRows("document 2: an error has its status, code and message", ERRORS);
