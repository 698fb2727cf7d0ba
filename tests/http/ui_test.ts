// The page of the console and its files: who gets them, how they are kept, and what the page may load.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { PACKED_UI, packUi } from "../../vendors/ui.ts";
import { type HttpAgent, withHttpAgent } from "./http_agent.ts";
import { withTokens } from "./token_agent.ts";

await packUi(PACKED_UI);

async function fileNames(agent: HttpAgent): Promise<string[]> {
  const { text } = await agent.call("GET", "/ui");
  return Array.from(text.matchAll(/\/ui\/files\/[\w.-]+/g), ([name]) => name);
}

Deno.test("every address of the console is the same page, without a script or a style in it", async () => {
  await withHttpAgent(async (agent) => {
    const { status, headers, text } = await agent.call("GET", "/ui");
    assertEquals([status, headers.get("cache-control")], [200, "no-cache"]);
    const policy = headers.get("content-security-policy") ?? "";
    assert(policy.startsWith("default-src 'none'; script-src 'self'; style-src 'self';"));
    assert(!policy.includes("unsafe"));
    assert(!/<style|style=|<script(?![^>]* src=)|https?:/.test(text), text);
    for (const path of ["/ui/", "/ui/jobs", "/ui/jobs/51f5ab2c?x=1", "/ui/none/at/all"]) {
      assertEquals((await agent.call("GET", path)).text, text);
    }
    assertEquals((await agent.call("POST", "/ui", {})).status, 405);
  });
});

Deno.test("the console's files are kept for a year, and come in each encoding", async () => {
  await withHttpAgent(async (agent) => {
    const names = await fileNames(agent);
    assertEquals(names.length, 2);
    for (const name of names) {
      const texts = new Set<string>();
      for (const encoding of ["br", "gzip", "identity"]) {
        const answer = await agent.call("GET", name, undefined, { "accept-encoding": encoding });
        assertEquals(answer.status, 200);
        assertMatch(answer.headers.get("cache-control") ?? "", /max-age=31536000, immutable/);
        assertEquals(answer.headers.get("vary"), "accept-encoding");
        texts.add(answer.text);
      }
      assertEquals(texts.size, 1);
    }
    const missing = await agent.call("GET", "/ui/files/main-000000000000.js");
    assertEquals(missing.status, 404);
    assertMatch(missing.text, /has another version of it; load the page again/);
  });
});

Deno.test("/ redirects a browser to the console, and answers a program with 404", async () => {
  await withHttpAgent(async (agent) => {
    const ask = (accept: string) =>
      fetch(`${agent.url}/`, { headers: { accept }, redirect: "manual" });
    const sent = await ask("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
    assertEquals([sent.status, sent.headers.get("location")], [303, "/ui"]);
    await sent.body?.cancel();
    const other = await ask("*/*");
    assertEquals(other.status, 404);
    await other.body?.cancel();
  });
});

Deno.test("the console's page needs no token, but the routes that it reads do", async () => {
  await withTokens(async (agent) => {
    for (const path of ["/ui", "/ui/jobs", ...await fileNames(agent)]) {
      assertEquals((await agent.call("GET", path)).status, 200);
    }
    for (const path of ["/agent/v1/jobs", "/uix", "/stats"]) {
      assertEquals((await agent.call("GET", path)).status, 401);
    }
    assertEquals((await agent.call("POST", "/ui", {})).status, 401);
    const sent = await fetch(`${agent.url}/`, {
      headers: { accept: "text/html" },
      redirect: "manual",
    });
    assertEquals(sent.status, 303);
    await sent.body?.cancel();
  });
});
