// Callers who are not known: probes are answered all the same.

import { assertEquals } from "@std/assert";
import { createApp } from "../../src/http/app.ts";
import { readinessRoutes } from "../../src/http/routes/monitoring.ts";
import { listed, rawCall } from "./raw_call.ts";
import { bearer, READ, UNKNOWN, withTokens } from "./token_agent.ts";

Deno.test("/readyz answers one word without a token, and every check with one", async () => {
  const ready = { ready: true, checks: { disk: { status: "ok", detail: "9 MiB free" } } } as const;
  await withTokens(async (agent) => {
    const get = async (path: string, headers: HeadersInit = {}) =>
      (await agent.call("GET", path, undefined, headers)).body;
    assertEquals(await get("/healthz"), { status: "ok" });
    assertEquals(await get("/readyz"), { status: "ready" });
    assertEquals((await agent.call("HEAD", "/readyz")).status, 200);
    const { checks } = ready;
    assertEquals(await get("/readyz", bearer(READ)), { status: "ready", checks });
    const refused: [string, string, HeadersInit][] = [
      ["GET", "/readyz", bearer(UNKNOWN)],
      ["GET", "/healthz/", {}],
      ["GET", "/healthz/../jobs", {}],
      ["GET", "/readyz", { upgrade: "websocket" }],
      ["POST", "/healthz", {}],
      ["DELETE", "/readyz", {}],
    ];
    for (const [method, path, headers] of refused) {
      const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
      const lines = [`${method} ${path} HTTP/1.1`, "Host: localhost", ...head, "Connection: close"];
      const { status } = await rawCall(agent.port, listed(lines));
      assertEquals([method, path, status], [method, path, 401]);
    }
  }, { routes: [readinessRoutes(() => Promise.resolve(ready))] });
  await withTokens(async (agent) => {
    assertEquals((await agent.call("GET", "/readyz")).body, { status: "ready", checks: {} });
  }, {
    required: false,
    routes: [readinessRoutes(() => Promise.resolve({ ready: true, checks: {} }))],
  });
});

Deno.test("over TLS the answer to an unknown caller closes the connection, that to a known one does not", async () => {
  await withTokens(async ({ context }) => {
    const app = createApp(context);
    const remote: Deno.NetAddr = { transport: "tcp", hostname: "192.0.2.1", port: 1 };
    const closes = async (path: string, headers: HeadersInit, secure: boolean) => {
      const request = new Request(`https://localhost${path}`, { headers });
      const answer = await app.request(request, undefined, { remote, secure });
      await answer.body?.cancel();
      return answer.headers.get("connection") === "close";
    };
    assertEquals(await closes("/jobs", {}, true), true);
    assertEquals(await closes("/healthz", {}, true), true);
    assertEquals(await closes("/jobs", bearer(UNKNOWN), true), true);
    assertEquals(await closes("/jobs", bearer(READ), true), false);
    assertEquals(await closes("/healthz", {}, false), false);
  });
});
