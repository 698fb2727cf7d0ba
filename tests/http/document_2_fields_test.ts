// The tables of fields of document 2, row by row, over HTTP.

import { assert, assertEquals } from "@std/assert";
import { isUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { assertRefused, fieldsOf, newJob, newWorkflow, objectOf } from "./http_agent.ts";
import {
  FAIL,
  NEVER,
  OK,
  resultsIn,
  type Row,
  type RunningAgent,
  testRows,
  WAIT,
} from "./running_agent.ts";

/** A job of one task, when it is finished. */
async function jobOfTask(agent: RunningAgent, task: JsonObject): Promise<JsonObject> {
  const uuid = await newJob(agent, { workflow: await newWorkflow(agent, { chain: [task] }) });
  return await agent.jobWhen(uuid, "success", "failure");
}

const WORKFLOW: readonly Row[] = [
  ["uuid: generated at creation", async (agent) => {
    const [one, two] = [await newWorkflow(agent), await newWorkflow(agent)];
    assertEquals([isUuid(one), isUuid(two), one === two], [true, true, false]);
  }],
  ["name: required on create and update", async (agent) => {
    const uuid = await newWorkflow(agent);
    for (const [method, path] of [["POST", "/workflows"], ["PUT", `/workflows/${uuid}`]] as const) {
      const answer = await agent.call(method, path, { chain: [] });
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals(fieldsOf(answer), ["name"]);
    }
  }],
  ["chain: the tasks of the workflow, in their order", async (agent) => {
    const body = (n: number) => `function (job, cb) { cb(null, ${n}); }`;
    const job = await agent.jobWhen(await agent.run([body(1), body(2), body(3)]), "success");
    assertEquals(resultsIn(job.chain_results), [[1, ""], [2, ""], [3, ""]]);
  }],
  ["onerror: the fallback tasks, which run when the chain has failed", async (agent) => {
    const workflow = await newWorkflow(agent, { chain: [{ body: FAIL }], onerror: [{ body: OK }] });
    const job = await agent.jobWhen(await newJob(agent, { workflow }), "failure");
    assertEquals(resultsIn(job.onerror_results), [["OK", ""]]);
  }],
  ["timeout: seconds for the execution of the workflow", async (agent) => {
    const workflow = await newWorkflow(agent, { chain: [{ body: NEVER }], timeout: 1 });
    const job = await agent.jobWhen(await newJob(agent, { workflow }), "failure");
    assertEquals(resultsIn(job.chain_results), [["", "workflow timeout"]]);
  }],
];

const TASK: readonly Row[] = [
  ["uuid: in responses", async (agent) => {
    const made = objectOf(
      await agent.call("POST", "/workflows", { name: "x", chain: [{ body: OK }] }),
    );
    assertEquals((made.chain as JsonObject[]).map(({ uuid }) => isUuid(uuid)), [true]);
  }],
  ["name: not required", async (agent) => {
    const named = await jobOfTask(agent, { name: "first", body: OK });
    const unnamed = await jobOfTask(agent, { body: OK });
    const nameOf = (job: JsonObject) => (job.chain_results as JsonObject[])[0]?.name;
    assertEquals([nameOf(named), isUuid(nameOf(unnamed))], ["first", true]);
  }],
  [
    "body: a function of job and cb; no arguments on success, a message on failure",
    async (agent) => {
      const success = await jobOfTask(agent, { body: OK });
      assertEquals([success.execution, resultsIn(success.chain_results)], ["success", [[
        "OK",
        "",
      ]]]);
      const failure = await jobOfTask(agent, { body: FAIL });
      assertEquals(resultsIn(failure.chain_results), [["", "no such disk"]]);
      const missing = await agent.call("POST", "/workflows", { name: "x", chain: [{ name: "y" }] });
      assertEquals(fieldsOf(missing), ["chain[0].body"]);
    },
  ],
  ["fallback: a function of err, job and cb, called when the body fails", async (agent) => {
    const fallback = "function (err, job, cb) { cb(null, 'instead of ' + err); }";
    const job = await jobOfTask(agent, { body: FAIL, fallback });
    assertEquals(job.execution, "success");
    assertEquals(resultsIn(job.chain_results), [["instead of no such disk", ""]]);
    const unused = await jobOfTask(agent, { body: OK, fallback });
    assertEquals(resultsIn(unused.chain_results), [["OK", ""]]);
  }],
  ["retry: times to retry the body before failing or falling back", async (agent) => {
    const body = "function (job, cb) { job.runs = (job.runs || 0) + 1; cb('run ' + job.runs); }";
    const fallback = "function (err, job, cb) { cb(null, err); }";
    const failed = await jobOfTask(agent, { body, retry: 2 });
    assertEquals([failed.runs, resultsIn(failed.chain_results)], [3, [["", "run 3"]]]);
    const fell = await jobOfTask(agent, { body, retry: 1, fallback });
    assertEquals(resultsIn(fell.chain_results), [["run 2", ""]]);
  }],
  ["timeout: seconds for the execution of the task", async (agent) => {
    const job = await jobOfTask(agent, { body: NEVER, timeout: 1 });
    assertEquals(job.execution, "failure");
    const [entry] = resultsIn(job.chain_results);
    assertEquals([entry?.[0], String(entry?.[1]).includes("timeout")], ["", true]);
  }],
];

const JOB: readonly Row[] = [
  ["uuid, workflow_uuid, name, chain, onerror, timeout: from the workflow", async (agent) => {
    const onerror = [{ body: OK }];
    const made = objectOf(
      await agent.call("POST", "/workflows", {
        name: "sample",
        chain: [{ body: OK }],
        onerror,
        timeout: 90,
      }),
    );
    const job = objectOf(await agent.call("POST", "/jobs", { workflow: made.uuid }));
    assertEquals([isUuid(job.uuid), job.workflow_uuid, job.name], [true, made.uuid, "sample"]);
    assertEquals([job.chain, job.onerror, job.timeout], [made.chain, made.onerror, 90]);
  }],
  ["exec_after: execution is delayed until this time", async (agent) => {
    const uuid = await agent.run([OK], { exec_after: "2999-01-01T00:00:00+01:00" });
    const job = objectOf(await agent.call("GET", `/jobs/${uuid}`));
    assertEquals([job.execution, job.exec_after], ["queued", "2998-12-31T23:00:00.000Z"]);
  }],
  [
    "target: no other job with the same target and params until this one completes",
    async (agent) => {
      const request = {
        workflow: await newWorkflow(agent, { chain: [{ body: WAIT }] }),
        target: "/a",
      };
      const uuid = await newJob(agent, { ...request, x: 1 });
      await agent.jobWhen(uuid, "waiting");
      const equal = await agent.call("POST", "/jobs", { ...request, x: 1 });
      assertRefused(equal, 409, "ConflictError");
      await newJob(agent, { ...request, x: 2 });
      await newJob(agent, { ...request, x: 1, target: "/b" });
      await agent.call("POST", `/jobs/${uuid}/resume`, {});
      await agent.jobWhen(uuid, "success");
      await newJob(agent, { ...request, x: 1 });
    },
  ],
  ["params: the extra keys of its creation, which its tasks see", async (agent) => {
    const body = "function (job, cb) { cb(null, job.params.a + job.params.b.c); }";
    const job = await agent.jobWhen(await agent.run([body], { a: 1, b: { c: 2 } }), "success");
    assertEquals([job.params, resultsIn(job.chain_results)], [{ a: 1, b: { c: 2 } }, [[3, ""]]]);
  }],
  [
    "chain_results: result and error of each task that ran; resume updates its entry",
    async (agent) => {
      const uuid = await agent.run([OK, WAIT, FAIL, OK]);
      const waiting = await agent.jobWhen(uuid, "waiting");
      assertEquals(resultsIn(waiting.chain_results).length, 2);
      await agent.call("POST", `/jobs/${uuid}/resume`, { result: "copied" });
      const job = await agent.jobWhen(uuid, "failure");
      const expected = [["OK", ""], ["copied", ""], ["", "no such disk"]];
      assertEquals(resultsIn(job.chain_results), expected);
    },
  ],
  ["onerror_results: result and error of each onerror task that ran", async (agent) => {
    const onerror = [OK, FAIL, OK].map((body) => ({ body }));
    const workflow = await newWorkflow(agent, { chain: [{ body: FAIL }], onerror });
    const job = await agent.jobWhen(await newJob(agent, { workflow }), "failure");
    assertEquals(resultsIn(job.onerror_results), [["OK", ""], ["", "no such disk"]]);
  }],
  ["execution: queued, running, and the finished values failure and success", async (agent) => {
    const queued = await agent.run([OK], { exec_after: "2999-01-01T00:00:00Z" });
    await agent.jobWhen(queued, "queued");
    await agent.jobWhen(await agent.run([NEVER]), "running");
    await agent.jobWhen(await agent.run([FAIL]), "failure");
    await agent.jobWhen(await agent.run([OK]), "success");
  }],
];

const OTHERS: readonly Row[] = [
  ["info entry: any key and value, every POST appends one member", async (agent) => {
    const path = `/jobs/${await newJob(agent)}/info`;
    const entries: JsonObject[] = [{ "10%": "begun" }, { a: [1, { b: null }], c: true }];
    for (const message of entries) await agent.call("POST", path, { message });
    assertEquals((await agent.call("GET", path)).body, entries);
  }],
  ["stats: four windows of seven integer counters", async (agent) => {
    const stats = objectOf(await agent.call("GET", "/stats"));
    assertEquals(Object.keys(stats), ["all_time", "past_24h", "past_hour", "current"]);
    const counters = "queued failed succeeded canceled running retried waiting".split(" ");
    for (const window of Object.values(stats)) {
      assertEquals(Object.keys(window as JsonObject).sort(), counters.sort());
      assert(Object.values(window as JsonObject).every(Number.isInteger));
    }
  }],
];

testRows("document 2: the fields of a workflow take the values described, and no others", WORKFLOW);
testRows("document 2: the fields of a task take the values described, and no others", TASK);
testRows("document 2: the fields of a job take the values described, and no others", JOB);
testRows(
  "document 2: the fields of info and stats take the values described, and no others",
  OTHERS,
);
