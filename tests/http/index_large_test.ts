// Large documents of the index: they are sent in pieces, and are charged until their caller has them.

import { assertEquals } from "@std/assert";
import { type MemoryBudget, openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { until } from "../support/until.ts";
import { type IndexAgent, withIndexAgent } from "./index_agent.ts";

const PATH = "/v1/images.json";
const CHARS = 3_900_000;
/** Together more than the buffers of a connection hold. */
const REQUESTS = 8;

/** Bytes of one call for random bytes. */
const QUOTA = 65_536;

/** Puts a large document into the tree. @returns its text */
async function grow({ server, mirror }: IndexAgent, chars = CHARS): Promise<string> {
  // Of random digits, so that it is large in every encoding.
  const random = new Uint8Array(chars / 2);
  for (let at = 0; at < random.length; at += QUOTA) {
    crypto.getRandomValues(random.subarray(at, at + QUOTA));
  }
  const body = new TextEncoder().encode(JSON.stringify({ images: [], random: hexOf(random) }));
  server.files.set("v1/images.json", { body });
  await mirror.sync();
  return new TextDecoder().decode(body);
}

Deno.test("a large document is sent completely, with the headers of a small one", async () => {
  await withIndexAgent(async (agent) => {
    const text = await grow(agent, 600_000);
    for (const encoding of ["identity", "gzip", "br"]) {
      for (const method of ["GET", "GET", "HEAD"]) {
        const answer = await agent.get(PATH, { "accept-encoding": encoding }, method);
        assertEquals([answer.status, answer.text === text], [200, method === "GET"]);
        const { headers } = answer;
        assertEquals(headers.get("cache-control"), "no-cache, no-transform");
        const again = await agent.get(PATH, { "if-none-match": headers.get("etag") ?? "" });
        assertEquals([again.status, again.text], [304, ""]);
      }
    }
  });
});

Deno.test("a large document is charged while a caller reads it, even after the cache dropped it", async () => {
  const budget = openMemoryBudget();
  await withIndexAgent(async (agent) => {
    await grow(agent);
    const { hostname, port } = { hostname: "127.0.0.1", port: agent.port };
    const slow = await Deno.connect({ hostname, port });
    const request = `GET ${PATH} HTTP/1.1\r\nhost: localhost\r\n\r\n`;
    await slow.write(new TextEncoder().encode(request.repeat(REQUESTS)));
    await slow.read(new Uint8Array(1000));
    // Another version takes its place.
    await grow(agent);
    assertEquals((await agent.get(PATH)).status, 200);
    assertEquals(copies(budget), 2);
    slow.close();
    await until("the first one to be given back", () => copies(budget) === 1 ? true : undefined);
  }, budget);
});

function copies(budget: MemoryBudget): number {
  return Math.floor(budget.used("documents") / CHARS);
}

function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
