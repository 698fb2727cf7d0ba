import { assertEquals } from "@std/assert";
import { Hono } from "hono";
import type { HttpEnv } from "../../src/http/served_agent.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { until } from "../support/until.ts";
import { assertRefused, withHttpAgent } from "./http_agent.ts";

Deno.test("requests over the limit are answered with 503 and Retry-After until others are done", async () => {
  const gate = Promise.withResolvers<void>();
  let entered = 0;
  const slow = new Hono<HttpEnv>();
  slow.get("/slow", async (c) => {
    entered += 1;
    await gate.promise;
    return c.json({});
  });
  const limits = { ...DEFAULT_HTTP_LIMITS, requestsMax: 2 };
  await withHttpAgent(async (agent) => {
    const held = [agent.call("GET", "/slow"), agent.call("GET", "/slow")];
    await until("both to be under way", () => entered === 2);
    const refused = await agent.call("GET", "/ping");
    assertRefused(refused, 503, "ServiceUnavailable");
    assertEquals(refused.headers.get("retry-after"), "1");
    gate.resolve();
    assertEquals((await Promise.all(held)).map(({ status }) => status), [200, 200]);
    assertEquals((await agent.call("GET", "/ping")).status, 200);
  }, { limits, routes: [slow] });
});

Deno.test("refused and failed requests free their slot", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, requestsMax: 1 };
  await withHttpAgent(async (agent) => {
    for (const path of ["/nothing", "/jobs/x", "/jobs?x=1"]) await agent.call("GET", path);
    await agent.call("POST", "/workflows", "{");
    assertEquals((await agent.call("GET", "/ping")).status, 200);
  }, { limits });
});
