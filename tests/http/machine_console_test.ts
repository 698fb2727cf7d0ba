// The console of a machine over a WebSocket: what is carried, and who is refused.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { MachineUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { waitForVnc } from "../../src/host/vmadm/vnc.ts";
import type { Vmadm } from "../../src/host/vmadm/vmadm.ts";
import { createApp } from "../../src/http/app.ts";
import type { ConsoleStream } from "../../src/http/machine_access.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { machine as description } from "../domain/machine_request.ts";
import { until } from "../support/until.ts";
import { askRaw, consoleUrl, openConsole, shakeHands, UPGRADE } from "./console_client.ts";
import {
  assertRefused,
  type HttpAgent,
  MACHINE_DEPS,
  NO_MACHINES,
  NO_UUID,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";
import { DEADLINE_MS, MACHINE, withHost } from "./machine_agent.ts";

const PATH = `/agent/v1/machines/${MACHINE}/console`;
const SIZE = { width: 640, height: 400 };

async function running(vmadm: Vmadm, extra: JsonObject = {}): Promise<void> {
  await vmadm.create({ ...description, autoboot: false, ...extra, uuid: MACHINE });
  await vmadm.boot(MACHINE, {});
  await waitForVnc(vmadm, MACHINE, { deadlineMs: DEADLINE_MS });
}

function raw(
  { port }: HttpAgent,
  headers: Record<string, string>,
  path = PATH,
  method = "GET",
): Promise<{ status: number; text: string }> {
  return askRaw(port, path, headers, method);
}

Deno.test("a viewer reaches the screen of a machine and authenticates by itself", async () => {
  await withHost(async (agent, vmadm) => {
    await running(vmadm, { vnc_password: true });
    const { vnc } = objectOf(await agent.call("GET", `/agent/v1/machines/${MACHINE}/vnc`));
    const { password } = vnc as JsonObject;
    const client = await openConsole(consoleUrl(agent.url, MACHINE));
    assertEquals(client.socket.protocol, "binary");
    assertEquals(await shakeHands(client, String(password)), SIZE);
    // The whole screen, as 32-bit pixels.
    client.socket.send(new Uint8Array([3, 0, 0, 0, 0, 0, 2, 128, 1, 144]));
    await until("the picture", () => client.received() > SIZE.width * SIZE.height * 4);
    await client.close();
    await until("the session to end", () => agent.log.some(({ msg }) => msg === "console closed"));
    assertEquals(JSON.stringify(agent.log).includes(String(password)), false);
  });
});

Deno.test("a viewer with another password is refused by the console itself", async () => {
  await withHost(async (agent, vmadm) => {
    await running(vmadm, { vnc_password: true });
    const client = await openConsole(consoleUrl(agent.url, MACHINE));
    const failure = await shakeHands(client, "wrong").then(() => "", (error) => error.message);
    assertStringIncludes(failure, "refused the password");
    await client.close();
  });
});

Deno.test("vmadm is asked for the address of a console at every connection", async () => {
  await withHost(async (agent, vmadm) => {
    await running(vmadm);
    const before = await vmadm.infoVnc(MACHINE);
    const first = await openConsole(consoleUrl(agent.url, MACHINE));
    await shakeHands(first);
    await vmadm.stop(MACHINE, { force: true });
    assertEquals((await first.ended()).reason, "the console has ended");
    await vmadm.boot(MACHINE, {});
    const after = await waitForVnc(vmadm, MACHINE, { deadlineMs: DEADLINE_MS });
    assert(before?.port !== after.port);
    const second = await openConsole(consoleUrl(agent.url, MACHINE));
    await shakeHands(second);
    await second.close();
  });
});

Deno.test("a GET of a console without an upgrade answers its WebSocket address", async () => {
  await withHost(async (agent, vmadm) => {
    assertRefused(await agent.call("GET", PATH), 404, "ResourceNotFound");
    await vmadm.create({ ...description, autoboot: false, uuid: MACHINE });
    assertRefused(await agent.call("GET", PATH), 409, "ConflictError");
    await vmadm.boot(MACHINE, {});
    const answer = await agent.call("GET", PATH);
    assertEquals(answer.body, { url: consoleUrl(agent.url, MACHINE), protocol: "binary" });
  });
});

const MACHINE_THAT_RUNS = { uuid: MACHINE, brand: "kvm", state: "running" };

Deno.test("a caller over TLS gets the address of a console over TLS", async () => {
  const vmadm = { ...NO_MACHINES, get: () => Promise.resolve(MACHINE_THAT_RUNS) };
  await withHttpAgent(async ({ context }) => {
    const app = createApp({ ...context, allowedHosts: ["zone.example.com"] });
    const url = `https://zone.example.com:8443${PATH}`;
    const headers = { host: "zone.example.com:8443" };
    const answer = await app.request(url, { headers }, { secure: true });
    assertEquals((await answer.json()).url, url.replace("https", "wss"));
  }, { machines: { ...MACHINE_DEPS, vmadm } });
});

Deno.test("a console of an absent or stopped machine, or of another protocol, is refused before the upgrade", async () => {
  await withHost(async (agent, vmadm) => {
    const absent = await raw(agent, UPGRADE, PATH.replace(MACHINE, NO_UUID));
    assertEquals(absent.status, 404);
    assertEquals((await raw(agent, UPGRADE, PATH.replace(MACHINE, "x"))).status, 404);
    await vmadm.create({ ...description, autoboot: false, uuid: MACHINE });
    const stopped = await raw(agent, UPGRADE);
    assertEquals(stopped.status, 409);
    assertStringIncludes(stopped.text, 'its state is \\"stopped\\"');
    const other = await raw(agent, { ...UPGRADE, "sec-websocket-protocol": "base64, chat" });
    assertEquals([other.status, JSON.parse(other.text).errors[0].field], [
      409,
      "Sec-WebSocket-Protocol",
    ]);
  });
});

Deno.test("a request with only half of an upgrade answers 400 and frees its slot", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, consolesMax: 1 };
  await withHttpAgent(async (agent) => {
    const halves = [
      { upgrade: "websocket", connection: "Upgrade" },
      { upgrade: "websocket", "sec-websocket-key": UPGRADE["sec-websocket-key"] },
    ];
    for (const headers of halves) {
      const answer = await raw(agent, headers);
      assertEquals([answer.status, JSON.parse(answer.text).code], [400, "InvalidContent"]);
    }
    const client = await openConsole(consoleUrl(agent.url, MACHINE));
    assertEquals((await client.read(8)).length, 8);
    await client.close();
    assertEquals(agent.log.filter(({ level }) => level === "error"), []);
  }, { limits, machines: fakeHost(silentStream) });
});

Deno.test("HEAD of a console answers its address, even with the headers of an upgrade", async () => {
  await withHost(async (agent, vmadm) => {
    await running(vmadm);
    for (const headers of [{}, UPGRADE]) {
      assertEquals((await raw(agent, headers, PATH, "HEAD")).status, 200);
    }
  });
});

Deno.test("a WebSocket with the Origin of another site is refused", async () => {
  await withHost(async (agent, vmadm) => {
    await running(vmadm);
    for (const origin of ["https://foreign.example.com", "null", "http://127.0.0.1:1"]) {
      const answer = await raw(agent, { ...UPGRADE, origin });
      assertEquals([origin, answer.status], [origin, 403]);
    }
    const rebound = await raw(agent, { ...UPGRADE, host: "foreign.example.com" });
    assertEquals(rebound.status, 403);
    const own = await raw(agent, { ...UPGRADE, origin: agent.url });
    assertEquals(own.status, 101);
  });
});

Deno.test("no query, header or path of a request changes the address that a console connects to", async () => {
  await withHost(async (agent, vmadm) => {
    await running(vmadm);
    let called = 0;
    const other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const accepting = (async () => {
      for await (const connection of other) {
        called += 1;
        connection.close();
      }
    })();
    const { port } = other.addr;
    const query = `?host=127.0.0.1&port=${port}&url=vnc://127.0.0.1:${port}`;
    const headers = { "x-forwarded-host": `127.0.0.1:${port}`, forwarded: `for=127.0.0.1:${port}` };
    const refused = await raw(agent, { ...UPGRADE, ...headers }, PATH + query);
    assertEquals([refused.status, JSON.parse(refused.text).errors[0].field], [409, "host"]);
    const address = `vnc://127.0.0.1:${port}`;
    for (const name of ["ws-protocol", "x-vnc-host", "x-forwarded-server", "x-original-url"]) {
      const answer = await raw(agent, { ...UPGRADE, ...headers, [name]: address });
      assertEquals([name, answer.status], [name, 101]);
    }
    const path = PATH.replace(MACHINE, encodeURIComponent(`127.0.0.1:${port}`));
    assertEquals((await raw(agent, UPGRADE, path)).status, 404);
    other.close();
    await accepting;
    assertEquals(called, 0);
  });
});

/** A console made of what a test does, for what no simulated host can be brought to do. */
function fakeHost(stream: () => ConsoleStream) {
  return {
    ...MACHINE_DEPS,
    vmadm: {
      ...NO_MACHINES,
      infoVnc: (_uuid: MachineUuid) => Promise.resolve({ host: "127.0.0.1", port: 5901 }),
      connectVnc: () => Promise.resolve(stream()),
    },
  };
}

const GREETING = new TextEncoder().encode("RFB 003.");

/** A console that says its greeting and then waits until it is closed. */
function silentStream(): ConsoleStream & { readonly closed: Promise<void> } {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  return {
    greeting: GREETING,
    read: () => closed.then(() => null),
    write: () => Promise.resolve(),
    close: () => resolve(),
    closed,
  };
}

Deno.test("the console over the limit is refused with 503", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, consolesMax: 2 };
  await withHttpAgent(async (agent) => {
    const open = (uuid: string) => openConsole(consoleUrl(agent.url, uuid));
    const first = await open(MACHINE);
    const second = await open(MACHINE);
    const full = await raw(agent, UPGRADE, PATH.replace(MACHINE, NO_UUID));
    assertEquals(full.status, 503);
    assertStringIncludes(full.text, "2 consoles are open");
    await first.close();
    const again = await until("a place", async () => {
      const client = await open(MACHINE);
      return client.socket.readyState === WebSocket.OPEN ? client : undefined;
    });
    for (const client of [second, again]) await client.close();
  }, { limits, machines: fakeHost(silentStream) });
});

Deno.test("an idle console is closed with code and reason", async () => {
  const limits = { ...DEFAULT_HTTP_LIMITS, consoleIdleSeconds: 1 };
  const streams: ReturnType<typeof silentStream>[] = [];
  const stream = () => streams[streams.push(silentStream()) - 1] as ConsoleStream;
  await withHttpAgent(async (agent) => {
    const client = await openConsole(consoleUrl(agent.url, MACHINE));
    assertEquals(await client.ended(), { code: 1000, reason: "no data for 1 s" });
    await streams[0]?.closed;
  }, { limits, machines: fakeHost(stream) });
});

Deno.test("an agent that stops closes its consoles with a reason", async () => {
  await withHttpAgent(async (agent) => {
    const client = await openConsole(consoleUrl(agent.url, MACHINE));
    agent.closing.abort();
    assertEquals(await client.ended(), { code: 1001, reason: "the agent is stopping" });
  }, { machines: fakeHost(silentStream) });
});

Deno.test("a console that breaks off, and a client that sends text, end the session", async () => {
  const broken = () => ({
    ...silentStream(),
    read: () => Promise.reject(new Deno.errors.ConnectionReset("reset")),
  });
  await withHttpAgent(async (agent) => {
    const client = await openConsole(consoleUrl(agent.url, MACHINE));
    assertEquals(await client.ended(), {
      code: 1011,
      reason: "the connection to the console broke",
    });
  }, { machines: fakeHost(broken) });
  await withHttpAgent(async (agent) => {
    const client = await openConsole(consoleUrl(agent.url, MACHINE));
    client.socket.send("hello");
    assertEquals((await client.ended()).code, 1003);
  }, { machines: fakeHost(silentStream) });
});

Deno.test("a console that takes nothing ends a client that goes on sending", async () => {
  let taken = 0;
  const stuck = () => {
    const stream = silentStream();
    return {
      ...stream,
      write: (bytes: Uint8Array) => {
        taken += bytes.length;
        return stream.closed.then(() => Promise.reject(new Error("closed")));
      },
    };
  };
  await withHttpAgent(async (agent) => {
    const client = await openConsole(consoleUrl(agent.url, MACHINE));
    for (let sent = 0; sent < 4 * 1024 * 1024; sent += 64 * 1024) {
      if (client.socket.readyState === WebSocket.OPEN) client.socket.send(new Uint8Array(65_536));
    }
    // Its connection may break before it hears why.
    await client.ended();
    const closed = await until(
      "the end",
      () => agent.log.find(({ msg }) => msg === "console closed"),
    );
    assertEquals(closed.reason, "the client sends more than the console takes");
    assert(taken <= 65_536, `${taken} bytes were given at once`);
  }, { machines: fakeHost(stuck) });
});

Deno.test("a console is read no faster than its client takes it", async () => {
  let given = 0;
  const flood = () => {
    const stream = silentStream();
    let open = true;
    return {
      ...stream,
      read: (buffer: Uint8Array) => {
        if (!open) return Promise.resolve(null);
        given += buffer.length;
        return Promise.resolve(buffer.length);
      },
      close: () => {
        open = false;
        stream.close();
      },
    };
  };
  await withHttpAgent(async (agent) => {
    // A client that never reads: what the system's buffers and ours hold is all that is taken.
    const connection = await Deno.connect({ hostname: "127.0.0.1", port: agent.port });
    const head = Object.entries({ host: `127.0.0.1:${agent.port}`, ...UPGRADE })
      .map(([name, value]) => `${name}: ${value}\r\n`).join("");
    await connection.write(new TextEncoder().encode(`GET ${PATH} HTTP/1.1\r\n${head}\r\n`));
    await until("the flood to begin", () => given > 0);
    let seen = -1;
    let looks = 0;
    await until("the flood to stand still", () => {
      looks = seen === given ? looks + 1 : 0;
      seen = given;
      return looks === 60;
    });
    assert(given < 64 * 1024 * 1024, `${given} bytes were read for a client that takes none`);
    connection.close();
    await until("the session to end", () => agent.log.some(({ msg }) => msg === "console closed"));
  }, { machines: fakeHost(flood) });
});
