// The short way beside the long one: whatever is sent, the answers are the same, and a request that
// is refused on the long one is refused.

import { assert, assertEquals } from "@std/assert";
import { AGE_HEADER } from "../../src/http/routes/index/documents.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { withIndexAgent } from "./index_agent.ts";

const PATH = "/v1/distros/aurora/releases/24.2/index.json";

/** Headers of a request that a browser or a stranger may send; `{port}` is the agent's. */
const REQUESTS: readonly Readonly<Record<string, string>>[] = [
  {},
  { host: "localhost" },
  { host: "localhost:{port}" },
  { host: "127.0.0.1:{port}" },
  { host: "127.1.2.3" },
  { host: "[::1]:{port}" },
  { host: "LOCALHOST" },
  { host: "evil.example" },
  { host: "evil.example:{port}" },
  { host: "localhost.evil.example" },
  { host: "" },
  { host: "localhost", origin: "http://evil.example" },
  { host: "localhost", origin: "null" },
  { host: "localhost:{port}", origin: "http://localhost:{port}" },
  { host: "localhost", "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" },
  { host: "localhost", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" },
  { host: "localhost", "sec-fetch-site": "same-origin" },
  { host: "localhost", "sec-fetch-site": "same-site" },
  { host: "localhost", upgrade: "websocket" },
  { host: "localhost", "if-none-match": "*" },
  { host: "localhost", "if-none-match": '"x"' },
  { host: "localhost", "if-modified-since": "Fri, 02 Oct 2037 00:00:00 GMT" },
  { host: "localhost", "accept-encoding": "gzip" },
  { host: "localhost", "accept-encoding": "br;q=0.1, gzip;q=0.2" },
  { host: "localhost", "x-request-id": "a\tb<script>" },
  { host: "localhost", range: "bytes=0-1" },
  { host: "localhost", authorization: "Bearer none" },
  { host: "localhost", authorization: "Basic bm9uZQ==" },
  { host: "localhost", "x-padding": "x".repeat(DEFAULT_HTTP_LIMITS.headerCharsMax) },
  fieldsOf(DEFAULT_HTTP_LIMITS.headerFieldsMax),
  fieldsOf(DEFAULT_HTTP_LIMITS.headerFieldsMax + 1),
];

/** Headers of so many fields, that which send() adds included. */
function fieldsOf(count: number): Record<string, string> {
  const others = Array.from({ length: count - 2 }, (_, number) => [`x-field-${number}`, "x"]);
  return { host: "localhost", ...Object.fromEntries(others) };
}

/** Sends a request as it is written. @returns the answer without what differs each time */
async function send(
  port: number,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<string> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const lines = Object.entries({ connection: "close", ...headers })
    .map(([name, value]) => `${name}: ${value.replaceAll("{port}", String(port))}\r\n`);
  const text = `GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`;
  await connection.write(new TextEncoder().encode(text));
  const bytes = await new Response(connection.readable).bytes();
  const answer = new TextDecoder("latin1").decode(bytes);
  const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g;
  const [head = "", ...body] = answer.replace(uuid, "UUID").replace(/date: .*\r\n/, "")
    .replaceAll(String(port), "PORT").split("\r\n\r\n");
  const [status, ...fields] = head.split("\r\n");
  return [status, ...fields.sort(), "", ...body].join("\n");
}

Deno.test("the short way answers as the long one, byte for byte", async () => {
  await withIndexAgent(async ({ port, agent, get, clock, mirror, server }) => {
    const compare = async () => {
      // Now every encoding is in memory.
      for (const coding of ["identity", "gzip", "br"]) {
        await get(PATH, { "accept-encoding": coding });
      }
      for (const headers of REQUESTS) {
        for (const path of [PATH, `${PATH}?x=1`, "/v1/index.json", "/v1/none.json"]) {
          assertEquals(
            [path, headers, await send(port, path, headers)],
            [path, headers, await send(agent.port, path, headers)],
          );
        }
      }
    };
    await compare();
    // With the age of a stale tree.
    server.outage = { kind: "status", status: 403 };
    await mirror.sync();
    clock.now = "2026-11-20T13:00:00.000Z";
    assertEquals((await get(PATH)).headers.get(AGE_HEADER), "3600");
    await compare();
  });
});

Deno.test("the short way is taken by plain requests, and logs them as the long one does", async () => {
  await withIndexAgent(async ({ get, agent }) => {
    await get(PATH, { "x-request-id": "long" });
    await get(PATH, { "x-request-id": "short" });
    const lines = agent.log.filter(({ path }) => path === PATH);
    assertEquals(lines.map(({ request_id }) => request_id), ["long", "short"]);
    // Only the long way measures its time.
    assertEquals(lines.map((line) => "ms" in line), [true, false]);
    for (const line of lines) {
      const { level, msg, method, status } = line;
      assertEquals([level, msg, method, status], ["debug", "request answered", "GET", 200]);
    }
  });
});

Deno.test("the short way shows what a sync changed at once", async () => {
  await withIndexAgent(async ({ get, mirror, server }) => {
    const etag = async () => (await get(PATH)).headers.get("etag");
    const [before, held] = [await etag(), await etag()];
    assertEquals(before, held);
    const path = PATH.slice(1);
    const text = new TextDecoder().decode(server.files.get(path)?.body);
    for (const one of [path, "v1/distros/aurora/aliases/latest.json"]) {
      server.files.set(one, { body: new TextEncoder().encode(`${text}\n`), etag: '"new"' });
    }
    await mirror.sync();
    const after = [await etag(), await etag()];
    assert(after[0] !== before);
    assertEquals(after[0], after[1]);
  });
});
