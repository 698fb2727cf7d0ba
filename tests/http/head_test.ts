// HEAD on every path that has GET: the same status and headers, and no body.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { JOB_UUID } from "../../src/http/openapi/schemas.ts";
import { DEFAULT_HTTP_LIMITS, NO_LIMIT } from "../support/limits.ts";
import { jobOf, T0 } from "../support/job.ts";
import { NO_UUID, withHttpAgent } from "./http_agent.ts";
import { withExample, withWorld } from "./openapi_agent.ts";
import { isRefused, OPERATIONS, pathOf } from "./openapi_operations.ts";
import { listed, type RawAnswer, rawCall } from "./raw_call.ts";

/** The stream of events has no length, and no end: its head is that of a stream. */
const ENDLESS = "events";
const GETS = OPERATIONS.filter((one) =>
  one.method === "GET" && !isRefused(one) && one.id !== ENDLESS
);

/** An answer as it comes, its date and what it says of the connection aside. */
async function answerTo(
  port: number,
  method: "GET" | "HEAD",
  path: string,
  lines: string[] = [],
): Promise<RawAnswer & { headers: string[] }> {
  const answer = await rawCall(
    port,
    listed([
      `${method} ${path} HTTP/1.1`,
      "host: localhost",
      "x-request-id: head-1",
      "accept-encoding: identity",
      "connection: close",
      ...lines,
    ]),
  );
  const headers = answer.head.split("\r\n").filter((line) => !/^(date|connection):/i.test(line));
  return { ...answer, headers: headers.sort() };
}

Deno.test("HEAD of every path of the description answers as GET does, without the body", async () => {
  await withWorld(async (world) => {
    for (const wording of ["document", "node-workflow"] as const) {
      for (const one of GETS) {
        await withExample(world, wording, one.id, async ({ port }) => {
          const required = one.parameters.filter((each) => each.in === "query" && each.required)
            .map(({ name, example }) => [name, String(example)]);
          const query = one.id === "job_wait" ? "timeout=0" : `${new URLSearchParams(required)}`;
          const path = `${pathOf(one)}?${query}`;
          const get = await answerTo(port, "GET", path);
          const head = await answerTo(port, "HEAD", path);
          assertEquals([one.id, head.status, head.text], [one.id, 200, ""]);
          assertEquals([one.id, head.headers], [one.id, get.headers]);
          const length = new TextEncoder().encode(get.text).byteLength;
          assert(head.headers.includes(`content-length: ${length}`), `${one.id}: ${head.head}`);
        });
      }
    }
    assert(GETS.length >= 20, `${GETS.length} paths`);
  });
});

Deno.test("HEAD of a missing resource, with an invalid query, and with a matching tag", async () => {
  await withHttpAgent(async ({ port, call }) => {
    const refused = [`/jobs/${NO_UUID}`, `/jobs/${NO_UUID}/info`, `/jobs/${NO_UUID}/wait`];
    for (const path of ["/nowhere", `/workflows/${NO_UUID}`, ...refused, "/jobs?limit=0"]) {
      const [get, head] = [await answerTo(port, "GET", path), await answerTo(port, "HEAD", path)];
      assertEquals([path, head.text, head.headers], [path, "", get.headers]);
      assert(head.status >= 400);
    }
    const etag = (await call("HEAD", "/openapi.json")).headers.get("etag");
    const line = `if-none-match: ${etag}`;
    const get = await answerTo(port, "GET", "/openapi.json", [line]);
    const head = await answerTo(port, "HEAD", "/openapi.json", [line]);
    assertEquals([head.status, head.text, head.headers], [304, "", get.headers]);
  });
});

Deno.test("HEAD of a list that is sent in pieces shows everything but its length", async () => {
  await withHttpAgent(async ({ port, store }) => {
    for (let n = 1; n <= 50; n++) await store.jobs.create(jobOf(n), NO_LIMIT);
    const outcome = await store.jobs.create(jobOf(51, { uuid: JOB_UUID as JobUuid }), NO_LIMIT);
    assertEquals(outcome.kind, "created");
    for (let n = 0; n < 50; n++) await store.info.append(JOB_UUID as JobUuid, { n }, T0, NO_LIMIT);
    for (const path of ["/jobs", "/jobs?limit=40", `/jobs/${JOB_UUID}/info`]) {
      const [get, head] = [await answerTo(port, "GET", path), await answerTo(port, "HEAD", path)];
      assertEquals([path, head.status, head.text], [path, 200, ""]);
      const reported = get.headers.filter((line) => !line.startsWith("transfer-encoding"));
      assertEquals([path, head.headers], [path, reported]);
    }
  }, { limits: { ...DEFAULT_HTTP_LIMITS, requestsMax: 1 } });
});

Deno.test("HEAD of a path that has no GET answers 405 as every other method does", async () => {
  await withHttpAgent(async ({ port }) => {
    const posts = OPERATIONS.filter((one) =>
      one.method === "POST" && !GETS.some(({ path }) => path === one.path) &&
      !one.path.startsWith("/agent/v1/index")
    );
    assert(posts.length >= 5);
    for (const one of posts) {
      const head = await answerTo(port, "HEAD", pathOf(one));
      assertEquals([one.id, head.status, head.text], [one.id, 405, ""]);
      assert(head.headers.includes("allow: POST"), head.head);
    }
  });
});
