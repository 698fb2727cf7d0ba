import { assertEquals, assertStringIncludes } from "@std/assert";
import { isUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { createApp } from "../../src/http/app.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { T0 } from "../support/job.ts";
import {
  assertRefused,
  claimAll,
  endTask,
  fieldsOf,
  holdOf,
  type HttpAgent,
  jobIn,
  JSON_TYPE,
  listOf,
  newJob,
  newWorkflow,
  NO_UUID,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

Deno.test("GET /jobs returns an empty array when there are no jobs", async () => {
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("GET", "/jobs");
    assertEquals([answer.status, answer.body], [200, []]);
  });
});

Deno.test("POST /jobs is answered with 201, a queued job and its Location, and wakes the runner", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { name: "sample", timeout: 90 });
    const answer = await agent.call("POST", "/jobs", {
      workflow,
      target: "/vm/1",
      exec_after: "2026-01-31T18:30:00+02:00",
      ram: 512,
      nested: { a: [1] },
    });
    assertEquals(answer.status, 201);
    const job = objectOf(answer);
    assertEquals(isUuid(job.uuid), true);
    assertEquals(answer.headers.get("location"), `/jobs/${job.uuid}`);
    const { uuid: _uuid, chain, ...fields } = job;
    assertEquals(fields, {
      workflow_uuid: workflow,
      name: "sample",
      execution: "queued",
      onerror: [],
      timeout: 90,
      exec_after: "2026-01-31T16:30:00.000Z",
      target: "/vm/1",
      params: { ram: 512, nested: { a: [1] } },
      chain_results: [],
      onerror_results: [],
      created_at: T0,
      elapsed: 0,
      reason: "scheduled",
      next_run_at: "2026-01-31T16:30:00.000Z",
    });
    assertEquals((chain as JsonObject[]).map(({ name }) => name), ["first"]);
    assertEquals(agent.hints, ["queued"]);
    assertEquals((await agent.call("GET", `/jobs/${job.uuid}`)).body, job);
  });
});

Deno.test("POST /jobs calls the store once, whatever the outcome", async () => {
  await withHttpAgent(async ({ context, store, call }) => {
    const workflow = await newWorkflow({ call } as HttpAgent);
    const calls: string[] = [];
    const counted = <Part extends object>(part: Part) =>
      new Proxy(part, {
        get: (methods, name) => {
          calls.push(String(name));
          return Reflect.get(methods, name);
        },
      });
    const { jobs, workflows } = store;
    const app = createApp({
      ...context,
      store: { ...store, jobs: counted(jobs), workflows: counted(workflows) },
    });
    const post = async (body: JsonObject, key: string) => {
      calls.length = 0;
      const headers = { ...JSON_TYPE, host: "localhost", "idempotency-key": key };
      const init = { method: "POST", headers, body: JSON.stringify(body) };
      const answer = await app.fetch(new Request("http://localhost/jobs", init), {});
      await answer.body?.cancel();
      return [answer.status, ...calls];
    };
    const job = { workflow, target: "/a" };
    assertEquals(await post(job, "a"), [201, "order"]);
    assertEquals(await post(job, "a"), [201, "order"]);
    assertEquals(await post({ workflow }, "a"), [409, "order"]);
    assertEquals(await post(job, "b"), [409, "order"]);
    assertEquals(await post({ workflow: NO_UUID }, "c"), [404, "order"]);
  });
});

Deno.test("POST /jobs without exec_after creates a job that is due now", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    assertEquals(objectOf(await agent.call("GET", `/jobs/${uuid}`)).exec_after, T0);
  });
});

Deno.test("POST /jobs turns every other key into a param, even names of job fields", async () => {
  await withHttpAgent(async (agent) => {
    const params = { uuid: NO_UUID, execution: "succeeded", chain: [], num_attempts: 3, name: "x" };
    const uuid = await newJob(agent, params);
    const job = objectOf(await agent.call("GET", `/jobs/${uuid}`));
    assertEquals(job.params, params);
    assertEquals([job.uuid === NO_UUID, job.execution, job.name], [false, "queued", "sample"]);
  });
});

Deno.test("POST /jobs is answered with 409 naming a missing or incorrect parameter", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const cases: [unknown, string][] = [
      [{}, "workflow"],
      ["", "workflow"],
      [[], "body"],
      [{ workflow: "sample" }, "workflow"],
      [{ workflow: 7 }, "workflow"],
      [{ workflow, exec_after: "soon" }, "exec_after"],
      [{ workflow, exec_after: "2026-02-31T00:00:00Z" }, "exec_after"],
      [{ workflow, exec_after: "2026-01-31T18:30:00" }, "exec_after"],
      [{ workflow, exec_after: 1769884200000 }, "exec_after"],
      [{ workflow, target: 7 }, "target"],
      [{ workflow, target: "" }, "target"],
      [{ workflow, target: "a\u0000b" }, "target"],
      [{ workflow, target: "t".repeat(1025) }, "target"],
    ];
    for (const [body, field] of cases) {
      const answer = await agent.call("POST", "/jobs", body);
      assertStringIncludes(assertRefused(answer, 409, "InvalidArgument"), field);
      assertEquals(fieldsOf(answer), [field]);
    }
    assertEquals((await agent.call("GET", "/jobs")).body, []);
    assertEquals(agent.hints, []);
  });
});

Deno.test("POST /jobs is answered with 404 for an unknown or deleted workflow", async () => {
  await withHttpAgent(async (agent) => {
    const destroyed = await newWorkflow(agent);
    await agent.call("DELETE", `/workflows/${destroyed}`);
    for (const workflow of [destroyed, NO_UUID]) {
      const answer = await agent.call("POST", "/jobs", { workflow });
      assertStringIncludes(assertRefused(answer, 404, "ResourceNotFound"), workflow);
    }
  });
});

Deno.test("POST /jobs is answered with 413 for params over their limit", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const answer = await agent.call("POST", "/jobs", { workflow, text: "x".repeat(100) });
    assertRefused(answer, 413, "RequestEntityTooLarge");
  }, { limits: { ...DEFAULT_HTTP_LIMITS, paramsCharsMax: 100 } });
});

Deno.test("a second unfinished job with the same target and params is refused by name", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const first = await newJob(agent, { workflow, target: "/a", x: 1, y: { z: 2, w: 3 } });
    const same = { y: { w: 3, z: 2 }, x: 1, target: "/a" };
    const refused = async (body: JsonObject) => {
      const answer = await agent.call("POST", "/jobs", body);
      assertStringIncludes(assertRefused(answer, 409, "ConflictError"), first);
    };
    await refused({ workflow, ...same });
    await refused({ workflow: await newWorkflow(agent), ...same });
    await claimAll(agent);
    await refused({ workflow, ...same });
    await endTask(agent, first, { kind: "cb_wait" });
    await refused({ workflow, ...same });
    await newJob(agent, { workflow, ...same, x: 2 });
    await newJob(agent, { workflow, ...same, target: "/b" });
    await agent.call("POST", `/jobs/${first}/cancel`, {});
    await newJob(agent, { workflow, ...same });
  });
});

Deno.test("of equal simultaneous requests, one gets the job", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => agent.call("POST", "/jobs", { workflow, target: "/a" })),
    );
    const statuses = answers.map(({ status }) => status).sort();
    assertEquals(statuses, [201, ...Array<number>(11).fill(409)]);
  });
});

Deno.test("GET /jobs/:job_uuid shows each execution in the words of document 2", async () => {
  await withHttpAgent(async (agent) => {
    const words = { succeeded: "success", failed: "failure" } as const;
    for (
      const execution of [
        "queued",
        "running",
        "waiting",
        "succeeded",
        "failed",
        "canceled",
      ] as const
    ) {
      const uuid = await jobIn(agent, execution);
      const job = objectOf(await agent.call("GET", `/jobs/${uuid}`));
      const word = execution === "succeeded" || execution === "failed"
        ? words[execution]
        : execution;
      assertEquals(job.execution, word);
      if (execution === "queued") await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    }
  });
});

Deno.test("GET /jobs/:job_uuid shows results and what tasks set, but never in place of engine fields", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    await claimAll(agent);
    const props = { found: [1], uuid: "x", target: "y", execution: "succeeded", runner_id: "z" };
    await agent.store.jobs.recordTask({
      ...await holdOf(agent, uuid),
      phase: "chain",
      entry: {
        result: { a: 1 },
        error: "",
        name: "first",
        started_at: T0,
        finished_at: T0,
        attempts: 2,
      },
      params: { left: true },
      props,
      elapsed_ms: 1500,
      event: { kind: "fail", onerror: false },
    });
    const job = objectOf(await agent.call("GET", `/jobs/${uuid}`));
    assertEquals([job.found, job.params, job.elapsed], [[1], { left: true }, 1.5]);
    assertEquals([job.uuid, job.execution], [uuid, "failure"]);
    assertEquals([job.target, job.runner_id], [undefined, undefined]);
    assertEquals(job.chain_results, [
      { result: { a: 1 }, error: "", name: "first", started_at: T0, finished_at: T0, attempts: 2 },
    ]);
  });
});

Deno.test("every route of a job is answered with 404 for a missing job", async () => {
  await withHttpAgent(async (agent) => {
    for (const id of [NO_UUID, "7", "__proto__"]) {
      const calls: [string, string, unknown?][] = [
        ["GET", `/jobs/${id}`],
        ["GET", `/jobs/${id}/info`],
        ["GET", `/jobs/${id}/wait`],
        ["POST", `/jobs/${id}/info`, { a: 1 }],
        ["POST", `/jobs/${id}/cancel`, {}],
        ["POST", `/jobs/${id}/resume`, {}],
      ];
      for (const [method, path, body] of calls) {
        assertRefused(await agent.call(method, path, body), 404, "ResourceNotFound");
      }
    }
    assertEquals(agent.hints, []);
  });
});

Deno.test("HEAD is answered like GET, without the body", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const paths = ["/workflows", "/jobs", `/jobs/${uuid}`, `/jobs/${uuid}/info`, "/stats", "/ping"];
    for (const path of paths) {
      const answer = await agent.call("HEAD", path);
      assertEquals([answer.status, answer.text], [200, ""]);
      assertEquals(answer.headers.get("content-type"), "application/json");
    }
    assertEquals((await agent.call("HEAD", `/jobs/${NO_UUID}`)).status, 404);
    assertEquals(listOf(await agent.call("GET", "/jobs")).length, 1);
  });
});
