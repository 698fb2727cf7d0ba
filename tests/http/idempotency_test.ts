// POST /jobs with an Idempotency-Key: who asks twice gets one job.

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import {
  type Answer,
  assertRefused,
  claimAll,
  endTask,
  fieldsOf,
  type HttpAgent,
  listOf,
  newWorkflow,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

const REPLAYED = "idempotency-replayed";

function post(agent: HttpAgent, body: unknown, key: string): Promise<Answer> {
  return agent.call("POST", "/jobs", body, { "idempotency-key": key });
}

async function countOf(agent: HttpAgent): Promise<number> {
  return listOf(await agent.call("GET", "/jobs")).length;
}

Deno.test("an equal request with the same key is answered with the existing job", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const first = await post(agent, { workflow, target: "/a", x: { a: 1, b: 2 } }, "key-1");
    assertEquals([first.status, first.headers.get(REPLAYED)], [201, null]);
    // The order of keys, and blanks, make no other request.
    const again = await post(
      agent,
      `{"x": {"b":2,"a":1},  "target":"/a", "workflow":"${workflow}"}`,
      "key-1",
    );
    assertEquals([again.status, again.headers.get(REPLAYED)], [201, "true"]);
    assertEquals(again.body, first.body);
    assertEquals(again.headers.get("location"), first.headers.get("location"));
    assertEquals([await countOf(agent), agent.hints], [1, ["queued"]]);
  });
});

Deno.test("the answer shows the job as it is now, even when it is finished", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const { uuid } = objectOf(await post(agent, { workflow }, "k"));
    await claimAll(agent);
    await endTask(agent, uuid as never, { kind: "succeed" });
    const again = await post(agent, { workflow }, "k");
    const job = objectOf(again);
    assertEquals([again.status, job.uuid, job.execution], [201, uuid, "success"]);
    assertEquals(await countOf(agent), 1);
  });
});

Deno.test("another request with the same key is answered with 409 naming the header and the job", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const { uuid } = objectOf(await post(agent, { workflow, x: 1 }, "k"));
    for (const body of [{ workflow, x: 2 }, { workflow }, { workflow, x: 1, target: "/a" }]) {
      const answer = await post(agent, body, "k");
      assertStringIncludes(assertRefused(answer, 409, "ConflictError"), String(uuid));
      assertEquals(fieldsOf(answer), ["Idempotency-Key"]);
    }
    assertEquals(await countOf(agent), 1);
  });
});

Deno.test("equal requests with other keys, and without a key, create separate jobs", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const keys = ["a", "A", "~!@#$%^&*()", "k".repeat(255)];
    for (const key of keys) assertEquals((await post(agent, { workflow }, key)).status, 201);
    await agent.call("POST", "/jobs", { workflow });
    assertEquals(await countOf(agent), keys.length + 1);
  });
});

Deno.test("an invalid key is answered with 409 naming the header, and creates no job", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    for (const key of ["", " ", "a b", "a\tb", "k".repeat(256), "schlüssel"]) {
      const answer = await post(agent, { workflow }, key);
      assertRefused(answer, 409, "InvalidArgument");
      assertEquals(fieldsOf(answer), ["Idempotency-Key"]);
    }
    assertEquals(await countOf(agent), 0);
  });
});

Deno.test("of equal simultaneous requests with one key, one creates the job", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => post(agent, { workflow, target: "/a" }, "k")),
    );
    assertEquals(new Set(answers.map(({ status }) => status)), new Set([201]));
    assertEquals(new Set(answers.map((answer) => objectOf(answer).uuid)).size, 1);
    assertEquals(answers.filter(({ headers }) => headers.get(REPLAYED) === null).length, 1);
    assertEquals(await countOf(agent), 1);
  });
});

Deno.test("a repeated request is answered even if its workflow is gone and the job limit is reached", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const { uuid } = objectOf(await post(agent, { workflow }, "k"));
    assertEquals((await post(agent, { workflow }, "other")).status, 503);
    await agent.call("DELETE", `/workflows/${workflow}`);
    const again = await post(agent, { workflow }, "k");
    assertEquals([again.status, objectOf(again).uuid], [201, uuid]);
    assertEquals((await post(agent, { workflow }, "other")).status, 404);
    assertEquals((await post(agent, { workflow, x: 1 }, "k")).status, 409);
  }, { limits: { ...DEFAULT_HTTP_LIMITS, unfinishedJobsMax: 1 } });
});

Deno.test("a request that was refused does not use up its key", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const body: JsonObject = { workflow, target: "/a" };
    const first = objectOf(await post(agent, body, "first"));
    assertRefused(await post(agent, body, "second"), 409, "ConflictError");
    await agent.call("POST", `/jobs/${first.uuid}/cancel`, {});
    const second = await post(agent, body, "second");
    assertEquals([second.status, second.headers.get(REPLAYED)], [201, null]);
  });
});

Deno.test("a key is remembered for a day", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const first = objectOf(await post(agent, { workflow }, "k"));
    const prune = () => agent.store.jobs.pruneKeys(10);
    agent.clock.now = "2026-01-02T11:59:59.000Z";
    await prune();
    assertEquals(objectOf(await post(agent, { workflow }, "k")).uuid, first.uuid);
    agent.clock.now = "2026-01-02T12:00:01.000Z";
    await prune();
    const later = await post(agent, { workflow }, "k");
    assertEquals([later.status, later.headers.get(REPLAYED)], [201, null]);
    assertEquals(objectOf(later).uuid === first.uuid, false);
  });
});
