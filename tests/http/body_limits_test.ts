// How large a body may be on which route, how long it may take, and that slow ones keep nobody from
// looking.

import { assertEquals, assertMatch } from "@std/assert";
import { DEFAULT_HTTP_LIMITS } from "../../src/http/app_deps.ts";
import { until } from "../support/until.ts";
import { assertRefused, NO_UUID, withHttpAgent } from "./http_agent.ts";
import { listed, rawCall } from "./raw_call.ts";

const HEAD = ["POST /workflows HTTP/1.1", "Host: localhost", "Content-Type: application/json"];

Deno.test("routes that need a few words take small bodies only", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, smallBodyBytesMax: 100, infoEntryBytesMax: 50 };
  await withHttpAgent(async (agent) => {
    const job = `/jobs/${NO_UUID}`;
    const sizes: [string, number][] = [
      [`${job}/cancel`, 100],
      [`/agent/v1${job}/retry`, 100],
      ["/agent/v1/jobs/cancel", 100],
      ["/agent/v1/jobs/prune", 100],
      [`${job}/info`, 200],
    ];
    for (const [path, bytesMax] of sizes) {
      const body = JSON.stringify({ x: "y".repeat(bytesMax) });
      const answer = await agent.call("POST", `${path}?a=/workflows`, body);
      const message = assertRefused(answer, 413, "RequestEntityTooLarge");
      assertMatch(message, new RegExp(`over ${bytesMax} bytes`));
      const fitting = await agent.call("POST", path, "{}");
      assertEquals([path, fitting.status === 413], [path, false]);
    }
    const large = JSON.stringify({ x: "y".repeat(1000) });
    assertEquals((await agent.call("POST", "/workflows", large)).status, 409);
  }, { limits });
});

Deno.test("a body that takes too long is refused", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, bodySeconds: 1 };
  await withHttpAgent(async ({ port }) => {
    const half = `${listed([...HEAD, "Content-Length: 100"])}{`;
    const answer = await rawCall(port, half, { firstOnly: true });
    assertEquals(answer.status, 400);
    assertMatch(answer.text, /did not arrive within 1 seconds/);
  }, { limits });
});

Deno.test("slow bodies leave places for those who only ask", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, requestsMax: 16 };
  await withHttpAgent(async (agent) => {
    const slow = await Promise.all(
      Array.from({ length: 30 }, async () => {
        const connection = await Deno.connect({ hostname: "127.0.0.1", port: agent.port });
        const half = `${listed([...HEAD, "Content-Length: 100"])}{`;
        await connection.write(new TextEncoder().encode(half));
        return connection;
      }),
    );
    try {
      await until(
        "the places to be taken",
        async () => (await agent.call("POST", "/workflows", {})).status === 503,
      );
      assertEquals((await agent.call("GET", "/stats")).status, 200);
    } finally {
      for (const connection of slow) connection.close();
    }
    await until(
      "the places to be free",
      async () => (await agent.call("POST", "/workflows", {})).status === 409,
    );
  }, { limits });
});
