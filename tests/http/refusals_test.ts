// What every route answers to what it does not take: other methods, other paths, other types.

import { assertEquals, assertMatch } from "@std/assert";
import { Hono } from "hono";
import type { HttpEnv } from "../../src/http/served_agent.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { assertRefused, newJob, NO_UUID, objectOf, withHttpAgent } from "./http_agent.ts";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

const ROUTES: readonly [string, string][] = [
  ["/workflows", "GET, HEAD, POST"],
  [`/workflows/${NO_UUID}`, "GET, HEAD, PUT, DELETE"],
  ["/jobs", "GET, HEAD, POST"],
  [`/jobs/${NO_UUID}`, "GET, HEAD"],
  [`/jobs/${NO_UUID}/wait`, "GET, HEAD"],
  [`/jobs/${NO_UUID}/cancel`, "POST"],
  [`/jobs/${NO_UUID}/resume`, "POST"],
  [`/jobs/${NO_UUID}/info`, "GET, HEAD, POST"],
  ["/stats", "GET, HEAD"],
  ["/ping", "GET, HEAD"],
  ["/healthz", "GET, HEAD"],
  ["/agent/v1/jobs/cancel", "POST"],
  ["/agent/v1/jobs/retry", "POST"],
  [`/agent/v1/jobs/${NO_UUID}/retry`, "POST"],
  ["/agent/v1/machines", "GET, HEAD, POST"],
  [`/agent/v1/machines/${NO_UUID}`, "GET, HEAD, DELETE"],
  ["/extra/thing.json", "GET, HEAD"],
  ["/extra/do/it", "POST"],
];

function extraRoutes(): Hono<HttpEnv> {
  const extra = new Hono<HttpEnv>();
  extra.get("/extra/:file", (c) => c.json({ file: c.req.param("file") }));
  extra.post("/extra/do/it", (c) => c.json({}));
  return extra;
}

Deno.test("every known path answers every other method with 405 and Allow", async () => {
  await withHttpAgent(async (agent) => {
    for (const [path, allow] of ROUTES) {
      for (const method of METHODS) {
        if (allow.split(", ").includes(method)) continue;
        // With a body of a wrong type, without one, and with a good one: the method comes first.
        for (const body of [undefined, {}]) {
          const answer = await agent.call(method, path, method === "GET" ? undefined : body);
          const message = assertRefused(answer, 405, "MethodNotAllowedError");
          assertEquals([method, path, answer.headers.get("allow")], [method, path, allow]);
          assertMatch(message, new RegExp(`^Cannot ${method} "`));
        }
      }
      if (!allow.includes("HEAD")) {
        assertEquals((await agent.call("HEAD", path)).status, 405);
      }
    }
  }, { routes: [extraRoutes()] });
});

Deno.test("every unknown path answers 404 as JSON, a trailing slash included", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const paths = [
      "/",
      "/nothing",
      "/workflows/",
      "/jobs/",
      `/jobs/${uuid}/`,
      `/jobs/${uuid}/output`,
      `/jobs/${uuid}/info/`,
      `/jobs/${uuid}/info/0`,
      "/stats/",
      "/JOBS",
      "//jobs",
      "/jobs%2f",
      "/agent/v1",
      "/agent/v1/machines/",
      "/index.html",
      "/favicon.ico",
    ];
    for (const path of paths) {
      for (const method of METHODS) {
        assertRefused(await agent.call(method, path), 404, "ResourceNotFound");
      }
    }
  });
});

Deno.test("POST and PUT without a JSON content type answer 415, with a body or without", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const calls: [string, string][] = [
      ["POST", "/workflows"],
      ["PUT", `/workflows/${NO_UUID}`],
      ["POST", "/jobs"],
      ["POST", `/jobs/${uuid}/cancel`],
      ["POST", `/jobs/${uuid}/resume`],
      ["POST", `/jobs/${uuid}/info`],
      ["POST", "/agent/v1/machines"],
      ["POST", "/extra/do/it"],
    ];
    const types = [
      "text/plain",
      "text/plain; application/json",
      "application/x-www-form-urlencoded",
      "multipart/form-data",
      "application/jsonx",
      "application/json, text/plain",
      "application/json; charset=utf-16",
    ];
    for (const [method, path] of calls) {
      const bare = await fetch(agent.url + path, { method });
      assertEquals([path, bare.status], [path, 415]);
      assertEquals((await bare.json()).code, "UnsupportedMediaType");
      for (const type of types) {
        const answer = await agent.call(method, path, "{}", { "content-type": type });
        assertRefused(answer, 415, "UnsupportedMediaType");
      }
      const packed = await agent.call(method, path, "{}", { "content-encoding": "gzip" });
      assertRefused(packed, 415, "UnsupportedMediaType");
    }
    assertEquals(objectOf(await agent.call("GET", `/jobs/${uuid}`)).execution, "queued");
  }, { routes: [extraRoutes()] });
});

Deno.test("every spelling of a JSON content type is taken", async () => {
  await withHttpAgent(async (agent) => {
    const types = [
      "application/json",
      "Application/JSON;charset=UTF-8",
      'application/json ; charset="utf-8"',
      "application/json; charset=us-ascii",
      "application/vnd.example+json",
    ];
    for (const type of types) {
      const answer = await agent.call("POST", "/workflows", '{"name":"x"}', {
        "content-type": type,
      });
      assertEquals([type, answer.status], [type, 201]);
    }
  });
});

Deno.test("malformed JSON answers 400 on every route that reads a body", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const bodies = ["{", '{"a":}', "{'a':1}", "[1,]", "NaN", '{"a":1}{"b":2}', "\u0000", "{a:1}"];
    const paths = [
      "/workflows",
      "/jobs",
      `/jobs/${uuid}/cancel`,
      `/jobs/${uuid}/resume`,
      `/jobs/${uuid}/info`,
      "/agent/v1/machines",
    ];
    for (const path of paths) {
      for (const body of bodies) {
        assertRefused(await agent.call("POST", path, body), 400, "InvalidContent");
      }
    }
    assertRefused(await agent.call("PUT", `/workflows/${NO_UUID}`, "{"), 400, "InvalidContent");
    assertEquals(objectOf(await agent.call("GET", `/jobs/${uuid}`)).execution, "queued");
  });
});

Deno.test("a body nested deeper than its limit is refused, however deep", async () => {
  await withHttpAgent(async (agent) => {
    const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;
    const post = (inner: string) =>
      agent.call("POST", "/workflows", `{"name":"x","data":${inner}}`);
    assertEquals((await post(nested(63))).status, 201);
    for (const depth of [64, 1000, 500_000]) {
      assertRefused(await post(nested(depth)), 400, "InvalidContent");
    }
    assertRefused(await post("[".repeat(500_000)), 400, "InvalidContent");
  });
});

Deno.test("a body over its limit answers 413, found by its length or while it is read", async () => {
  await withHttpAgent(async (agent) => {
    const body = JSON.stringify({ name: "x", text: "y".repeat(1000) });
    assertRefused(await agent.call("POST", "/workflows", body), 413, "RequestEntityTooLarge");
    // A stream has no length: it is sent in chunks.
    const bytes = new TextEncoder().encode(body);
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += 100) {
          controller.enqueue(bytes.slice(at, at + 100));
        }
        controller.close();
      },
    });
    const headers = { "content-type": "application/json" };
    const chunked = await fetch(`${agent.url}/workflows`, {
      method: "POST",
      headers,
      body: stream,
    });
    assertEquals([chunked.status, (await chunked.json()).code], [413, "RequestEntityTooLarge"]);
    assertEquals((await agent.call("POST", "/workflows", { name: "x" })).status, 201);
  }, { limits: { ...DEFAULT_HTTP_LIMITS, bodyBytesMax: 500 } });
});
