// Calls of the agents of other hosts: what is accepted, and everything that is refused.

import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { PeerCall, PeerScope, SignedHead } from "../../src/domain/peer.ts";
import type { AuditEntry } from "../../src/http/caller.ts";
import { openCallCheck, openNonces } from "../../src/http/peers/check.ts";
import { openPeers } from "../../src/http/peers/peers.ts";
import { register } from "../store/host_suite.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { OTHER_RUNNER, T0 } from "../support/job.ts";
import { type Answer, type HttpAgent, JSON_TYPE, withHttpAgent } from "./http_agent.ts";
import {
  type Directory,
  headersOf,
  hostOf,
  MACHINE,
  newKey,
  openDirectory,
  type TestKey,
} from "./peer_case.ts";

const PATH = `/agent/v1/machines/${MACHINE}`;
const SHOW: SignedHead = { method: "GET", target: PATH };
const STOP: SignedHead = { method: "POST", target: `${PATH}/stop` };

interface Scene {
  readonly agent: HttpAgent;
  readonly directory: Directory;
  readonly key: TestKey;
  readonly audited: AuditEntry[];
  /** Sends a call that is signed as it should be, with these changes. */
  call(
    head: SignedHead,
    changes?: Partial<PeerCall> & { readonly body?: string; readonly key?: TestKey },
  ): Promise<Answer>;
  /** Sends a request with these headers. */
  send(head: SignedHead, headers: Record<string, string>, body?: string): Promise<Answer>;
}

/** Runs with the agent of host 2, which host 1 calls. */
async function withScene(
  run: (scene: Scene) => Promise<void>,
  scope: PeerScope = "admin",
): Promise<void> {
  const key = await newKey();
  const [one, own] = [hostOf(1, { public_key: key.publicKey, generation: 4 }), hostOf(2)];
  // A call that is forwarded again would go to host 1.
  const directory = openDirectory([one, own], one);
  const { book, reports } = directory;
  const check = openCallCheck({ own, scope, book, nowMs: () => directory.ms });
  const peers = openPeers({
    own,
    privateKey: key.privateKey,
    authorities: [],
    book,
    reports,
    check,
  });
  const audited: AuditEntry[] = [];
  const auditTrail = {
    append: (entry: AuditEntry) => Promise.resolve(void audited.push(entry)),
  };
  await withHttpAgent(async (agent) => {
    const send: Scene["send"] = async ({ method, target }, headers, body) => {
      const response = await fetch(agent.url + target, {
        method,
        headers: { ...(body === undefined ? {} : JSON_TYPE), ...headers },
        body: body ?? null,
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, text, body: JSON.parse(text) };
    };
    const call: Scene["call"] = async (head, { key: other = key, ...changes } = {}) =>
      await send(head, await headersOf(other, [one, own], head, changes), changes.body);
    await run({ agent, directory, key, audited, call, send });
  }, { peers, auditTrail });
}

function assertRefused({ status, text }: Answer, words: string | RegExp): void {
  assertEquals(status, 401, text);
  if (typeof words === "string") assertStringIncludes(text, words);
  else assertMatch(text, words);
}

Deno.test("a call is answered by its own host, for the caller of the agent that makes it", async () => {
  await withScene(async ({ call, audited }) => {
    const shown = await call(SHOW);
    assertEquals(shown.status, 404);
    assertStringIncludes(shown.text, "Cannot find machine");
    assertEquals((await call(STOP, { body: "{}" })).status, 404);
    assertEquals(audited.map(({ who, path }) => [who, path]), [[
      "host:gz1:token:alice",
      STOP.target,
    ]]);
  });
});

Deno.test("a dry run that was forwarded and names a third host is not forwarded again", async () => {
  await withScene(async ({ agent, call }) => {
    await register(agent.store, lifeOf(OTHER_RUNNER), [], { name: "gz3" });
    const body = JSON.stringify({
      machine: { brand: "kvm", ram: 256 },
      media: { path: "a.iso" },
      server_uuid: "gz3",
      dry_run: true,
    });
    const refused = await call({ method: "POST", target: "/agent/v1/machines" }, { body });
    assertEquals(refused.status, 409, refused.text);
    assertStringIncludes(refused.text, "another host has forwarded it already");
  });
});

Deno.test("a call by another key, or by the key of another host, is refused", async () => {
  await withScene(async ({ call, directory }) => {
    const key = await newKey();
    assertRefused(await call(SHOW, { key }), "its signature is not that of host gz1");
    directory.hosts.push(hostOf(3, { public_key: key.publicKey }));
    directory.ms += 10_000;
    assertRefused(await call(SHOW, { key }), "its signature is not that of host gz1");
    directory.hosts = directory.hosts.map((host) => ({ ...host, public_key: null }));
    directory.ms += 10_000;
    assertRefused(await call(SHOW), "its signature is not that of host gz1");
  });
});

Deno.test("a repeated call is refused", async () => {
  await withScene(async ({ send, key }) => {
    const hosts = [hostOf(1, { generation: 4 }), hostOf(2)] as const;
    const headers = await headersOf(key, hosts, SHOW);
    assertEquals((await send(SHOW, headers)).status, 404);
    assertRefused(await send(SHOW, headers), "it was sent before");
    const both = await headersOf(key, hosts, SHOW);
    const answers = await Promise.all([send(SHOW, both), send(SHOW, both)]);
    assertEquals(answers.map(({ status }) => status).sort(), [401, 404]);
  });
});

Deno.test("a repeated call is refused, even after the clock of the store was set back", async () => {
  await withScene(async ({ send, call, key, directory }) => {
    const hosts = [hostOf(1, { generation: 4 }), hostOf(2)] as const;
    const headers = await headersOf(key, hosts, SHOW);
    assertEquals((await send(SHOW, headers)).status, 404);
    directory.now = instantAfter(T0, 40_000);
    directory.ms += 40_000;
    assertEquals((await call(SHOW, { at: directory.now })).status, 404);
    directory.now = instantAfter(T0, 20_000);
    directory.ms += 10_000;
    assertRefused(await send(SHOW, headers), "it was sent before");
    // It is forgotten by now, and too old.
    directory.ms += 100_000;
    directory.now = instantAfter(T0, 120_000);
    assertRefused(await send(SHOW, headers), "it was made at");
  });
});

Deno.test("when no more calls can be remembered they are refused as overload, and none is accepted twice", () => {
  let ms = 0;
  const nonces = openNonces(() => ms);
  for (let call = 0; call < 30_000; call++) nonces.take(`call ${call}`);
  const refused = assertThrows(() => nonces.take("late"), AgentError);
  assertEquals([refused.code, refused.message], [
    "overloaded",
    "Cannot accept the call of another host: 30000 calls arrived recently, the maximum",
  ]);
  assertThrows(() => nonces.take("call 0"), AgentError, "it was sent before");
  // There is room again once the remembered calls would be refused as too old.
  ms += 100_000;
  nonces.take("late");
});

Deno.test("a call for another host, or for another start of this one, is refused", async () => {
  await withScene(async ({ call }) => {
    const { uuid } = hostOf(3);
    assertRefused(await call(SHOW, { to: { uuid, generation: 1 } }), "it is for another host");
    const to = { uuid: hostOf(2).uuid, generation: 2 };
    assertRefused(await call(SHOW, { to }), "it is for another start of this host");
  });
});

Deno.test("a call of an earlier start, or of a host that is not registered, is refused", async () => {
  await withScene(async ({ call }) => {
    const from = { uuid: hostOf(1).uuid, generation: 3 };
    assertRefused(await call(SHOW, { from }), "it is from another start of host gz1");
    const stranger = { uuid: hostOf(7).uuid, generation: 1 };
    assertRefused(await call(SHOW, { from: stranger }), "its host is not registered");
  });
});

Deno.test("a call that is too old, or too far ahead, is refused by the clock of the store", async () => {
  await withScene(async ({ call, directory }) => {
    for (const ms of [-30_000, 30_000]) {
      assertEquals((await call(SHOW, { at: instantAfter(T0, ms) })).status, 404);
    }
    for (const ms of [-30_001, 30_001]) {
      assertRefused(await call(SHOW, { at: instantAfter(T0, ms) }), /expected at most 30 s/);
    }
    // Between two readings of the store the time goes on by the clock of this host.
    directory.ms += 4_000;
    assertRefused(await call(SHOW, { at: instantAfter(T0, -27_000) }), /expected at most 30 s/);
  });
});

Deno.test("a call whose body, path, method, scope or caller was changed is refused", async () => {
  await withScene(async ({ send, call, key }) => {
    const hosts = [hostOf(1, { generation: 4 }), hostOf(2)] as const;
    const signed = (head: SignedHead, body = "") => headersOf(key, hosts, head, { body });
    const words = "its signature is not that of host gz1";
    const other = { ...STOP, target: `${PATH}/boot` };
    assertRefused(await send(other, await signed(STOP, "{}"), "{}"), words);
    assertRefused(await send({ ...SHOW, method: "DELETE" }, await signed(SHOW)), words);
    const queried = { ...SHOW, target: `${PATH}?x=1` };
    assertRefused(await send(queried, await signed(SHOW)), words);
    const forced = await send(STOP, await signed(STOP, "{}"), '{"force":true}');
    assertRefused(forced, "its body is not what was signed");
    assertRefused(await send(STOP, await signed(STOP, "{}")), "its body is not what was signed");
    const { "zonewright-call": text = "", ...rest } = await headersOf(key, hosts, STOP, {
      scope: "read",
    });
    const raised = atob(text.replaceAll("-", "+").replaceAll("_", "/"))
      .replace('"scope":"read"', '"scope":"admin"');
    const forged = btoa(raised).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    assertRefused(await send(STOP, { "zonewright-call": forged, ...rest }), words);
    assertRefused(await send(SHOW, rest), "its header is malformed");
    assertEquals((await call(SHOW)).status, 404);
  });
});

Deno.test("a body longer than calls have is refused before it is compared", async () => {
  await withScene(async ({ call }) => {
    const body = JSON.stringify({ files: ["x".repeat(70_000)] });
    assertEquals((await call({ ...STOP, target: `${PATH}/eject` }, { body })).status, 413);
  });
});

Deno.test("a forgotten host calls nothing, once the rows are read again", async () => {
  await withScene(async ({ call, directory }) => {
    assertEquals((await call(SHOW)).status, 404);
    directory.hosts = directory.hosts.map((host) => ({ ...host, forgotten: true }));
    directory.ms += 5_000;
    assertRefused(await call(SHOW), "host gz1 was forgotten");
  });
});

Deno.test("a caller keeps its scope, and gets no more than the host allows", async () => {
  await withScene(async ({ call }) => {
    const reading = { scope: "read", body: "{}" } as const;
    const refused = await call(STOP, reading);
    assertEquals(refused.status, 403);
    assertStringIncludes(refused.text, "gz1");
    assertEquals((await call({ ...SHOW, target: `${PATH}/vnc` }, { scope: "read" })).status, 403);
    assertEquals((await call(SHOW, { scope: "read" })).status, 404);
  });
  await withScene(async ({ call }) => {
    assertEquals((await call(STOP, { body: "{}" })).status, 403);
    assertEquals((await call(SHOW)).status, 404);
  }, "read");
  await withScene(async ({ call }) => {
    const refused = await call(SHOW);
    assertEquals(refused.status, 403);
    assertStringIncludes(refused.text, "peer_scope is off");
  }, "off");
});

Deno.test("calls between agents reach machines and media, and no other route", async () => {
  await withScene(async ({ call, agent }) => {
    for (const target of ["/jobs", "/workflows", "/agent/v1/session", "/agent/v1/machinesX", "/"]) {
      assertRefused(await call({ method: "GET", target }), "agents do not call this");
    }
    assertEquals((await call({ method: "GET", target: "/agent/v1/media" })).status, 200);
    assertEquals((await agent.call("GET", "/jobs")).status, 200);
  });
});

Deno.test("refused calls are logged from time to time, with why", async () => {
  await withScene(async ({ call, agent }) => {
    for (let count = 0; count < 3; count++) await call(SHOW, { key: await newKey() });
    const lines = agent.log.filter(({ msg }) => msg === "tokens refused");
    assertEquals(lines.length, 1);
    assertStringIncludes(String(lines[0]?.why), "its signature is not that of host gz1");
  });
});
