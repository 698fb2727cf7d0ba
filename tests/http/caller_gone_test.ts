// A caller who hangs up is no failure of the agent, whatever was under way for it.

import { assertEquals } from "@std/assert";
import { Hono } from "hono";
import type { HttpEnv } from "../../src/http/served_agent.ts";
import { AgentError } from "../../src/domain/error.ts";
import { until } from "../support/until.ts";
import { withHttpAgent } from "./http_agent.ts";

Deno.test("a POST whose caller hung up is logged with its reason, and not as a failure", async () => {
  for (const kind of ["known", "thrown by the signal"]) {
    const begun = Promise.withResolvers<void>();
    const slow = new Hono<HttpEnv>();
    slow.post("/slow", async (c) => {
      const { signal } = c.req.raw;
      const gone = Promise.withResolvers<void>();
      signal.addEventListener("abort", () => gone.resolve());
      begun.resolve();
      await gone.promise;
      if (kind === "known") throw new AgentError("aborted", "Cannot check it: it was given up");
      throw new DOMException("It was given up", "AbortError");
    });
    await withHttpAgent(async ({ port, log }) => {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port });
      const head = "POST /slow HTTP/1.1\r\nhost: localhost\r\nx-request-id: gone\r\n" +
        "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
      await connection.write(new TextEncoder().encode(head));
      await begun.promise;
      connection.close();
      const line = await until("its line", () => log.find((one) => one.request_id === "gone"));
      const { level, msg, code, path, stack } = line;
      assertEquals([level, msg, code, path, stack], [
        "info",
        "request aborted",
        "aborted",
        "/slow",
        undefined,
      ]);
      assertEquals(String(line.reason).endsWith("given up"), true);
    }, { routes: [slow] });
  }
});

Deno.test("`aborted` stays a failure while the caller is still connected", async () => {
  const slow = new Hono<HttpEnv>();
  slow.post("/slow", () => {
    throw new AgentError("aborted", "Cannot check it: the agent ends");
  });
  await withHttpAgent(async ({ call, log }) => {
    assertEquals((await call("POST", "/slow", {})).status, 503);
    assertEquals(log.filter(({ msg }) => msg === "request failed").length, 1);
  }, { routes: [slow] });
});
