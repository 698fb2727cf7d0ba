import { assert, assertEquals } from "@std/assert";
import { listed, rawCall } from "./raw_call.ts";
import { assertRefused, newJob, newWorkflow, NO_UUID, objectOf } from "./http_agent.ts";
import { ADMIN, bearer, READ, UNKNOWN, withTokens } from "./token_agent.ts";

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

Deno.test("a token is required for every path, known or not, and does not count in a URL", async () => {
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

Deno.test("the scope read allows GET and HEAD, but nothing that changes or shows a secret", async () => {
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
      ["GET", "/agent/v1/doctor"],
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

Deno.test("a token is checked even where none is required", async () => {
  await withTokens(async (agent) => {
    assertEquals((await agent.call("GET", "/jobs")).status, 200);
    assertEquals((await agent.call("GET", "/jobs", undefined, bearer(UNKNOWN))).status, 401);
    assertEquals((await agent.call("POST", "/jobs", {}, bearer(READ))).status, 403);
    const basic = { authorization: "Basic cm9vdDpyb290" };
    assertEquals((await agent.call("GET", "/jobs", undefined, basic)).status, 200);
  }, { required: false });
});

Deno.test("GET /agent/v1/whoami names the token and its scope, or the origin of the call", async () => {
  const called = async (required: boolean, headers?: Record<string, string>) => {
    let body: unknown;
    await withTokens(async (agent) => {
      const answer = await agent.call("GET", "/agent/v1/whoami", undefined, headers);
      assertEquals(answer.headers.get("cache-control"), "no-store");
      const { request_id, ...who } = objectOf(answer);
      assertEquals(request_id, answer.headers.get("x-request-id"));
      body = who;
    }, { required });
    return body;
  };
  const reader = { authenticated_by: "token", token: "reader", scope: "read" };
  assertEquals(await called(true, bearer(READ)), reader);
  assertEquals(await called(false, bearer(READ)), reader);
  assertEquals(await called(true, bearer(ADMIN)), { ...reader, token: "boss", scope: "admin" });
  assertEquals(await called(false), {
    authenticated_by: "loopback",
    token: null,
    scope: "admin",
  });
  await withTokens(async (agent) => {
    assertRefused(await agent.call("GET", "/agent/v1/whoami"), 401, "Unauthorized");
    const other = await agent.call("GET", "/agent/v1/whoami?as=boss", undefined, bearer(READ));
    assertRefused(other, 409, "InvalidArgument");
  });
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

Deno.test("a thousand failed logins are counted, logged once, and name no token", async () => {
  await withTokens(async (agent) => {
    const attempts = 1000;
    for (let sent = 0; sent < attempts; sent += 50) {
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => agent.call("GET", "/jobs", undefined, bearer(UNKNOWN))),
      );
      assertEquals(new Set(answers.map(({ status }) => status)), new Set([401]));
    }
    const reported = agent.log.filter(({ msg }) => msg === "tokens refused");
    assertEquals(reported.map(({ count, last_peer }) => [count, last_peer]), [[1, "127.0.0.1"]]);
    assertEquals(JSON.stringify(agent.log).includes(UNKNOWN), false);
    assertEquals((await agent.call("GET", "/jobs", undefined, bearer(ADMIN))).status, 200);
  });
});

Deno.test("every changing call is audited, refused or not, without its body", async () => {
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
