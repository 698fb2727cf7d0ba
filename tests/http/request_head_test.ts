// How a head may be too large, or may lie about what follows it.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { assertRefused, withHttpAgent } from "./http_agent.ts";
import { listed, rawCall } from "./raw_call.ts";
import { withTokens } from "./token_agent.ts";

Deno.test("a head with too many or too long fields is refused, and the next one is answered", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, headerFieldsMax: 10, headerCharsMax: 1000 };
  await withHttpAgent(async (agent) => {
    const many = Object.fromEntries(Array.from({ length: 11 }, (_, at) => [`x-${at}`, "1"]));
    const fields = await agent.call("GET", "/ping", undefined, many);
    const code = "RequestHeaderFieldsTooLarge";
    assertMatch(assertRefused(fields, 431, code), /more than 10 header fields/);
    const long = await agent.call("GET", "/ping", undefined, { "x-long": "a".repeat(1000) });
    assertMatch(assertRefused(long, 431, code), /over 1000 characters/);
    assertEquals((await agent.call("GET", "/ping")).status, 200);
    for (const size of [50_000, 2_000_000]) {
      const huge = listed(["GET /ping HTTP/1.1", "Host: localhost", `X: ${"a".repeat(size)}`]);
      const { status } = await rawCall(agent.port, huge, { firstOnly: true });
      assert([0, 400, 431].includes(status), String(status));
    }
    assertEquals((await agent.call("GET", "/ping")).status, 200);
  }, { limits });
});

Deno.test("a request with Content-Length and Transfer-Encoding ends its connection, and is refused where that is seen", () =>
  withFolder(async (folder) => {
    const agent = await startAgentProcess(programOfRun(), folder, ["--dev"]);
    try {
      const next = listed(["GET /ping HTTP/1.1", "Host: localhost"]);
      const chunked = "Transfer-Encoding: chunked";
      for (const line of ["GET /v1/index.json", "GET /ping", "POST /jobs", "DELETE /jobs"]) {
        for (const both of [["Content-Length: 2", chunked], [chunked, "Content-Length: 2"]]) {
          const head = [
            `${line} HTTP/1.1`,
            "Host: localhost",
            "Content-Type: application/json",
            ...both,
          ];
          // Returns when the agent has closed the connection.
          const request = `${listed(head)}2\r\n{}\r\n0\r\n\r\n${next}`;
          const answer = await rawCall(Number(new URL(agent.url).port), request);
          // The older runtime ignores the second of them, as it may.
          if (both[1] === chunked) assertEquals([line, answer.status], [line, 400]);
          assert(!answer.text.includes("HTTP/1.1"), `${line}: ${answer.text}`);
        }
      }
    } finally {
      await agent.stop();
    }
  }));

Deno.test("a request with two lengths cannot smuggle a second request", async () => {
  await withTokens(async (agent, entries) => {
    const inner = "POST /workflows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n" +
      "Content-Type: application/json\r\n\r\n{}";
    const smuggled = [
      ["Content-Length: 4", "Transfer-Encoding: chunked"],
      ["Transfer-Encoding: chunked", "Content-Length: 5"],
      ["Content-Length: 4", "Content-Length: 5"],
      ["Transfer-Encoding: chunked, identity"],
      ["Transfer-Encoding: \tchunked", "Content-Length: 4"],
      ["Transfer-Encoding : chunked", "Content-Length: 4"],
      ["Content-Length: +4"],
      ["Content-Length: 0x4"],
    ];
    for (const lengths of smuggled) {
      entries.length = 0;
      const head = [
        "POST /jobs HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        ...lengths,
      ];
      const { status } = await rawCall(agent.port, `${listed(head)}0\r\n\r\n${inner}`, {
        halfClose: true,
      });
      assert(status === 0 || status >= 400, `${lengths}: ${status}`);
      const paths = entries.map(({ path }) => path);
      assertEquals([lengths, paths.includes("/workflows")], [lengths, false]);
    }
  }, { required: false });
});
