import { assert, assertEquals } from "@std/assert";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { until } from "../support/until.ts";
import {
  assertRefused,
  claimAll,
  endTask,
  fieldsOf,
  jobIn,
  newJob,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

Deno.test("wait returns at once for a job that is final or waiting", async () => {
  await withHttpAgent(async (agent) => {
    for (const execution of ["waiting", "succeeded", "failed", "canceled"] as const) {
      const uuid = await jobIn(agent, execution);
      const answer = await agent.call("GET", `/jobs/${uuid}/wait?timeout=60`);
      assertEquals(answer.status, 200);
      assertEquals(answer.body, (await agent.call("GET", `/jobs/${uuid}`)).body);
    }
  });
});

Deno.test("wait returns when the job ends", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const waited = agent.call("GET", `/jobs/${uuid}/wait`);
    await claimAll(agent);
    await endTask(agent, uuid, { kind: "succeed" });
    assertEquals(objectOf(await waited).execution, "success");
  });
});

Deno.test("wait returns the job as it is when the time is up", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    assertEquals(
      objectOf(await agent.call("GET", `/jobs/${uuid}/wait?timeout=0`)).execution,
      "queued",
    );
    const startMs = performance.now();
    const answer = await agent.call("GET", `/jobs/${uuid}/wait?timeout=1`);
    assertEquals([answer.status, objectOf(answer).execution], [200, "queued"]);
    assert(performance.now() - startMs >= 900);
  });
});

Deno.test("wait refuses a timeout beyond its limit", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    for (const timeout of ["61", "-1", "1.5", "x", ""]) {
      const answer = await agent.call("GET", `/jobs/${uuid}/wait?timeout=${timeout}`);
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals(fieldsOf(answer), ["timeout"]);
    }
  });
});

Deno.test("wait returns the job as it is when the agent stops", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const waited = agent.call("GET", `/jobs/${uuid}/wait?timeout=60`);
    agent.closing.abort();
    assertEquals(objectOf(await waited).execution, "queued");
  });
});

Deno.test("waiting requests do not count as active ones, and have their own limit", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, requestsMax: 1, waitsMax: 1 };
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const gone = new AbortController();
    const first = fetch(`${agent.url}/jobs/${uuid}/wait?timeout=60`, { signal: gone.signal });
    const outcome = first.then(() => "answered", () => "given up");
    const refused = await until("the first to wait", async () => {
      const answer = await agent.call("GET", `/jobs/${uuid}/wait?timeout=0`);
      return answer.status === 503 ? answer : undefined;
    });
    assertRefused(refused, 503, "ServiceUnavailable");
    assertEquals(refused.headers.get("retry-after"), "1");
    assertEquals((await agent.call("GET", `/jobs/${uuid}`)).status, 200);
    gone.abort();
    assertEquals(await outcome, "given up");
    // The caller that went away has left its place.
    await until("the place to be free", async () => {
      const answer = await agent.call("GET", `/jobs/${uuid}/wait?timeout=0`);
      return answer.status === 200;
    });
  }, { limits });
});
