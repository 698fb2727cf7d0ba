// Sessions of a browser: what a cookie allows, what it does not, and when it ends.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { openSessions, SESSION_SECONDS } from "../../src/http/request/sessions.ts";
import { type Answer, BODY, type HttpAgent, newJob, newWorkflow } from "./http_agent.ts";
import { ADMIN, bearer, READ, UNKNOWN, withTokens } from "./token_agent.ts";

const SESSION = "/agent/v1/session";

interface SessionBody {
  readonly caller: string | null;
  readonly scope: string | null;
  readonly csrf: string | null;
  readonly expires_at: string | null;
}

function assertDenied({ status, body }: Answer, expected: number, message: RegExp): void {
  assertEquals(status, expected);
  assertMatch((body as { message: string }).message, message);
}

async function signIn(agent: HttpAgent, token: string) {
  const { status, headers, body } = await agent.call("POST", SESSION, { token });
  assertEquals(status, 200);
  const cookie = headers.get("set-cookie") ?? "";
  const { csrf } = body as SessionBody;
  return { line: cookie, headers: { cookie: cookie.split(";")[0] ?? "" }, csrf: csrf ?? "" };
}

Deno.test("a session's cookie is for this site and port only, and no script can read it", async () => {
  await withTokens(async (agent) => {
    const { line, csrf } = await signIn(agent, ADMIN);
    assertMatch(
      line,
      new RegExp(
        `^zonewright_session_${agent.port}=[\\w-]{43}; Path=/; Max-Age=${SESSION_SECONDS}; ` +
          "HttpOnly; SameSite=Strict$",
      ),
    );
    assertMatch(csrf, /^[\w-]{43}$/);
    assert(!line.includes(csrf) && !line.includes(ADMIN));
  });
});

Deno.test("a session reads with its cookie alone, and changes only with its text as well", async () => {
  await withTokens(async (agent, entries) => {
    const { headers, csrf } = await signIn(agent, ADMIN);
    assertEquals((await agent.call("GET", "/jobs", undefined, headers)).status, 200);
    const all = { ...headers, "x-csrf-token": csrf };
    const workflow = { name: "sample", chain: [{ name: "first", body: BODY }] };
    assertEquals((await agent.call("POST", "/workflows", workflow, all)).status, 201);
    for (const shown of [{}, { "x-csrf-token": "" }, { "x-csrf-token": `${csrf.slice(1)}A` }]) {
      assertDenied(
        await agent.call("POST", "/workflows", workflow, { ...headers, ...shown }),
        403,
        /^Cannot POST "\/\S+" with a session: x-csrf-token is (missing|not that of the session), expected/,
      );
    }
    assertEquals(entries.map(({ who, status }) => `${who} ${status}`), [
      "token:boss 200",
      "token:boss 201",
      ...Array.from({ length: 3 }, () => "token:boss 403"),
    ]);
  });
});

Deno.test("the session of a read token cannot change anything, and can be ended", async () => {
  await withTokens(async (agent) => {
    const { headers, csrf } = await signIn(agent, READ);
    const all = { ...headers, "x-csrf-token": csrf };
    const found = (await agent.call("GET", SESSION, undefined, headers)).body as SessionBody;
    assertEquals([found.caller, found.scope, found.csrf], ["token:reader", "read", csrf]);
    assertDenied(await agent.call("POST", "/workflows", {}, all), 403, /"read", expected "admin"/);
    assertDenied(await agent.call("DELETE", SESSION, undefined, headers), 403, /with a session/);
    const ended = await agent.call("DELETE", SESSION, undefined, all);
    assertEquals(ended.status, 204);
    assertMatch(ended.headers.get("set-cookie") ?? "", /=; Path=\/; Max-Age=0; HttpOnly/);
    assertDenied(await agent.call("GET", "/jobs", undefined, headers), 401, /none was sent/);
  });
});

Deno.test("signing in with an unknown token is refused, and asking for the session needs none", async () => {
  await withTokens(async (agent) => {
    for (const token of [UNKNOWN, "hunter2"]) {
      const refused = await agent.call("POST", SESSION, { token });
      assertDenied(
        refused,
        403,
        /^Cannot sign in: the token is unknown or was revoked, expected one /,
      );
      assertEquals(refused.headers.get("set-cookie"), null);
    }
    assertDenied(await agent.call("POST", SESSION, {}), 409, /token/);
    const asked = await agent.call("GET", SESSION);
    assertEquals(asked.body, { caller: null, scope: null, csrf: null, expires_at: null });
    assertEquals(asked.headers.get("cache-control"), "no-store");
  });
});

Deno.test("without tokens a caller is known, and needs no session", async () => {
  await withTokens(async (agent) => {
    const { body } = await agent.call("GET", SESSION);
    assertEquals(body, { caller: "loopback", scope: "admin", csrf: null, expires_at: null });
    // A cookie that is not known leaves the caller what it is.
    const cookie = `zonewright_session_${agent.port}=${"A".repeat(43)}`;
    await newJob(agent, { workflow: await newWorkflow(agent) });
    assertEquals((await agent.call("GET", "/jobs", undefined, { cookie })).status, 200);
    // One who has signed in keeps to the rights of the token.
    const { headers, csrf } = await signIn(agent, READ);
    const all = { ...headers, "x-csrf-token": csrf };
    assertDenied(await agent.call("POST", "/workflows", {}, all), 403, /"read"/);
  }, { required: false });
});

Deno.test("a sent token takes precedence over a session, and a wrong one is refused", async () => {
  await withTokens(async (agent) => {
    const { headers } = await signIn(agent, ADMIN);
    const both = (token: string) => ({ ...headers, ...bearer(token) });
    assertDenied(await agent.call("GET", "/jobs", undefined, both(UNKNOWN)), 401, /unknown/);
    assertDenied(await agent.call("POST", "/workflows", {}, both(READ)), 403, /"read"/);
  });
});

Deno.test("a session ends with its time, and the oldest one when there are too many", async () => {
  const clock = { ms: 0 };
  const sessions = openSessions(() => clock.ms);
  const request = (id: string) =>
    new Request("http://localhost:8780/", {
      headers: { host: "localhost:8780", cookie: `other=1; zonewright_session_8780=${id}` },
    });
  const token = { name: "boss", scope: "admin" } as const;
  const first = await sessions.begin(token);
  clock.ms = SESSION_SECONDS * 1000 - 1;
  assertEquals((await sessions.of(request(first.id), false))?.seconds, 1);
  // A stream asks the session that it was opened with.
  assertEquals(first.session.stands(), true);
  clock.ms += 1;
  assertEquals(first.session.stands(), false);
  const signedOut = await sessions.begin(token);
  await sessions.end(request(signedOut.id), false);
  assertEquals(signedOut.session.stands(), false);
  assertEquals(await sessions.of(request(first.id), false), undefined);
  const begun = [];
  for (let at = 0; at < 1001; at++) begun.push((await sessions.begin(token)).id);
  const known = await Promise.all(begun.map((id) => sessions.of(request(id), false)));
  assertEquals(known.map((one) => one !== undefined).indexOf(true), 1);
});

Deno.test("a session ends with the token that began it", async () => {
  await withTokens(async (agent) => {
    const { headers } = await signIn(agent, ADMIN);
    const { access } = agent.context;
    assertEquals((await agent.call("GET", "/jobs", undefined, headers)).status, 200);
    const left = (await access?.tokens() ?? []).filter(({ name }) => name !== "boss");
    Object.assign(access ?? {}, { tokens: () => Promise.resolve(left) });
    assertDenied(await agent.call("GET", "/jobs", undefined, headers), 401, /none was sent/);
  });
});
