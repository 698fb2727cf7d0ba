// Requests about machines and media of other hosts: where they go, what is sent, and what comes back. The other agent is
// a server of the test, or a whole agent.

import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { callHeaders, parseCall } from "../../src/domain/peer.ts";
import { openCallCheck } from "../../src/http/peers/check.ts";
import { openPeers } from "../../src/http/peers/peers.ts";
import { openRemoteConsole } from "../../src/http/peers/remote_console.ts";
import type { ListedHost } from "../../src/store/host_store.ts";
import { TOKEN_BYTES, tokenText } from "../../src/domain/token.ts";
import { sha256Hex } from "../../src/domain/digest.ts";
import { T0 } from "../support/job.ts";
import { CLOSED_ADDRESS } from "../support/closed_port.ts";
import { fieldsOf, type HttpAgent, objectOf, withHttpAgent } from "./http_agent.ts";
import { hostOf, MACHINE, newKey, openDirectory } from "./peer_case.ts";

const PATH = `/agent/v1/machines/${MACHINE}`;
const TOKEN = tokenText(new Uint8Array(TOKEN_BYTES).fill(7));

interface Received {
  readonly method: string;
  readonly target: string;
  readonly headers: Headers;
  readonly body: string;
}

interface Scene {
  readonly agent: HttpAgent;
  readonly received: Received[];
}

/** Runs with the agent of host 1, and a server as that of host 2, which has every machine. */
async function withOther(
  answer: (received: Received) => Response | Promise<Response>,
  run: (scene: Scene) => Promise<void>,
  changes: (address: string) => Partial<ListedHost> = (address) => ({ address }),
): Promise<void> {
  const received: Received[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const { pathname, search } = new URL(request.url);
      const { method, headers } = request;
      const one = { method, headers, target: pathname + search, body: await request.text() };
      received.push(one);
      return await answer(one);
    },
  );
  const address = `http://127.0.0.1:${server.addr.port}`;
  const { privateKey, publicKey } = await newKey();
  const own = hostOf(1, { public_key: publicKey, generation: 4 });
  const other = hostOf(2, { generation: 6, ...changes(address) });
  const { book, reports } = openDirectory([own, other], other);
  const check = openCallCheck({ own, scope: "admin", book, nowMs: () => performance.now() });
  const peers = openPeers({ own, privateKey, authorities: [], book, reports, check });
  const access = {
    requiresToken: () => false,
    tokens: async () => [{
      name: "alice",
      scope: "read" as const,
      sha256: await sha256Hex(new TextEncoder().encode(TOKEN)),
      created_at: T0,
    }],
    nowMs: () => performance.now(),
  };
  try {
    await withHttpAgent((agent) => run({ agent, received }), { peers, access });
  } finally {
    await server.shutdown();
  }
}

const DESCRIBED = () => Response.json({ uuid: MACHINE, state: "running", brand: "kvm" });

Deno.test("a forwarded request has its body, and is signed for its caller and its host", async () => {
  await withOther(() => Response.json({ job_uuid: "x" }, { status: 202 }), async (scene) => {
    const { agent, received } = scene;
    const headers = { "idempotency-key": "k1", "x-request-id": "r1", cookie: "a=b" };
    const answer = await agent.call("POST", `${PATH}/stop`, { force: true }, headers);
    assertEquals([answer.status, answer.body], [202, { job_uuid: "x" }]);
    assertEquals(answer.headers.get("x-request-id"), "r1");
    const [sent] = received;
    assert(sent !== undefined);
    assertEquals([sent.method, sent.target, sent.body], ["POST", `${PATH}/stop`, '{"force":true}']);
    assertEquals(sent.headers.get("idempotency-key"), "k1");
    assertEquals(sent.headers.get("x-request-id"), "r1");
    assertEquals([sent.headers.get("cookie"), sent.headers.get("authorization")], [null, null]);
    const call = parseCall(callHeaders(sent.headers)?.text ?? "");
    assertEquals(call?.from, { uuid: hostOf(1).uuid, generation: 4 });
    assertEquals(call?.to, { uuid: hostOf(2).uuid, generation: 6 });
    assertEquals([call?.caller, call?.scope, call?.at], ["loopback", "admin", T0]);
  });
});

Deno.test("a token is not forwarded: only its name and scope are sent", async () => {
  await withOther(DESCRIBED, async ({ agent, received }) => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    assertEquals((await agent.call("GET", PATH, undefined, headers)).status, 200);
    const [sent] = received;
    const call = parseCall(callHeaders(sent?.headers ?? new Headers())?.text ?? "");
    assertEquals([call?.caller, call?.scope], ["token:alice", "read"]);
    assertEquals(sent?.headers.get("authorization"), null);
    assertEquals((await agent.call("POST", `${PATH}/stop`, {}, headers)).status, 403);
    assertEquals(received.length, 1);
  });
});

Deno.test("another agent's error keeps its code and fields, and names its host", async () => {
  const errors = [{ field: "force", code: "Invalid", message: "no" }, { field: 1 }];
  const refusal = { error_code: "invalid_argument", message: "Cannot read stop", errors };
  await withOther(() => Response.json(refusal, { status: 409 }), async ({ agent }) => {
    const answer = await agent.call("POST", `${PATH}/stop`, {});
    assertEquals([answer.status, objectOf(answer).error_code], [409, "invalid_argument"]);
    assertEquals(objectOf(answer).message, "Cannot do this on host gz2: Cannot read stop");
    assertEquals(fieldsOf(answer), ["force"]);
  });
});

Deno.test("an answer that no agent would give, and a refused call, are errors of the host", async () => {
  const answers = [
    () => new Response("<html>", { status: 500 }),
    () => Response.json({ error_code: "unauthorized", message: "wrong key" }, { status: 401 }),
    () => new Response(null, { status: 302, headers: { location: "http://127.0.0.1:1/" } }),
    () => new Response("x".repeat(100_000), { status: 404 }),
    () => new Response("<script>1</script>", { headers: { "content-type": "text/html" } }),
    () => new Response(new Uint8Array([1])),
  ];
  for (const answer of answers) {
    await withOther(answer, async ({ agent, received }) => {
      const { status, body } = await agent.call("GET", PATH);
      const { error_code, message } = body as Record<string, unknown>;
      assertEquals([status, error_code], [502, "host_refused"]);
      assertMatch(String(message), /^Cannot get an answer from host gz2 \(33333333-[-0-9]+2\): /);
      assertEquals(received.length, 1);
    });
  }
});

Deno.test("a call refused without a body, such as HEAD, is an error of the host", async () => {
  for (const status of [401, 403]) {
    await withOther(() => new Response(null, { status }), async ({ agent, received }) => {
      assertEquals((await agent.call("HEAD", PATH)).status, 502);
      assertEquals(received.length, 1);
    });
  }
  await withOther(() => new Response(null, { status: 404 }), async ({ agent }) => {
    assertEquals((await agent.call("HEAD", PATH)).status, 404);
  });
});

Deno.test("a host that cannot be called is named in the error, and not called", async () => {
  const cases: readonly (readonly [Partial<ListedHost>, string, string])[] = [
    [{ state: "away" }, "host_away", `it was last heard from at ${T0}`],
    [{ forgotten: true, state: "forgotten" }, "host_away", "it was forgotten"],
    [{ address: null }, "host_away", "its agent has no address for other agents"],
    [{ address: "http://192.0.2.7:8780" }, "host_refused", "neither https nor http"],
    [{ address: "http://gz2.example.org" }, "host_refused", "neither https nor http"],
    [{ address: "ftp://127.0.0.1" }, "host_refused", "neither https nor http"],
  ];
  for (const [changes, code, words] of cases) {
    await withOther(DESCRIBED, async ({ agent, received }) => {
      const { body } = await agent.call("GET", PATH);
      const { error_code, message } = body as Record<string, unknown>;
      assertEquals(error_code, code);
      assertStringIncludes(String(message), "host gz2 (");
      assertStringIncludes(String(message), words);
      assertEquals(received, []);
    }, (address) => ({ address, ...changes }));
  }
});

Deno.test("an agent that does not answer is named with its address", async () => {
  await withOther(DESCRIBED, async ({ agent }) => {
    for (const path of [PATH, `${PATH}/console`]) {
      const answer = await agent.call("GET", path);
      assertEquals([answer.status, objectOf(answer).error_code], [503, "host_away"]);
      assertStringIncludes(String(objectOf(answer).message), `at http://${CLOSED_ADDRESS}: `);
    }
  }, () => ({ address: `http://${CLOSED_ADDRESS}` }));
});

Deno.test("the wait for a console ends with its viewer, whatever the other agent accepts", async () => {
  // It takes connections, and never begins TLS.
  const mute = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const taken = mute.accept();
  const address = `https://127.0.0.1:${(mute.addr as Deno.NetAddr).port}`;
  const { privateKey } = await newKey();
  const [own, other] = [hostOf(1), hostOf(2, { address })];
  const { book, reports } = openDirectory([own, other], other);
  const check = openCallCheck({ own, scope: "admin", book, nowMs: () => performance.now() });
  const peers = openPeers({ own, privateKey, authorities: [], book, reports, check });
  const gone = new AbortController();
  const opening = openRemoteConsole(peers, other, {
    uuid: MACHINE,
    path: `${PATH}/console`,
    caller: { kind: "loopback" },
    request_id: "r1",
    signal: gone.signal,
  });
  const connection = await taken;
  gone.abort();
  await assertRejects(() => opening, AgentError, "Cannot open the console of machine");
  connection.close();
  mute.close();
});

Deno.test("a body too long for a call is refused before it is forwarded", async () => {
  await withOther(DESCRIBED, async ({ agent, received }) => {
    const files = ["x".repeat(70_000)];
    assertEquals((await agent.call("POST", `${PATH}/eject`, { files })).status, 413);
    assertEquals(received, []);
  });
});

Deno.test("a ticket is issued by this agent, for a machine that its host shows", async () => {
  await withOther(DESCRIBED, async ({ agent, received }) => {
    const answer = await agent.call("POST", `${PATH}/console-tickets`, {});
    assertEquals(answer.status, 201, answer.text);
    assertEquals(received.map(({ method, target }) => [method, target]), [["GET", PATH]]);
    assertStringIncludes(String(objectOf(answer).url), `ws://127.0.0.1:${agent.port}${PATH}`);
  });
  const stopped = () => Response.json({ uuid: MACHINE, state: "stopped", brand: "kvm" });
  await withOther(stopped, async ({ agent }) => {
    assertEquals((await agent.call("POST", `${PATH}/console-tickets`, {})).status, 409);
  });
});

Deno.test("an unknown path below the machines is not forwarded", async () => {
  await withOther(DESCRIBED, async ({ agent, received }) => {
    for (const path of [`${PATH}/disks`, "/agent/v1/machines/web1", `${PATH}/vnc/more`]) {
      assertEquals((await agent.call("GET", path)).status, 404);
    }
    assertEquals(received, []);
  });
});
