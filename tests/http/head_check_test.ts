import { assertEquals, assertMatch } from "@std/assert";
import { listed, rawCall } from "./raw_call.ts";
import { withHttpAgent } from "./http_agent.ts";

// fetch() sets Host and Origin itself, so these requests are written by hand.
function get(headers: readonly string[], path = "/jobs"): string {
  return listed([`GET ${path} HTTP/1.1`, ...headers, "Connection: close"]);
}

Deno.test("a request by a loopback name or a configured one is answered", async () => {
  await withHttpAgent(async ({ port }) => {
    for (
      const host of [
        "127.0.0.1",
        "127.0.0.2:8780",
        "localhost",
        "LOCALHOST",
        "[::1]",
        `127.0.0.1:${port}`,
        "localhost:1",
        "agent.example",
        "Agent.Example:8780",
      ]
    ) {
      assertEquals([host, (await rawCall(port, get([`Host: ${host}`]))).status], [host, 200]);
    }
  }, { allowedHosts: ["Agent.example"] });
});

Deno.test("a request by another name is refused: DNS rebinding", async () => {
  await withHttpAgent(async ({ port }) => {
    for (
      const host of [
        "evil.example",
        "evil.example:8780",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example@localhost",
        "localhost:80:80",
        "localhost:x",
        "0.0.0.0",
        "[::2]",
        "::1",
        "",
      ]
    ) {
      const answer = await rawCall(port, get([`Host: ${host}`]));
      assertEquals([host, answer.status], [host, 403]);
      assertMatch(answer.text, /"code":"Forbidden"/);
    }
    assertEquals((await rawCall(port, get([]))).status, 400);
    const spoofed = listed(["GET http+unix://x/jobs HTTP/1.1", "Host: evil", "Connection: close"]);
    assertEquals((await rawCall(port, spoofed)).status, 403);
  });
});

Deno.test("a request of a page of another origin is refused", async () => {
  await withHttpAgent(async ({ port }) => {
    const host = `Host: 127.0.0.1:${port}`;
    const refused = [
      "Origin: http://evil.example",
      "Origin: null",
      "Origin: http://127.0.0.1:1",
      `Origin: http://localhost:${port}`,
      `Origin: http://127.0.0.1:${port}.evil.example`,
      "Sec-Fetch-Site: cross-site",
      "Sec-Fetch-Site: same-site",
    ];
    for (const header of refused) {
      const answer = await rawCall(port, get([host, header]));
      assertEquals([header, answer.status], [header, 403]);
      assertEquals(/access-control/i.test(answer.head), false);
    }
    const taken = [
      `Origin: http://127.0.0.1:${port}`,
      `Origin: https://127.0.0.1:${port}`,
      "Sec-Fetch-Site: same-origin",
      "Sec-Fetch-Site: none",
      "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate",
    ];
    for (const header of taken) {
      assertEquals([header, (await rawCall(port, get([host, header]))).status], [header, 200]);
    }
  });
});

Deno.test("a CORS preflight is never granted", async () => {
  await withHttpAgent(async ({ port }) => {
    const preflight = listed([
      "OPTIONS /workflows HTTP/1.1",
      `Host: 127.0.0.1:${port}`,
      "Origin: http://evil.example",
      "Access-Control-Request-Method: POST",
      "Access-Control-Request-Headers: content-type",
      "Connection: close",
    ]);
    const answer = await rawCall(port, preflight);
    assertEquals(answer.status, 403);
    assertEquals(/access-control/i.test(answer.head), false);
  });
});

Deno.test("every response forbids browsers to guess its type", async () => {
  await withHttpAgent(async (agent) => {
    for (const path of ["/jobs", "/nothing"]) {
      const { headers } = await agent.call("GET", path);
      assertEquals(headers.get("x-content-type-options"), "nosniff");
    }
  });
});
