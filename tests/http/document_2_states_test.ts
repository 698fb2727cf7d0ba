// The table of states and transitions of document 2, row by row, over HTTP.

import { assert, assertEquals } from "@std/assert";
import { instantAfter, systemNow } from "../../src/domain/instant.ts";
import { assertRefused, newWorkflow, objectOf } from "./http_agent.ts";
import { FAIL, NEVER, OK, resultsIn, type Row, testRows, WAIT } from "./running_agent.ts";

const HOUR_MS = 3_600_000;

const ROWS: readonly Row[] = [
  ["(none), POST /jobs, workflow given and valid: queued, 201; it runs", async (agent) => {
    const workflow = await newWorkflow(agent);
    const answer = await agent.call("POST", "/jobs", { workflow });
    const job = objectOf(answer);
    assertEquals([answer.status, job.execution], [201, "queued"]);
    await agent.jobWhen(job.uuid as never, "success");
  }],
  ["(none), POST /jobs, with exec_after: queued, and delayed until that time", async (agent) => {
    const far = instantAfter(systemNow(), HOUR_MS);
    const near = instantAfter(systemNow(), 300);
    const delayed = await agent.run([OK], { exec_after: far });
    const soon = await agent.run([OK], { exec_after: near });
    const ended = await agent.jobWhen(soon, "success");
    assert(String(ended.started_at) >= near, `${ended.started_at} is before ${near}`);
    const job = objectOf(await agent.call("GET", `/jobs/${delayed}`));
    assertEquals([job.execution, job.exec_after, job.next_run_at], ["queued", far, far]);
  }],
  ["running, a task of the job sets the job to waiting: waiting", async (agent) => {
    const job = await agent.jobWhen(await agent.run([OK, WAIT, OK]), "waiting");
    assertEquals((job.chain_results as unknown[]).length, 2);
    assertEquals(job.reason, "waiting_for_resume");
  }],
  ["waiting, resume without error: queued, its result OK, and it goes on", async (agent) => {
    const uuid = await agent.run([WAIT, OK]);
    await agent.jobWhen(uuid, "waiting");
    const answer = await agent.call("POST", `/jobs/${uuid}/resume`, {});
    assertEquals([answer.status, objectOf(answer).execution], [200, "queued"]);
    assertEquals(resultsIn(objectOf(answer).chain_results), [["OK", ""]]);
    const job = await agent.jobWhen(uuid, "success");
    assertEquals(resultsIn(job.chain_results), [["OK", ""], ["OK", ""]]);
  }],
  ["waiting, resume with a result: that is recorded", async (agent) => {
    const uuid = await agent.run([WAIT]);
    await agent.jobWhen(uuid, "waiting");
    await agent.call("POST", `/jobs/${uuid}/resume`, { result: { bytes: 512 } });
    const job = await agent.jobWhen(uuid, "success");
    assertEquals(resultsIn(job.chain_results), [[{ bytes: 512 }, ""]]);
  }],
  ["waiting, resume: the job runs when a runner has a free slot", async (agent) => {
    const uuid = await agent.run([WAIT, OK]);
    await agent.jobWhen(uuid, "waiting");
    const other = await agent.run([NEVER]);
    await agent.jobWhen(other, "running");
    const job = objectOf(await agent.call("POST", `/jobs/${uuid}/resume`, {}));
    assertEquals([job.execution, job.reason], ["queued", "waiting_for_slot"]);
    await agent.call("POST", `/jobs/${other}/cancel`, {});
    await agent.jobWhen(uuid, "success");
  }, 1],
  ["waiting, resume with error given with any value: failed, and it is recorded", async (agent) => {
    for (const [error, text] of [["broke off", "broke off"], [null, "null"], [false, "false"]]) {
      const uuid = await agent.run([WAIT, OK]);
      await agent.jobWhen(uuid, "waiting");
      const answer = await agent.call("POST", `/jobs/${uuid}/resume`, { error });
      assertEquals([answer.status, objectOf(answer).execution], [200, "failure"]);
      assertEquals(resultsIn(objectOf(answer).chain_results), [["", text]]);
      const listed = await agent.call("GET", "/jobs?execution=failed&limit=1");
      assertEquals((listed.body as { uuid: string }[])[0]?.uuid, uuid);
    }
  }],
  ["any unfinished state, cancel: canceled (queued)", async (agent) => {
    const uuid = await agent.run([OK], { exec_after: instantAfter(systemNow(), HOUR_MS) });
    const answer = await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    assertEquals([answer.status, objectOf(answer).execution], [200, "canceled"]);
  }],
  ["any unfinished state, cancel: canceled (running), and the task is stopped", async (agent) => {
    const uuid = await agent.run([NEVER, OK]);
    await agent.jobWhen(uuid, "running");
    const answer = await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    assertEquals([answer.status, objectOf(answer).execution], [200, "canceled"]);
    // Its slot is free again: the only one there is.
    await agent.jobWhen(await agent.run([OK]), "success");
    const job = objectOf(await agent.call("GET", `/jobs/${uuid}`));
    assertEquals([job.execution, job.chain_results], ["canceled", []]);
  }, 1],
  ["any unfinished state, cancel: canceled (waiting)", async (agent) => {
    const uuid = await agent.run([WAIT]);
    await agent.jobWhen(uuid, "waiting");
    const answer = await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    assertEquals([answer.status, objectOf(answer).execution], [200, "canceled"]);
  }],
  ["finalized job, cancel: unchanged, 409", async (agent) => {
    const canceled = await agent.run([WAIT]);
    await agent.jobWhen(canceled, "waiting");
    await agent.call("POST", `/jobs/${canceled}/cancel`, {});
    const ended = [await agent.run([OK]), await agent.run([FAIL]), canceled];
    for (const uuid of ended) {
      const before = await agent.jobWhen(uuid, "success", "failure", "canceled");
      const answer = await agent.call("POST", `/jobs/${uuid}/cancel`, {});
      assertRefused(answer, 409, "ConflictError");
      assertEquals((await agent.call("GET", `/jobs/${uuid}`)).body, before);
    }
  }],
  ["job not waiting, resume: unchanged, 409", async (agent) => {
    const running = await agent.run([NEVER]);
    const queued = await agent.run([OK], { exec_after: instantAfter(systemNow(), HOUR_MS) });
    const finished = await agent.run([OK]);
    const jobs = [[running, "running"], [queued, "queued"], [finished, "success"]] as const;
    for (const [uuid, execution] of jobs) {
      const before = await agent.jobWhen(uuid, execution);
      for (const body of [{}, { result: "x" }, { error: "x" }]) {
        const answer = await agent.call("POST", `/jobs/${uuid}/resume`, body);
        assertRefused(answer, 409, "ConflictError");
      }
      // A running job has run longer by then.
      const { elapsed: _, ...after } = objectOf(await agent.call("GET", `/jobs/${uuid}`));
      const { elapsed: __, ...unchanged } = before;
      assertEquals(after, unchanged);
    }
  }],
  ["the list names every state in the words of its filter", async (agent) => {
    const late = { exec_after: instantAfter(systemNow(), HOUR_MS) };
    const canceled = await agent.run([OK], late);
    await agent.call("POST", `/jobs/${canceled}/cancel`, {});
    const jobs: [string, string, string][] = [
      ["canceled", canceled, "canceled"],
      ["queued", await agent.run([OK], late), "queued"],
      ["running", await agent.run([NEVER]), "running"],
      ["waiting", await agent.run([WAIT]), "waiting"],
      ["succeeded", await agent.run([OK]), "success"],
      ["failed", await agent.run([FAIL]), "failure"],
    ];
    for (const [, uuid, execution] of jobs) await agent.jobWhen(uuid as never, execution);
    for (const [filter, uuid, execution] of jobs) {
      const { body } = await agent.call("GET", `/jobs?execution=${filter}`);
      const found = (body as { uuid: string; execution: string }[])
        .map((job) => [job.uuid, job.execution]);
      assertEquals([filter, found], [filter, [[uuid, execution]]]);
    }
  }],
];

testRows("document 2: a job moves between its states as the table says", ROWS);
