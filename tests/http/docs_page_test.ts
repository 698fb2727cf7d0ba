// GET /docs: the description of the agent as a page for people.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { PAGE_STYLE } from "../../src/http/openapi/page.ts";
import { withHttpAgent } from "./http_agent.ts";
import { OPENAPI, OPERATIONS } from "./openapi_operations.ts";

Deno.test("GET /docs shows every operation, parameter and schema of the description", async () => {
  await withHttpAgent(async (agent) => {
    const { status, headers, text } = await agent.call("GET", "/docs");
    assertEquals([status, headers.get("content-type")], [200, "text/html; charset=utf-8"]);
    assert(OPERATIONS.length > 50);
    for (const { id, method, path, parameters } of OPERATIONS) {
      assertStringIncludes(text, `<article id="${id}">`);
      assertStringIncludes(text, `<h3><code>${method.toUpperCase()} ${path}</code></h3>`);
      for (const { name } of parameters) {
        assertStringIncludes(text, `<td><code>${name}</code></td>`);
      }
    }
    const { components } = OPENAPI as { components: { schemas: Record<string, unknown> } };
    for (const name of Object.keys(components.schemas)) {
      assertStringIncludes(text, `<h3 id="schema-${name}">${name}</h3>`);
    }
    // Backquotes mark code, and bodies of tasks in the examples are text.
    assert(!/undefined|\[object|`[a-z/]+`<\/(?:p|li|td)>/.test(text));
    assertStringIncludes(text, "&quot;body&quot;: &quot;async (job, cb) =&gt; {");
  });
});

Deno.test("every link of /docs leads to a place on the page, or to the agent", async () => {
  await withHttpAgent(async (agent) => {
    const { text } = await agent.call("GET", "/docs");
    const places = new Set(Array.from(text.matchAll(/ id="([^"]+)"/g), ([, id]) => id));
    const links = Array.from(text.matchAll(/<a href="([^"]+)"/g), ([, to = ""]) => to);
    const lost = links.filter((to) => to.startsWith("#") && !places.has(to.slice(1)));
    assertEquals(lost, []);
    assertEquals(
      new Set(links.filter((to) => !to.startsWith("#"))),
      new Set(["/openapi.json", "/ui"]),
    );
  });
});

Deno.test("/docs loads nothing, runs nothing, and may not be shown by another site", async () => {
  await withHttpAgent(async (agent) => {
    const { headers, text } = await agent.call("GET", "/docs");
    const policy = headers.get("content-security-policy") ?? "";
    const digest = new Uint8Array(
      await crypto.subtle.digest("SHA-256", new TextEncoder().encode(PAGE_STYLE)),
    );
    assertStringIncludes(policy, "default-src 'none'");
    assertStringIncludes(policy, `style-src 'sha256-${btoa(String.fromCharCode(...digest))}'`);
    assertStringIncludes(policy, "frame-ancestors 'none'");
    assert(!policy.includes("script-src") && !policy.includes("unsafe"));
    assert(!/<script|style=| on[a-z]+=/.test(text.replaceAll(/<pre>[^]*?<\/pre>/g, "")));
    assertStringIncludes(text, `<style>${PAGE_STYLE}</style>`);
  });
});

Deno.test("/docs is kept by its tag, compressed, and shows this agent's limits", async () => {
  await withHttpAgent(async (agent) => {
    const plain = { "accept-encoding": "identity" };
    const { headers, text } = await agent.call("GET", "/docs", undefined, plain);
    const tag = headers.get("etag") ?? "";
    assertMatch(tag, /^"[0-9a-f]{64}"$/);
    const again = await agent.call("GET", "/docs", undefined, { "if-none-match": tag });
    assertEquals([again.status, again.text], [304, ""]);
    const packed = await agent.call("GET", "/docs", undefined, { "accept-encoding": "br" });
    assertEquals([packed.headers.get("content-encoding"), packed.text], ["br", text]);
    assertEquals((await agent.call("POST", "/docs", {})).status, 405);
    const { text: document } = await agent.call("GET", "/openapi.json");
    const [, bytes = ""] = /A body has at most (\d+) bytes/.exec(document) ?? [];
    assertStringIncludes(text, `A body has at most ${bytes} bytes`);
  });
});
