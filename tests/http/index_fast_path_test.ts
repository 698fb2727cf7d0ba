// The fast path beside the application: whatever is sent, the answers are the same.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { listen } from "../../src/http/server.ts";
import { GRACE_MS, LISTENING } from "../support/listening.ts";
import { withFolder } from "../support/until.ts";
import { AGE_HEADER } from "../../src/http/answer/document_cache.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { expositionText } from "../../src/metrics/exposition.ts";
import { readExposition, valueOf } from "../metrics/exposition_reader.ts";
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

Deno.test("the fast path answers like the application, byte for byte", async () => {
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

/** Heads of requests on the unix socket, and the status of each. */
const SOCKET_HEADS: readonly (readonly [head: string, status: number])[] = [
  ["Host: localhost", 200],
  ["Host: evil.example", 200],
  ["Host:", 200],
  ["Host: %2Frun%2Fagent.sock", 200],
  ["X-Other: none", 200],
  ["Host: a/b", 400],
  ["Host: a?b", 400],
  ["Host: a#b", 400],
  ["Host: /", 400],
  ["Host: a\\b", 400],
];

Deno.test("on the unix socket, a Host changes nothing or is refused, with and without the fast path", async () => {
  await withIndexAgent(async ({ apps, get, agent }) => {
    await get(PATH);
    for (const relayed of [false, true]) {
      for (const [name, app] of Object.entries(apps)) {
        await withFolder(async (folder) => {
          const path = `${folder}/agent.sock`;
          const options = {
            ...LISTENING,
            socketPath: path,
            log: agent.context.log,
            relayed,
          };
          const server = await listen(app, options);
          try {
            for (const [head, status] of SOCKET_HEADS) {
              using connection = await Deno.connect({ transport: "unix", path });
              const text = `GET ${PATH} HTTP/1.1\r\n${head}\r\nConnection: close\r\n\r\n`;
              await connection.write(new TextEncoder().encode(text));
              const answer = await new Response(connection.readable).text();
              const found = Number(answer.split(" ", 2)[1]);
              assertEquals([name, relayed, head, found], [name, relayed, head, status]);
              if (status === 400) assertStringIncludes(answer, "expected the name of a host");
            }
          } finally {
            await server.shutdown(GRACE_MS);
          }
        });
      }
    }
  });
});

Deno.test("a URL without a host, as the binary makes it without a Host header, has the same path", async () => {
  await withIndexAgent(async ({ apps, get }) => {
    await get(PATH);
    const socket = { transport: "unix", path: "/run/agent.sock" } as const;
    for (const [name, app] of Object.entries(apps)) {
      for (const [path, status] of [[PATH, 200], [`${PATH}?x=1`, 200], ["/v1/none.json", 404]]) {
        const request = new Request(`http+unix://${path}`);
        const answer = await app.fetch(request, { remote: socket });
        await answer.body?.cancel();
        assertEquals([name, path, answer.status], [name, path, status]);
      }
    }
  });
});

Deno.test("the fast path serves plain requests, and logs them like the application", async () => {
  await withIndexAgent(async ({ get, agent }) => {
    await get(PATH, { "x-request-id": "application" });
    await get(PATH, { "x-request-id": "fast" });
    const lines = agent.log.filter(({ path }) => path === PATH);
    assertEquals(lines.map(({ request_id }) => request_id), ["application", "fast"]);
    // Only the application measures its time.
    assertEquals(lines.map((line) => "ms" in line), [true, false]);
    for (const line of lines) {
      const { level, msg, method, status } = line;
      assertEquals([level, msg, method, status], ["debug", "request answered", "GET", 200]);
    }
  });
});

Deno.test("the fast path shows what a sync changed at once", async () => {
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

Deno.test("the fast path counts what it answers, and leaves the rest to the application", async () => {
  await withIndexAgent(async ({ get, requests }) => {
    const counted = () =>
      valueOf(readExposition(expositionText(requests.families())), "http_requests_total", {
        route: "/v1/*",
        method: "GET",
        code: "200",
      });
    // The application answers the first, which fills the memory, and refuses the one with a token.
    assertEquals((await get(PATH)).status, 200);
    assertEquals((await get(PATH)).status, 200);
    assertEquals((await get(PATH, { authorization: "Bearer none" })).status, 401);
    assertEquals((await get(PATH)).status, 200);
    assertEquals(counted(), 2);
  });
});
