// Tickets for consoles over HTTP, at an agent that wants a token of everybody: what a browser can do
// with one, and what nobody can.

import { assert, assertEquals, assertFalse, assertMatch } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { type Token, TOKEN_BYTES, type TokenScope, tokenText } from "../../src/domain/token.ts";
import { type AuditEntry, LOST_ACCESS } from "../../src/http/caller.ts";
import type { HttpLimits } from "../../src/http/limits.ts";
import { expositionText } from "../../src/metrics/exposition.ts";
import { meterFamilies, openMeters } from "../../src/metrics/meters.ts";
import { sha256Hex } from "../../src/domain/digest.ts";
import { LISTENING } from "../support/listening.ts";
import { T0, uuidOf } from "../support/job.ts";
import { createApp } from "../../src/http/app.ts";
import { listen } from "../../src/http/server.ts";
import { readTlsIdentity } from "../../src/http/listen/listener.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { programTest } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";
import { makeCertificate } from "./tls_files.ts";
import { askRaw, openConsole, UPGRADE } from "./console_client.ts";
import {
  type Answer,
  assertRefused,
  fieldsOf,
  type HttpAgent,
  MACHINE_DEPS,
  NO_MACHINES,
  NO_UUID,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

const MACHINE = uuidOf(1);
const OTHER = uuidOf(2);
const STOPPED = uuidOf(3);
const GREETING = "RFB 003.";
const text = () => tokenText(crypto.getRandomValues(new Uint8Array(TOKEN_BYTES)));
const [ADMIN, READ, UNKNOWN] = [text(), text(), text()] as const;

const pathOf = (uuid: string) => `/agent/v1/machines/${uuid}/console`;
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

interface RawAnswer {
  readonly status: number;
  readonly text: string;
}

interface Ticketed extends HttpAgent {
  /** Milliseconds of the clock by which tickets end. */
  readonly monotonic: { ms: number };
  readonly audit: AuditEntry[];
  readonly tokens: Token[];
  readonly metrics: () => string;
  /** Asks for a ticket as the administrator does. */
  ask(uuid?: string, token?: string): Promise<Answer>;
  ticket(uuid?: string): Promise<string>;
  /** Asks for the WebSocket with this ticket and without a token. */
  show(query: string, headers?: Record<string, string>, uuid?: string): Promise<RawAnswer>;
}

async function tokenOf(name: string, scope: TokenScope, text: string): Promise<Token> {
  return { name, scope, sha256: await sha256Hex(new TextEncoder().encode(text)), created_at: T0 };
}

/** Two machines that run and one that does not, whose consoles say a greeting and end when closed. */
const machines = {
  ...MACHINE_DEPS,
  vmadm: {
    ...NO_MACHINES,
    get: (uuid: string) =>
      Promise.resolve(
        [MACHINE, OTHER, STOPPED].map(String).includes(uuid)
          ? { uuid, brand: "kvm", state: uuid === STOPPED ? "stopped" : "running" }
          : null,
      ),
    infoVnc: () => Promise.resolve({ host: "127.0.0.1", port: 5901 }),
    connectVnc: () => {
      const closed = Promise.withResolvers<void>();
      return Promise.resolve({
        greeting: new TextEncoder().encode(GREETING),
        read: () => closed.promise.then(() => null),
        write: () => Promise.resolve(),
        close: () => closed.resolve(),
      });
    },
  },
};

async function withTickets(
  run: (agent: Ticketed) => Promise<void>,
  { required = true, ...changes }: Partial<HttpLimits> & { required?: boolean } = {},
): Promise<void> {
  const monotonic = { ms: 0 };
  const audit: AuditEntry[] = [];
  const tokens = [await tokenOf("boss", "admin", ADMIN), await tokenOf("eye", "read", READ)];
  const meters = openMeters();
  await withHttpAgent(
    (agent) => run(ticketed(agent, { monotonic, audit, tokens, meters })),
    {
      machines,
      limits: { ...DEFAULT_HTTP_LIMITS, ...changes },
      access: {
        requiresToken: () => required,
        tokens: () => Promise.resolve(tokens),
        nowMs: () => monotonic.ms,
      },
      auditTrail: { append: (entry) => Promise.resolve(void audit.push(entry)) },
      requests: meters,
    },
  );
}

function ticketed(
  agent: HttpAgent,
  { meters, ...rest }: Pick<Ticketed, "monotonic" | "audit" | "tokens"> & {
    meters: ReturnType<typeof openMeters>;
  },
): Ticketed {
  const ask = (uuid: string = MACHINE, token = ADMIN) =>
    agent.call("POST", `${pathOf(uuid)}-tickets`, {}, bearer(token));
  return {
    ...agent,
    ...rest,
    metrics: () => expositionText(meterFamilies(meters)),
    ask,
    ticket: async (uuid) => {
      const answer = await ask(uuid);
      assertEquals(answer.status, 201);
      return String(objectOf(answer).ticket);
    },
    show: (query, headers = {}, uuid = MACHINE) =>
      askRaw(agent.port, pathOf(uuid) + query, { ...UPGRADE, ...headers }),
  };
}

/** Asserts that a ticket was refused in the shape of every error, and returns its words. */
function assertNoTicket({ status, text }: RawAnswer): string {
  const { code, error_code, message, request_id } = JSON.parse(text);
  assertEquals([status, code, error_code], [403, "Forbidden", "forbidden"]);
  assertMatch(request_id, /^[0-9a-f-]{36}$/);
  return message;
}

Deno.test("a browser opens a console with a ticket alone, once", async () => {
  await withTickets(async (agent) => {
    const answer = await agent.ask();
    assertEquals([answer.status, answer.headers.get("cache-control")], [201, "no-store"]);
    const { ticket, url, expires_at, ...rest } = objectOf(answer);
    assertEquals([expires_at, rest], ["2026-01-01T12:00:30.000Z", {}]);
    const console = `${agent.url.replace("http", "ws")}${pathOf(MACHINE)}`;
    assertEquals(url, `${console}?ticket=${ticket}`);
    const client = await openConsole(String(url));
    assertEquals(new TextDecoder().decode(await client.read(GREETING.length)), GREETING);
    await client.close();
    assertEquals((await agent.show(`?ticket=${ticket}`)).status, 403);
    assertEquals((await agent.show("")).status, 401);
  });
});

Deno.test("used, expired, forged and another machine's tickets are refused with the same message", async () => {
  await withTickets(async (agent) => {
    const words = new Set<string>();
    const refuse = async (query: string, uuid?: string) =>
      words.add(assertNoTicket(await agent.show(query, {}, uuid)));
    const used = await agent.ticket();
    assertEquals((await agent.show(`?ticket=${used}`)).status, 101);
    await refuse(`?ticket=${used}`);
    const own = await agent.ticket();
    await refuse(`?ticket=${own}`, OTHER);
    assertEquals((await agent.show(`?ticket=${own}`)).status, 101);
    const late = await agent.ticket();
    agent.monotonic.ms += 30_000;
    await refuse(`?ticket=${late}`);
    const good = await agent.ticket();
    for (
      const forged of ["", "zwc_", ADMIN, "%00", "x".repeat(5000), good.replace("_", "%5F%20")]
    ) {
      await refuse(`?ticket=${forged}`);
    }
    await refuse(`?ticket=${good}&ticket=${good}`);
    assertEquals((await agent.show(`?ticket=${good}`)).status, 101);
    assertEquals(words.size, 1, [...words].join());
  });
});

Deno.test("a ticket is refused everywhere but at the WebSocket of its own console", async () => {
  await withTickets(async (agent) => {
    const ticket = await agent.ticket();
    const machine = `/agent/v1/machines/${MACHINE}`;
    const asked: [string, string, unknown?][] = [
      ["GET", pathOf(MACHINE)],
      ["HEAD", pathOf(MACHINE)],
      ["GET", `${machine}/vnc`],
      ["GET", machine],
      ["DELETE", machine],
      ["POST", `${machine}/stop`, {}],
      ["POST", `${pathOf(MACHINE)}-tickets`, {}],
      ["GET", "/jobs"],
      ["GET", "/ping"],
      ["POST", "/jobs", {}],
    ];
    for (const [method, path, body] of asked) {
      const answer = await agent.call(method, `${path}?ticket=${ticket}`, body);
      assertEquals([method, path, answer.status], [method, path, 401]);
    }
    const vnc = await askRaw(agent.port, `${machine}/vnc?ticket=${ticket}`, UPGRADE);
    assertEquals(vnc.status, 401);
    for (const headers of [bearer(ticket), { cookie: `ticket=${ticket}` }]) {
      assertEquals((await agent.show("", headers)).status, 401);
    }
    // Nothing of it has used the ticket up.
    assertEquals((await agent.show(`?ticket=${ticket}`)).status, 101);
  });
});

Deno.test("a page of another site cannot use a ticket, and the ticket stays valid", async () => {
  await withTickets(async (agent) => {
    const query = `?ticket=${await agent.ticket()}`;
    for (
      const headers of [
        { origin: "https://foreign.example.com" },
        { origin: "null" },
        { host: "foreign.example.com" },
        { "sec-fetch-site": "cross-site" },
      ]
    ) {
      const message = assertNoTicket(await agent.show(query, headers as Record<string, string>));
      assertMatch(message, /^Cannot accept the request: /);
    }
    assertEquals((await agent.show(query, { origin: agent.url })).status, 101);
  });
});

Deno.test("a request with a ticket is refused if it also has an invalid token", async () => {
  await withTickets(async (agent) => {
    const query = `?ticket=${await agent.ticket()}`;
    assertEquals((await agent.show(query, bearer(UNKNOWN))).status, 401);
    assertEquals((await agent.show(query, bearer(READ))).status, 403);
    assertEquals((await agent.show("?ticket=zwc_", bearer(ADMIN))).status, 403);
    assertEquals((await agent.show(query, bearer(ADMIN))).status, 101);
  });
});

Deno.test("a ticket whose maker's token was revoked opens nothing", async () => {
  await withTickets(async (agent) => {
    const query = `?ticket=${await agent.ticket()}`;
    const [boss] = agent.tokens.splice(0, 1);
    assertNoTicket(await agent.show(query));
    agent.tokens.push({ ...boss as Token, scope: "read" });
    assertNoTicket(await agent.show(query));
  });
});

Deno.test("a console ends when the token that opened it is revoked, or that of its ticket", async () => {
  await withTickets(async (agent) => {
    const made = await agent.ask();
    const byTicket = await openConsole(String(objectOf(made).url));
    const byToken = new WebSocket(`${agent.url.replace("http", "ws")}${pathOf(OTHER)}`, {
      headers: bearer(ADMIN),
    });
    const ended = new Promise<CloseEvent>((resolve) => byToken.onclose = resolve);
    await until(
      "both to be open",
      () => [byTicket.socket, byToken].every((it) => it.readyState === 1),
    );
    agent.tokens.splice(0, 1);
    const why = { code: 1008, reason: LOST_ACCESS };
    assertEquals(await byTicket.ended(), why);
    const { code, reason } = await ended;
    assertEquals({ code, reason }, why);
  });
});

Deno.test("only an admin token gets a ticket, and only for a console that exists", async () => {
  await withTickets(async (agent) => {
    assertRefused(await agent.call("POST", `${pathOf(MACHINE)}-tickets`, {}), 401, "Unauthorized");
    assertRefused(await agent.ask(MACHINE, READ), 403, "Forbidden");
    assertRefused(await agent.ask(NO_UUID), 404, "ResourceNotFound");
    assertRefused(await agent.ask("x"), 404, "ResourceNotFound");
    const stopped = assertRefused(await agent.ask(STOPPED), 409, "ConflictError");
    assertMatch(stopped, /its state is "stopped", expected running or stopping/);
    const path = `${pathOf(MACHINE)}-tickets`;
    for (const name of ["host", "port", "uuid", "seconds"]) {
      const answer = await agent.call("POST", path, { [name]: 1 }, bearer(ADMIN));
      assertEquals([answer.status, fieldsOf(answer)], [409, [name]]);
    }
  });
});

programTest(
  "openssl",
  "over TLS a ticket opens a console over TLS",
  () =>
    withTickets((agent) =>
      withFolder(async (folder) => {
        const paths = await makeCertificate(folder, "agent");
        const server = await listen(createApp(agent.context), {
          ...LISTENING,
          tcp: { hostname: "127.0.0.1", port: 0 },
          tls: await readTlsIdentity(paths),
          connections: DEFAULT_LIMITS,
          log: agent.context.log,
        });
        const caCerts = [await Deno.readTextFile(paths.certPath)];
        const client = Deno.createHttpClient({ caCerts });
        try {
          const [url = ""] = server.urls;
          const headers = { ...bearer(ADMIN), "content-type": "application/json" };
          const init = { method: "POST", headers, body: "{}", client };
          const made = await (await fetch(`${url}${pathOf(MACHINE)}-tickets`, init)).json();
          assert(
            made.url.startsWith(`${url.replace("https", "wss")}${pathOf(MACHINE)}?`),
            made.url,
          );
          const socket = new WebSocket(made.url, { client });
          const first = await new Promise<MessageEvent>((resolve) => socket.onmessage = resolve);
          assertEquals(await first.data.text(), GREETING);
          const ended = new Promise((resolve) => socket.onclose = resolve);
          socket.close();
          await ended;
        } finally {
          client.close();
          await server.shutdown(100);
        }
      })
    ),
);

Deno.test("an invalid ticket is refused even where no token is required", async () => {
  await withTickets(async (agent) => {
    assertEquals((await agent.show("")).status, 101);
    assertNoTicket(await agent.show("?ticket=zwc_x"));
    const answer = await agent.call("POST", `${pathOf(MACHINE)}-tickets`, {});
    assertEquals((await agent.show(`?ticket=${objectOf(answer).ticket}`)).status, 101);
    assertEquals(agent.audit.at(-1)?.who, "ticket:loopback");
  }, { required: false });
});

Deno.test("the ticket over the limit answers 503 with Retry-After", async () => {
  await withTickets(async (agent) => {
    const first = await agent.ticket();
    agent.monotonic.ms += 12_000;
    await agent.ticket(OTHER);
    const full = await agent.ask(OTHER);
    assertRefused(full, 503, "ServiceUnavailable");
    assertEquals(full.headers.get("retry-after"), "18");
    assertEquals((await agent.show(`?ticket=${first}`)).status, 101);
    assertEquals((await agent.ask(OTHER)).status, 201);
  }, { consoleTicketsMax: 2 });
});

Deno.test("the audit names the maker of a ticket, and no record contains the ticket", async () => {
  await withTickets(async (agent) => {
    const shown = [await agent.ticket(), await agent.ticket(), await agent.ticket()];
    const [good = "", wrong = "", foreign = ""] = shown;
    assertEquals((await agent.show(`?ticket=${good}`)).status, 101);
    assertNoTicket(await agent.show(`?ticket=${good}`));
    assertNoTicket(await agent.show(`?ticket=${wrong}`, {}, OTHER));
    await agent.show(`?ticket=${foreign}`, { origin: "null" });
    await agent.show(`?x=1&ticket=${foreign}`, { upgrade: "h2c" });
    await agent.call("GET", `/nothing/${MACHINE}?ticket=${foreign}`);
    const entries = agent.audit.map(({ who, method, path, status }): JsonObject => ({
      who,
      method,
      path: path.replace(/.*\//, ""),
      status,
    }));
    const made = { who: "token:boss", method: "POST", path: "console-tickets", status: 201 };
    const asked = { method: "GET", path: "console" };
    assertEquals(entries, [
      made,
      made,
      made,
      { ...asked, who: "ticket:token:boss", status: 101 },
      { ...asked, who: "refused", status: 403 },
      { ...asked, who: "refused", status: 403 },
      { ...asked, who: "refused", status: 403 },
      { ...asked, who: "refused", status: 401 },
    ]);
    await until("the console to be logged", () => JSON.stringify(agent.log).includes("opened"));
    const reported = JSON.stringify(agent.log) + JSON.stringify(agent.audit) + agent.metrics();
    assert(reported.includes("tokens refused") && reported.includes("console-tickets"));
    for (const ticket of shown) assertFalse(reported.includes(ticket.slice(4, 24)));
    assertFalse(reported.includes("zwc_"));
  });
});
