// Retried jobs run by a real runner: kept results are not computed again.

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { until } from "../support/until.ts";
import { newJob, newWorkflow, objectOf } from "./http_agent.ts";
import { NEVER, OK, resultsIn, type Row, testRows } from "./running_agent.ts";

const COUNT = "function (job, cb) { job.count = (job.count || 0) + 1; cb(null, job.count); }";
/** Fails in the first job, and succeeds in every one after it. */
const ONCE =
  "function (job, cb) { job.failed ? cb(null, 'mended') : (job.failed = true, cb('x')); }";
/** Fails with what it finds in the params, which it changes. */
const CHANGES_PARAMS = `function (job, cb) {
  const found = job.params.changed ? "changed" : "as requested";
  job.params.changed = true;
  cb(found);
}`;

const ROWS: readonly Row[] = [
  ["a retry from the task that failed keeps what was set before it", async (agent) => {
    const uuid = await agent.run([COUNT, ONCE, COUNT]);
    await agent.jobWhen(uuid, "failure");
    const path = `/agent/v1/jobs/${uuid}/retry`;
    const made = objectOf(await agent.call("POST", path, { from: "task 1" }));
    const job = await agent.jobWhen(made.uuid as never, "success");
    assertEquals(resultsIn(job.chain_results), [[1, ""], ["mended", ""], [2, ""]]);
  }],
  ["a retry as a whole takes the params of the request", async (agent) => {
    const uuid = await agent.run([COUNT, CHANGES_PARAMS]);
    await agent.jobWhen(uuid, "failure");
    const made = objectOf(await agent.call("POST", `/agent/v1/jobs/${uuid}/retry`, {}));
    const job = await agent.jobWhen(made.uuid as never, "failure");
    assertEquals(resultsIn(job.chain_results), [[1, ""], ["", "as requested"]]);
  }],
  ["a retry after a cancel starts once what it did is undone", async (agent) => {
    const workflow = await newWorkflow(agent, {
      chain: [{ body: NEVER }],
      oncancel: [{ name: "undo", body: OK }],
    });
    const uuid = await newJob(agent, { workflow });
    await agent.jobWhen(uuid, "running");
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    const path = `/agent/v1/jobs/${uuid}/retry`;
    const answer = await until("the cancel to be done", async () => {
      const tried = await agent.call("POST", path, {});
      return tried.status === 201 ? tried : undefined;
    });
    const old = objectOf(await agent.call("GET", `/jobs/${uuid}`));
    assertEquals(resultsIn(old.oncancel_results), [["OK", ""]]);
    await agent.jobWhen(objectOf(answer).uuid as never, "running");
  }],
  ["cancel ends many running jobs, retry runs them again", async (agent) => {
    const jobs = [await agent.run([NEVER]), await agent.run([NEVER])];
    for (const uuid of jobs) await agent.jobWhen(uuid, "running");
    const filter = { name: "sample" };
    const canceled = objectOf(await agent.call("POST", "/agent/v1/jobs/cancel", { filter }));
    assertEquals(canceled.matched, 2);
    const retried = objectOf(await agent.call("POST", "/agent/v1/jobs/retry", { filter }));
    for (const { next_attempt } of retried.retried as JsonObject[]) {
      await agent.jobWhen(next_attempt as never, "running");
    }
    assertEquals((retried.retried as JsonObject[]).length, 2);
  }],
];

testRows("a retried job runs with the results that the first attempt left", ROWS);
