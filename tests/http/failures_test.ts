// What callers and the log learn when something fails that is not the caller's fault.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { Hono } from "hono";
import type { HttpEnv } from "../../src/http/served_agent.ts";
import { AgentError } from "../../src/domain/error.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { assertRefused, objectOf, withHttpAgent } from "./http_agent.ts";

Deno.test("an unknown error is answered with 500 without its text, and logged once with its stack", async () => {
  const broken = new Hono<HttpEnv>();
  broken.get("/broken", () => {
    throw new Error("secret /etc/path");
  });
  broken.get("/torn", () => {
    throw new AgentError("internal", "secret state");
  });
  broken.get("/odd", () => {
    // deno-lint-ignore no-throw-literal
    throw "secret text";
  });
  await withHttpAgent(async (agent) => {
    for (const path of ["/broken", "/torn", "/odd"]) {
      const answer = await agent.call("GET", path, undefined, { "x-request-id": `id${path}` });
      assertRefused(answer, 500, "InternalError");
      assertEquals(answer.text.includes("secret"), false);
      assertEquals(objectOf(answer).error_code, "internal");
    }
    const failures = agent.log.filter(({ level }) => level === "error");
    assertEquals(failures.length, 3);
    const [first] = failures;
    assertEquals([first?.request_id, first?.error], ["id/broken", "secret /etc/path"]);
    assertMatch(String(first?.stack), /failures_test/);
  }, { routes: [broken] });
});

Deno.test("errors that callers can act on have their own statuses", async () => {
  const failing = new Hono<HttpEnv>();
  const code: { now: AgentError } = { now: new AgentError("internal", "") };
  failing.get("/fail", () => {
    throw code.now;
  });
  await withHttpAgent(async (agent) => {
    const cases = [
      [new AgentError("overloaded", "x", { retryAfterSeconds: 7 }), 503, "7"],
      [new AgentError("storage_full", "x", { retryAfterSeconds: 5 }), 507, "5"],
      [new AgentError("host", "x"), 502, null],
      [new AgentError("upstream", "x"), 502, null],
      [new AgentError("timeout", "x"), 504, null],
      [new AgentError("aborted", "x"), 503, "1"],
      [new AgentError("forbidden", "x"), 403, null],
      [new AgentError("unauthorized", "x"), 401, null],
    ] as const;
    for (const [error, status, retryAfter] of cases) {
      code.now = error;
      const answer = await agent.call("GET", "/fail");
      assertEquals([answer.status, objectOf(answer).error_code], [status, error.code]);
      assertEquals(answer.headers.get("retry-after"), retryAfter);
    }
  }, { routes: [failing] });
});

Deno.test("an error of the store is an internal error", async () => {
  const store = await openSqliteStore(":memory:");
  await store.close();
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("GET", "/jobs");
    assert(answer.status >= 500);
    assertEquals(answer.text.includes("SELECT"), false);
  }, { store });
});
