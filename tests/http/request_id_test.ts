import { assertEquals } from "@std/assert";
import { isUuid } from "../../src/domain/id.ts";
import { cleanRequestId } from "../../src/http/request/request_id.ts";
import { objectOf, withHttpAgent } from "./http_agent.ts";

Deno.test("every response has an x-request-id: the caller's, or one that is made", async () => {
  await withHttpAgent(async (agent) => {
    const calls: [string, string, unknown?][] = [
      ["GET", "/jobs"],
      ["HEAD", "/jobs"],
      ["GET", "/nothing"],
      ["DELETE", "/jobs"],
      ["POST", "/workflows", "{"],
      ["POST", "/workflows", { name: "x" }],
    ];
    for (const [method, path, body] of calls) {
      const made = await agent.call(method, path, body);
      assertEquals(isUuid(made.headers.get("x-request-id")), true);
      const sent = await agent.call(method, path, body, { "x-request-id": "mine-1" });
      assertEquals(sent.headers.get("x-request-id"), "mine-1");
      if (sent.status >= 400) assertEquals(objectOf(sent).request_id, "mine-1");
    }
    const old = await agent.call("GET", "/jobs", undefined, { "request-id": "restify" });
    assertEquals(old.headers.get("x-request-id"), "restify");
  });
});

Deno.test("the log has one line for each request, with its id and how it was answered", async () => {
  await withHttpAgent(async (agent) => {
    await agent.call("POST", "/workflows", { name: "x" }, { "x-request-id": "one" });
    await agent.call("POST", "/workflows", {}, { "x-request-id": "two" });
    await agent.call("GET", "/jobs?limit=1", undefined, { "x-request-id": "three" });
    const lines = agent.log.filter(({ msg }) => msg !== "call audited");
    const shown = lines.map(({ level, msg, request_id, method, path, status }) => [
      level,
      msg,
      request_id,
      method,
      path,
      status,
    ]);
    assertEquals(shown, [
      ["info", "request answered", "one", "POST", "/workflows", 201],
      ["info", "request refused", "two", "POST", "/workflows", 409],
      ["debug", "request answered", "three", "GET", "/jobs", 200],
    ]);
  });
});

Deno.test("cleanRequestId() keeps what is harmless in a header and a log line", () => {
  assertEquals(cleanRequestId("a-b_c.d:e/f@g+h="), "a-b_c.d:e/f@g+h=");
  assertEquals(cleanRequestId('a"b\r\nx: y{}<é>'), "abx:y");
  assertEquals(cleanRequestId("i".repeat(200))?.length, 128);
  for (const nothing of ["", "   ", "\u0000", "ééé", null, undefined]) {
    assertEquals(cleanRequestId(nothing), undefined);
  }
});
