// POST /agent/v1/jobs/:job_uuid/retry: a finished job created again, whole or from one of its tasks.

import { assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { TaskEvent } from "../../src/domain/job/state.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { resultOf } from "../support/job.ts";
import {
  type Answer,
  assertRefused,
  BODY,
  claimAll,
  endTask,
  fieldsOf,
  holdOf,
  type HttpAgent,
  jobIn,
  listOf,
  newJob,
  newWorkflow,
  NO_UUID,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

const FAILED: TaskEvent = { kind: "fail", onerror: false };
const SUCCEEDED: TaskEvent = { kind: "succeed" };

function retry(agent: HttpAgent, uuid: string, body: unknown = {}): Promise<Answer> {
  return agent.call("POST", `/agent/v1/jobs/${uuid}/retry`, body);
}

async function jobOf(agent: HttpAgent, uuid: unknown): Promise<JsonObject> {
  return objectOf(await agent.call("GET", `/jobs/${uuid}`));
}

/** A failed job of four tasks, of which two have succeeded and one was named twice. */
async function brokenJob(agent: HttpAgent, fields: JsonObject = {}): Promise<JobUuid> {
  const chain = ["make", "copy", "boot", "copy"].map((name) => ({ name, body: BODY }));
  const workflow = await newWorkflow(agent, { chain, onerror: [{ body: BODY }], timeout: 60 });
  const uuid = await newJob(agent, { workflow, ...fields });
  await claimAll(agent);
  const end = async (name: string, event: TaskEvent, error = "") =>
    await agent.store.jobs.recordTask({
      ...await holdOf(agent, uuid),
      phase: "chain",
      entry: resultOf(name, { error, result: error === "" ? `${name} done` : "" }),
      params: { size: 1, seen: true },
      props: { found: "disk" },
      elapsed_ms: 1000,
      event,
    });
  await end("make", { kind: "continue" });
  await end("copy", { kind: "continue" });
  await end("boot", FAILED, "no such disk");
  return uuid;
}

Deno.test("retry creates a whole job again: 201, Location, and both jobs name each other", async () => {
  await withHttpAgent(async (agent) => {
    const callback_url = "https://hooks.example.com/";
    const uuid = await brokenJob(agent, { target: "/a", locks: "^/b$", callback_url, size: 1 });
    agent.clock.now = "2026-01-01T13:00:00.000Z";
    agent.hints.length = 0;
    const answer = await retry(agent, uuid);
    assertEquals(answer.status, 201);
    const job = objectOf(answer);
    assertEquals(answer.headers.get("location"), `/jobs/${job.uuid}`);
    assertEquals(await jobOf(agent, job.uuid), job);
    const old = await jobOf(agent, uuid);
    assertEquals([old.execution, old.next_attempt], ["failure", job.uuid]);
    assertEquals([job.prev_attempt, job.num_attempts], [uuid, 1]);
    const { execution, chain_results, found, exec_after, created_at, elapsed } = job;
    assertEquals([execution, chain_results, found, elapsed], ["queued", [], undefined, 0]);
    assertEquals([exec_after, created_at], [agent.clock.now, agent.clock.now]);
    for (const field of ["target", "locks", "callback_url", "chain", "timeout"]) {
      assertEquals([field, job[field]], [field, old[field]]);
    }
    // What the tasks of the old job made of its params was for that job.
    assertEquals([old.params, job.params], [{ size: 1, seen: true }, { size: 1 }]);
    assertEquals(job.params_from, undefined);
    assertEquals(agent.hints, ["queued"]);
  }, { limits: { ...DEFAULT_HTTP_LIMITS, callbackHosts: ["hooks.example.com"] } });
});

Deno.test("a whole retry uses the current workflow, or the job's own tasks if that is gone", async () => {
  await withHttpAgent(async (agent) => {
    const [one, two] = [await brokenJob(agent), await brokenJob(agent)];
    const { workflow_uuid } = await jobOf(agent, one);
    const changed = { name: "changed", chain: [{ name: "only", body: BODY }] };
    await agent.call("PUT", `/workflows/${workflow_uuid}`, changed);
    const retriedJob = objectOf(await retry(agent, one));
    assertEquals([retriedJob.name, (retriedJob.chain as JsonObject[]).length], ["changed", 1]);
    assertEquals(retriedJob.workflow_uuid, workflow_uuid);

    const old = await jobOf(agent, two);
    await agent.call("DELETE", `/workflows/${old.workflow_uuid}`);
    const own = objectOf(await retry(agent, two));
    const { name, chain, onerror, timeout } = old;
    assertEquals([own.name, own.chain, own.onerror, own.timeout], [name, chain, onerror, timeout]);
    assertEquals(own.workflow_uuid, old.workflow_uuid);
  });
});

Deno.test("jobs that ended in any way can be retried", async () => {
  await withHttpAgent(async (agent) => {
    for (const execution of ["succeeded", "failed", "canceled"] as const) {
      assertEquals((await retry(agent, await jobIn(agent, execution))).status, 201);
    }
  });
});

Deno.test("retry from a task keeps earlier results, and what the job had set", async () => {
  await withHttpAgent(async (agent) => {
    for (const from of ["boot", 2, "uuid"] as const) {
      const uuid = await brokenJob(agent);
      const old = await jobOf(agent, uuid);
      const [chain, results] = [old.chain as JsonObject[], old.chain_results as JsonObject[]];
      // The present workflow does not count: the results are of the job's own tasks.
      await agent.call("PUT", `/workflows/${old.workflow_uuid}`, { name: "changed" });
      const answer = await retry(agent, uuid, { from: from === "uuid" ? chain[2]?.uuid : from });
      const job = objectOf(answer);
      assertEquals([answer.status, job.chain_results], [201, results.slice(0, 2)]);
      assertEquals([job.chain, job.name], [chain, old.name]);
      assertEquals([job.params, job.found], [{ size: 1, seen: true }, "disk"]);
      assertEquals([job.prev_attempt, job.num_attempts], [uuid, 1]);
      assertEquals(job.params_from, uuid);
      assertEquals(await jobOf(agent, job.uuid), job);
      // The whole job once more is as it was asked for: here without params.
      await agent.store.jobs.cancel(job.uuid as JobUuid);
      const whole = objectOf(await retry(agent, String(job.uuid)));
      assertEquals([whole.params, whole.params_from], [{}, undefined]);
    }
  });
});

Deno.test("a job retried from a task starts with that task", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await brokenJob(agent);
    const job = objectOf(await retry(agent, uuid, { from: "boot" }));
    await claimAll(agent);
    await endTask(agent, job.uuid as JobUuid, { kind: "continue" }, { name: "boot" });
    await endTask(agent, job.uuid as JobUuid, SUCCEEDED, { name: "copy" });
    const ended = await jobOf(agent, job.uuid);
    const names = (ended.chain_results as JsonObject[]).map(({ name }) => name);
    assertEquals([ended.execution, names], ["success", ["make", "copy", "boot", "copy"]]);
  });
});

Deno.test("retry from the first task keeps no results, but keeps what the job had set", async () => {
  await withHttpAgent(async (agent) => {
    const job = objectOf(await retry(agent, await brokenJob(agent), { from: "make" }));
    assertEquals([job.chain_results, job.found], [[], "disk"]);
  });
});

Deno.test("a task that queued its job again counts as done", async () => {
  await withHttpAgent(async (agent) => {
    const chain = [{ name: "first", body: BODY }, { name: "second", body: BODY }];
    const uuid = await newJob(agent, { workflow: await newWorkflow(agent, { chain }) });
    await claimAll(agent);
    const queued: TaskEvent = { kind: "cb_queue" };
    await endTask(agent, uuid, queued, { error: "queue" });
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    const job = objectOf(await retry(agent, uuid, { from: "second" }));
    assertEquals((job.chain_results as JsonObject[]).length, 1);
  });
});

Deno.test("retry is answered with 409 naming `from` unless it means exactly one task that can follow", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await brokenJob(agent);
    const cases: [unknown, RegExp][] = [
      ["halt", /expected one of its tasks, make, copy, boot, copy/],
      [NO_UUID, /expected one of its tasks/],
      ["2", /expected one of its tasks/],
      ["copy", /tasks 1, 3 are called so/],
      [4, /has 4 tasks/],
      [3, /task 2, boot, comes before it and has not succeeded/],
      [-1, /from must be/],
      [1.5, /from must be/],
      [1e300, /from must be/],
      ["", /from must be/],
      [null, /from must be/],
      [{ name: "make" }, /from must be/],
    ];
    for (const [from, words] of cases) {
      const answer = await retry(agent, uuid, { from });
      assertMatch(assertRefused(answer, 409, "InvalidArgument"), words);
      assertEquals([from, fieldsOf(answer)], [from, ["from"]]);
    }
    assertEquals(listOf(await agent.call("GET", "/jobs")).length, 1);
    assertEquals((await retry(agent, uuid, { from: 1 })).status, 201);
  });
});

Deno.test("a task that never ran, or still waits, cannot be skipped", async () => {
  await withHttpAgent(async (agent) => {
    const chain = [{ name: "first", body: BODY }, { name: "second", body: BODY }];
    const workflow = await newWorkflow(agent, { chain });
    const unrun = await newJob(agent, { workflow });
    await agent.call("POST", `/jobs/${unrun}/cancel`, {});
    const waited = await newJob(agent, { workflow });
    await claimAll(agent);
    await endTask(agent, waited, { kind: "cb_wait" }, { error: "wait" });
    await agent.call("POST", `/jobs/${waited}/cancel`, {});
    // Errors that read as none are errors too.
    const failed = [];
    for (const error of ["", "queue"]) {
      const uuid = await newJob(agent, { workflow });
      await claimAll(agent);
      await endTask(agent, uuid, { kind: "cb_wait" }, { error: "wait" });
      await agent.call("POST", `/jobs/${uuid}/resume`, { error });
      failed.push(uuid);
    }
    for (const uuid of [unrun, waited, ...failed]) {
      const answer = await retry(agent, uuid, { from: "second" });
      assertMatch(assertRefused(answer, 409, "InvalidArgument"), /task 0, first, comes before/);
      assertEquals((await retry(agent, uuid, { from: "first" })).status, 201);
    }
  });
});

Deno.test("retry refuses unknown fields, with a suggestion", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await jobIn(agent, "failed");
    const unknown = await retry(agent, uuid, { form: "first" });
    assertMatch(assertRefused(unknown, 409, "InvalidArgument"), /nearest known name is "from"/);
    assertEquals(fieldsOf(unknown), ["form"]);
    for (const body of [[], "null", "1", '"text"']) {
      assertRefused(await retry(agent, uuid, body), 409, "InvalidArgument");
    }
    assertEquals((await retry(agent, uuid, "")).status, 201);
  });
});

Deno.test("retry of a missing job is answered with 404", async () => {
  await withHttpAgent(async (agent) => {
    for (const uuid of [NO_UUID, "7"]) {
      assertRefused(await retry(agent, uuid), 404, "ResourceNotFound");
    }
  });
});

Deno.test("retry of an unfinished job is answered with 409, even while its cancel is being undone", async () => {
  await withHttpAgent(async (agent) => {
    for (const execution of ["queued", "running", "waiting"] as const) {
      const uuid = await jobIn(agent, execution);
      const message = assertRefused(await retry(agent, uuid), 409, "ConflictError");
      assertStringIncludes(message, `it is unfinished, execution is "${execution}"`);
      await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    }
    const workflow = await newWorkflow(agent, { oncancel: [{ body: BODY }] });
    const uuid = await newJob(agent, { workflow });
    await claimAll(agent);
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    const message = assertRefused(await retry(agent, uuid), 409, "ConflictError");
    assertStringIncludes(message, "its oncancel chain is not done");
    // The state comes before what is wrong with the request.
    const from = assertRefused(await retry(agent, uuid, { from: "missing" }), 409, "ConflictError");
    assertEquals(from, message);
    await claimAll(agent);
    await agent.store.jobs.recordTask({
      ...await holdOf(agent, uuid),
      phase: "oncancel",
      entry: resultOf("undo"),
      params: {},
      props: {},
      elapsed_ms: 1,
      event: { kind: "succeed" },
    });
    assertEquals((await retry(agent, uuid)).status, 201);
  });
});

Deno.test("a job is retried once; after that, only the newer job can be retried", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await jobIn(agent, "failed");
    const together = await Promise.all(Array.from({ length: 8 }, () => retry(agent, uuid)));
    const statuses = together.map(({ status }) => status).sort();
    assertEquals(statuses, [201, ...Array<number>(7).fill(409)]);
    const { next_attempt } = await jobOf(agent, uuid);
    const message = assertRefused(await retry(agent, uuid), 409, "ConflictError");
    assertStringIncludes(message, String(next_attempt));
    await agent.call("POST", `/jobs/${next_attempt}/cancel`, {});
    const third = objectOf(await retry(agent, String(next_attempt)));
    assertEquals([third.num_attempts, third.prev_attempt], [2, next_attempt]);
  });
});

Deno.test("retry is answered with 409 naming target while it is taken or locked, and changes nothing", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const uuid = await newJob(agent, { workflow, target: "/a" });
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    for (const fields of [{ target: "/a" }, { locks: "^/a" }]) {
      const holder = await newJob(agent, { workflow, ...fields });
      const answer = await retry(agent, uuid);
      assertStringIncludes(assertRefused(answer, 409, "ConflictError"), holder);
      assertEquals(fieldsOf(answer), ["target"]);
      assertEquals((await jobOf(agent, uuid)).next_attempt, undefined);
      await agent.call("POST", `/jobs/${holder}/cancel`, {});
    }
    assertEquals((await retry(agent, uuid)).status, 201);
  });
});

Deno.test("retry is answered with 503 at the limit of unfinished jobs", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await jobIn(agent, "failed");
    const other = await newJob(agent);
    assertRefused(await retry(agent, uuid), 503, "ServiceUnavailable");
    await agent.call("POST", `/jobs/${other}/cancel`, {});
    const retriedJob = await retry(agent, uuid);
    assertEquals(retriedJob.status, 201);
    assertNotEquals(objectOf(retriedJob).uuid, uuid);
  }, { limits: { ...DEFAULT_HTTP_LIMITS, unfinishedJobsMax: 1 } });
});
