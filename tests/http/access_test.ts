import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Token, TokenScope } from "../../src/domain/token.ts";
import { tokenText } from "../../src/domain/token.ts";
import type { AuditEntry } from "../../src/http/audit_trail.ts";
import type { Access } from "../../src/http/caller.ts";
import type { AppDeps } from "../../src/http/app_deps.ts";
import { DEFAULT_HTTP_LIMITS } from "../../src/http/app_deps.ts";
import { listed, rawCall } from "./raw_call.ts";
import {
  assertRefused,
  type HttpAgent,
  newJob,
  newWorkflow,
  NO_UUID,
  withHttpAgent,
} from "./http_agent.ts";

const READ = tokenText(new Uint8Array(32).fill(1));
const ADMIN = tokenText(new Uint8Array(32).fill(2));
const UNKNOWN = tokenText(new Uint8Array(32).fill(3));

async function tokenOf(name: string, scope: TokenScope, text: string): Promise<Token> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const sha256 = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0"));
  return { name, scope, sha256: sha256.join(""), created_at: "2026-01-01T00:00:00.000Z" };
}

/** Runs a test with an agent that knows two tokens, and wants one unless told otherwise. */
async function withTokens(
  run: (agent: HttpAgent, entries: AuditEntry[]) => Promise<void>,
  { required = true, ...changes }: Partial<AppDeps> & { required?: boolean } = {},
): Promise<void> {
  const tokens = [await tokenOf("reader", "read", READ), await tokenOf("boss", "admin", ADMIN)];
  const access: Access = {
    wantsToken: () => required,
    tokens: () => Promise.resolve(tokens),
    nowMs: () => 0,
  };
  const entries: AuditEntry[] = [];
  const append = (entry: AuditEntry) => Promise.resolve(void entries.push(entry));
  await withHttpAgent((agent) => run(agent, entries), {
    access,
    auditTrail: { append },
    ...changes,
  });
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

Deno.test("a request without a known token answers 401 with a challenge", async () => {
  await withTokens(async (agent) => {
    for (
      const authorization of [
        undefined,
        "",
        "Basic cm9vdDpyb290",
        "Bearer",
        "Bearer  ",
        `Bearer ${UNKNOWN}`,
        `Bearer ${ADMIN}x`,
        `Bearer ${ADMIN.slice(0, -1)}`,
        `Bearer ${ADMIN} ${ADMIN}`,
        `Bearer ${READ}, Bearer ${ADMIN}`,
        `Token ${ADMIN}`,
        ADMIN,
      ]
    ) {
      const headers = authorization === undefined ? {} : { authorization };
      const answer = await agent.call("GET", "/jobs", undefined, headers);
      assertRefused(answer, 401, "Unauthorized");
      assertEquals(answer.headers.get("www-authenticate"), 'Bearer realm="zonewright"');
    }
    assertEquals((await agent.call("GET", "/jobs", undefined, bearer(ADMIN))).status, 200);
    const spelled = { authorization: `bearer ${ADMIN}` };
    assertEquals((await agent.call("GET", "/jobs", undefined, spelled)).status, 200);
  });
});

Deno.test("a token is wanted for every path, known or not, and is no part of a URL", async () => {
  await withTokens(async (agent) => {
    for (
      const path of ["/", "/ping", "/nothing", "/openapi.json", "/stats", "/agent/v1/machines"]
    ) {
      assertEquals([path, (await agent.call("GET", path)).status], [path, 401]);
    }
    for (const name of ["access_token", "token", "authorization"]) {
      const answer = await agent.call("GET", `/jobs?${name}=${ADMIN}`);
      assertEquals(answer.status, 401);
    }
    const cookie = { cookie: `token=${ADMIN}` };
    assertEquals((await agent.call("GET", "/jobs", undefined, cookie)).status, 401);
    assertEquals(JSON.stringify(agent.log).includes(ADMIN), false);
  });
});

Deno.test("the scope read may GET and HEAD, and nothing that changes or shows a secret", async () => {
  await withTokens(async (agent) => {
    const read = bearer(READ);
    assertEquals((await agent.call("GET", "/jobs", undefined, read)).status, 200);
    assertEquals((await agent.call("HEAD", "/jobs", undefined, read)).status, 200);
    const machine = `/agent/v1/machines/${NO_UUID}`;
    const refused: [string, string, unknown?][] = [
      ["POST", "/jobs", {}],
      ["POST", "/workflows", {}],
      ["PUT", `/workflows/${NO_UUID}`, {}],
      ["DELETE", `/workflows/${NO_UUID}`],
      ["POST", `/jobs/${NO_UUID}/cancel`, {}],
      ["POST", `/jobs/${NO_UUID}/info`, {}],
      ["POST", "/agent/v1/machines", {}],
      ["DELETE", machine],
      ["POST", "/nothing", {}],
      ["PATCH", "/jobs", {}],
      ["GET", `${machine}/vnc`],
      ["HEAD", `${machine}/vnc`],
      ["GET", `${machine}/console`],
      ["GET", `${machine}/%76nc`],
      ["GET", `${machine}/vnc?x=1`],
    ];
    for (const [method, path, body] of refused) {
      const { status } = await agent.call(method, path, body, read);
      assertEquals([method, path, status], [method, path, 403]);
    }
    // Not the secret's path, whatever it looks like: nothing is served there.
    for (const path of [`${machine}//vnc`, `${machine}/vnc/`, `${machine}/VNC`]) {
      const { status } = await agent.call("GET", path, undefined, read);
      assertEquals([path, status], [path, 404]);
    }
    const webSocket = listed([
      `GET ${machine}/console HTTP/1.1`,
      `Host: 127.0.0.1:${agent.port}`,
      `Authorization: Bearer ${READ}`,
      "Upgrade: websocket",
      "Connection: Upgrade",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]);
    assertEquals((await rawCall(agent.port, webSocket, { firstOnly: true })).status, 403);
  });
});

Deno.test("a token that is shown where none is wanted is judged too", async () => {
  await withTokens(async (agent) => {
    assertEquals((await agent.call("GET", "/jobs")).status, 200);
    assertEquals((await agent.call("GET", "/jobs", undefined, bearer(UNKNOWN))).status, 401);
    assertEquals((await agent.call("POST", "/jobs", {}, bearer(READ))).status, 403);
    const basic = { authorization: "Basic cm9vdDpyb290" };
    assertEquals((await agent.call("GET", "/jobs", undefined, basic)).status, 200);
  }, { required: false });
});

Deno.test("a token does not excuse a foreign Host or Origin", async () => {
  await withTokens(async ({ port }) => {
    const get = (...headers: string[]) =>
      rawCall(
        port,
        listed([
          "GET /jobs HTTP/1.1",
          ...headers,
          `Authorization: Bearer ${ADMIN}`,
          "Connection: close",
        ]),
      );
    assertEquals((await get("Host: evil.example")).status, 403);
    assertEquals((await get("Host: localhost", "Origin: http://evil.example")).status, 403);
    assertEquals((await get("Host: localhost")).status, 200);
  });
});

Deno.test("a thousand failed logins are counted, told once, and name no token", async () => {
  await withTokens(async (agent) => {
    const attempts = 1000;
    for (let sent = 0; sent < attempts; sent += 50) {
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => agent.call("GET", "/jobs", undefined, bearer(UNKNOWN))),
      );
      assertEquals(new Set(answers.map(({ status }) => status)), new Set([401]));
    }
    const told = agent.log.filter(({ msg }) => msg === "tokens refused");
    assertEquals(told.map(({ count, last_peer }) => [count, last_peer]), [[1, "127.0.0.1"]]);
    assertEquals(JSON.stringify(agent.log).includes(UNKNOWN), false);
    assertEquals((await agent.call("GET", "/jobs", undefined, bearer(ADMIN))).status, 200);
  });
});

Deno.test("every call that changes something is audited, refused or not, without what was sent", async () => {
  await withTokens(async (agent, entries) => {
    const secret = "hunter2";
    const workflow = await newWorkflow(agent);
    const job = await newJob(agent, { workflow, password: secret });
    await agent.call("POST", `/jobs/${job}/cancel`, {}, bearer(ADMIN));
    await agent.call("POST", "/jobs", { workflow }, bearer(READ));
    await agent.call("POST", "/jobs", { workflow }, bearer(UNKNOWN));
    await agent.call("GET", `/agent/v1/machines/${NO_UUID}/vnc`);
    await agent.call("GET", "/jobs");
    const short = entries.map(({ who, peer, method, path, status, job_uuid }) =>
      [who, peer, method, path, status, job_uuid].join(" ").trim()
    );
    assertEquals(short, [
      `loopback 127.0.0.1 POST /workflows 201`,
      `loopback 127.0.0.1 POST /jobs 201 ${job}`,
      `token:boss 127.0.0.1 POST /jobs/${job}/cancel 200`,
      `token:reader 127.0.0.1 POST /jobs 403`,
      `refused 127.0.0.1 POST /jobs 401`,
      `loopback 127.0.0.1 GET /agent/v1/machines/${NO_UUID}/vnc 404`,
    ]);
    assertEquals(agent.log.filter(({ msg }) => msg === "call audited").length, entries.length);
    for (const text of [JSON.stringify(entries), JSON.stringify(agent.log)]) {
      for (const word of [secret, ADMIN, READ, UNKNOWN]) assert(!text.includes(word));
    }
  }, { required: false });
});

Deno.test("a head with too many or too long fields is refused, and the next one is answered", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, headerFieldsMax: 10, headerCharsMax: 1000 };
  await withHttpAgent(async (agent) => {
    const many = Object.fromEntries(Array.from({ length: 11 }, (_, at) => [`x-${at}`, "1"]));
    const fields = await agent.call("GET", "/ping", undefined, many);
    assertMatch(assertRefused(fields, 400, "InvalidContent"), /over 10 header fields/);
    const long = await agent.call("GET", "/ping", undefined, { "x-long": "a".repeat(1000) });
    assertMatch(assertRefused(long, 400, "InvalidContent"), /over 1000 characters/);
    assertEquals((await agent.call("GET", "/ping")).status, 200);
    for (const size of [50_000, 2_000_000]) {
      const huge = listed(["GET /ping HTTP/1.1", "Host: localhost", `X: ${"a".repeat(size)}`]);
      const { status } = await rawCall(agent.port, huge, { firstOnly: true });
      assert([0, 400, 431].includes(status), String(status));
    }
    assertEquals((await agent.call("GET", "/ping")).status, 200);
  }, { limits });
});

Deno.test("a request whose length is told in two ways reaches no second request", async () => {
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
