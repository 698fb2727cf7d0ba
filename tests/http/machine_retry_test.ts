// Retries and repeated requests for jobs that make machines: they keep the rule of one unfinished job
// for each machine.

import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { machine as description } from "../domain/machine_request.ts";
import {
  type Answer,
  assertRefused,
  fieldsOf,
  type HttpAgent,
  listOf,
  newWorkflow,
  objectOf,
  PROVISION,
} from "./http_agent.ts";
import { end, MACHINE, REQUEST, start, withMachines } from "./machine_agent.ts";

const BODY = { ...REQUEST, uuid: MACHINE };

function retry(agent: HttpAgent, uuid: unknown, body: JsonObject = {}): Promise<Answer> {
  return agent.call("POST", `/agent/v1/jobs/${uuid}/retry`, body);
}

Deno.test("a failed machine job is created again for the same machine", async () => {
  await withMachines(async (agent) => {
    const { job_uuid } = await start(agent, BODY);
    await end(agent, job_uuid, "failed");
    const job = objectOf(await retry(agent, job_uuid));
    assertEquals([job.target, job.prev_attempt], [`/machines/${MACHINE}`, job_uuid]);
    const old = objectOf(await agent.call("GET", `/jobs/${job_uuid}`));
    assertEquals(job.params, old.params);
    // An equal request joins it.
    assertEquals((await start(agent, BODY)).job_uuid, job.uuid);
  });
});

Deno.test("a retry of a machine that has its job's uuid makes one with the new job's uuid", async () => {
  await withMachines(async (agent) => {
    const first = objectOf(await agent.call("POST", "/jobs", { workflow: PROVISION, ...REQUEST }));
    await end(agent, first.uuid, "failed");
    const job = objectOf(await retry(agent, first.uuid));
    assertNotEquals(job.uuid, first.uuid);
    assertEquals([job.target, job.params], [`/machines/${job.uuid}`, first.params]);
    const mine = { workflow: PROVISION, ...REQUEST, target: "/mine" };
    const named = objectOf(await agent.call("POST", "/jobs", mine));
    await end(agent, named.uuid, "failed");
    assertEquals(objectOf(await retry(agent, named.uuid)).target, "/mine");
  });
});

Deno.test("a machine job is not created again while another one has its machine", async () => {
  await withMachines(async (agent) => {
    const first = await start(agent, BODY);
    await end(agent, first.job_uuid, "failed");
    const other = await start(agent, { ...BODY, machine: { ...description, ram: 2048 } });
    const message = assertRefused(await retry(agent, first.job_uuid), 409, "ConflictError");
    assert(message.includes(String(other.job_uuid)), message);
    await end(agent, other.job_uuid, "failed");
    const equal = await start(agent, BODY);
    const duplicate = await retry(agent, first.job_uuid);
    assertRefused(duplicate, 409, "ConflictError");
    assertEquals(fieldsOf(duplicate), ["target"]);
    await end(agent, equal.job_uuid, "failed");
    const workflow = await newWorkflow(agent);
    const target = `/machines/${MACHINE}`;
    const mine = objectOf(await agent.call("POST", "/jobs", { workflow, target, x: 1 }));
    assertRefused(await retry(agent, first.job_uuid), 409, "ConflictError");
    await end(agent, mine.uuid, "succeeded");
    assertEquals((await retry(agent, first.job_uuid)).status, 201);
  });
});

Deno.test("of retries of several jobs of one machine that arrive together one gets a job", async () => {
  await withMachines(async (agent) => {
    const jobs: unknown[] = [];
    for (let n = 0; n < 6; n++) {
      const machine = { ...description, ram: 1024 + n };
      const { job_uuid } = await start(agent, { ...BODY, machine });
      await end(agent, job_uuid, "failed");
      jobs.push(job_uuid);
    }
    const answers = await Promise.all([
      ...jobs.map((uuid) => retry(agent, uuid)),
      agent.call("POST", "/agent/v1/jobs/retry", { filter: { target: `/machines/${MACHINE}` } }),
    ]);
    assertEquals(answers.filter(({ status }) => status === 201).length <= 1, true);
    const unfinished = listOf(await agent.call("GET", "/jobs?execution=queued"));
    assertEquals(unfinished.length, 1);
  });
});

Deno.test("a machine job is created again from its beginning only", async () => {
  await withMachines(async (agent) => {
    const { job_uuid } = await start(agent, BODY);
    await end(agent, job_uuid, "failed");
    for (const from of ["first", 0]) {
      const answer = await retry(agent, job_uuid, { from });
      assertMatch(assertRefused(answer, 409, "InvalidArgument"), /from the first task/);
      assertEquals(fieldsOf(answer), ["from"]);
    }
  });
});

Deno.test("a repeated request for a machine job under one key is answered with its job", async () => {
  await withMachines(async (agent) => {
    const post = (fields: JsonObject, key: string) =>
      agent.call("POST", "/jobs", { workflow: PROVISION, ...fields }, { "idempotency-key": key });
    const together = await Promise.all(Array.from({ length: 8 }, () => post(BODY, "k")));
    assertEquals(new Set(together.map(({ status }) => status)), new Set([201]));
    const [uuid, ...others] = new Set(together.map((answer) => objectOf(answer).uuid));
    assertEquals(others, []);
    assertRefused(await post(BODY, "other"), 409, "ConflictError");
    await end(agent, uuid, "failed");
    const later = await start(agent, BODY);
    assertNotEquals(later.job_uuid, uuid);
    assertEquals(objectOf(await post(BODY, "k")).uuid, uuid);
    assertEquals((await post({ ...BODY, boot: "disk" }, "k")).status, 409);
  });
});
