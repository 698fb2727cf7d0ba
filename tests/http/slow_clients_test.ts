// Clients that keep an agent waiting: by sending drop by drop, by not reading, or by doing nothing. The
// clock of the watch is the test's, so that nobody waits for real time-outs.

import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  type ConnectionLimits,
  ConnectionWatch,
  DEFAULT_CONNECTION_LIMITS,
} from "../../src/http/connection_watch.ts";
import { type App, listen, type Server } from "../../src/http/server.ts";
import { silentLog } from "../../src/log.ts";
import { until } from "../support/until.ts";
import { listed, rawCall } from "./raw_call.ts";

const HELLO: App = { fetch: () => new Response("hello") };
/** Limits that a test can wait for. */
const SHORT: ConnectionLimits = {
  connectionsMax: 1024,
  headSeconds: 1,
  idleSeconds: 1,
  answerSeconds: 1,
};

async function withServer(
  connections: ConnectionLimits,
  run: (port: number, server: Server) => Promise<void>,
  app: App = HELLO,
): Promise<void> {
  const tcp = { hostname: "127.0.0.1", port: 0 };
  const log = silentLog;
  const server = await listen(app, { tcp, socketPath: null, log, connections, watched: true });
  try {
    await run(server.port ?? 0, server);
  } finally {
    await server.shutdown(100);
  }
}

async function connect(port: number, text = ""): Promise<Deno.TcpConn> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(new TextEncoder().encode(text));
  return connection;
}

/** Reads until the agent closes. @returns what it has sent */
async function ended(connection: Deno.Conn): Promise<string> {
  const buffer = new Uint8Array(64 * 1024);
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const size = await connection.read(buffer);
      if (size === null) return text;
      text += decoder.decode(buffer.subarray(0, size), { stream: true });
    }
  } catch {
    return text; // Cut, with bytes of ours that it has not read.
  } finally {
    connection.close();
  }
}

/** Sends one byte after another until the agent has closed the connection. */
async function drip(connection: Deno.Conn, byte: string): Promise<void> {
  const bytes = new TextEncoder().encode(byte);
  let over = false;
  const reading = ended(connection).then(() => over = true);
  await until("the agent to cut the connection", async () => {
    if (!over) await connection.write(bytes).catch(() => {});
    return over;
  });
  await reading;
}

const GET = listed(["GET / HTTP/1.1", "Host: localhost"]);
const GET_AND_CLOSE = listed(["GET / HTTP/1.1", "Host: localhost", "Connection: close"]);

Deno.test("connections that never finish their first head are cut, and others are answered", async () => {
  await withServer(SHORT, async (port) => {
    const silent = await Promise.all(Array.from({ length: 50 }, () => connect(port)));
    const half = await Promise.all(
      Array.from(
        { length: 50 },
        () => connect(port, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "),
      ),
    );
    const dripping = drip(
      await connect(port, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "),
      "a",
    );
    assertEquals((await rawCall(port, GET_AND_CLOSE)).text, "hello");
    const texts = await Promise.all([...silent, ...half].map(ended));
    assertEquals(new Set(texts), new Set([""]));
    await dripping;
    assertEquals((await rawCall(port, GET_AND_CLOSE)).text, "hello");
  });
});

Deno.test("a connection that was used and is idle is cut, half a second head included", async () => {
  await withServer(SHORT, async (port) => {
    const idle = ended(await connect(port, GET));
    const half = ended(await connect(port, `${GET}GET / HTTP/1.1\r\n`));
    assert((await idle).endsWith("hello"));
    assert((await half).endsWith("hello"));
  });
});

Deno.test("a caller that does not take its answer is cut", async () => {
  let broken = false;
  const endless: App = {
    fetch: () =>
      new Response(
        new ReadableStream({
          pull: (controller) => controller.enqueue(new Uint8Array(64 * 1024)),
          cancel: () => void (broken = true),
        }),
      ),
  };
  await withServer(SHORT, async (port) => {
    const connection = await connect(port, GET);
    await until("the answer to be broken off", () => broken);
    connection.close();
  }, endless);
});

Deno.test("a request that the agent is at work on is never cut", async () => {
  const gate = Promise.withResolvers<void>();
  const slow: App = {
    fetch: async ({ url }) => {
      if (url.endsWith("/slow")) await gate.promise;
      return new Response("done");
    },
  };
  await withServer(SHORT, async (port) => {
    const waiting = rawCall(port, GET_AND_CLOSE.replace("GET /", "GET /slow"));
    await ended(await connect(port)); // As long as the limits are.
    await ended(await connect(port, GET));
    gate.resolve();
    assertEquals((await waiting).text, "done");
  }, slow);
});

Deno.test("of too many connections the one that has been silent longest makes room", async () => {
  const limits = { ...DEFAULT_CONNECTION_LIMITS, connectionsMax: 3 };
  await withServer(limits, async (port) => {
    const silent = [];
    for (let count = 0; count < 10; count++) silent.push(await connect(port));
    assertEquals((await rawCall(port, GET_AND_CLOSE)).text, "hello");
    assertEquals(await Promise.all(silent.slice(0, 7).map(ended)), Array(7).fill(""));
    for (const connection of silent.slice(7)) connection.close();
  });
});

Deno.test("a connection for which there is no room answers 503 with Retry-After", async () => {
  const gate = Promise.withResolvers<void>();
  let entered = 0;
  const slow: App = {
    fetch: async () => {
      entered += 1;
      await gate.promise;
      return new Response("done");
    },
  };
  await withServer({ ...DEFAULT_CONNECTION_LIMITS, connectionsMax: 2 }, async (port) => {
    const held = [rawCall(port, GET_AND_CLOSE), rawCall(port, GET_AND_CLOSE)];
    await until("both to be under way", () => entered === 2);
    const refused = await ended(await connect(port));
    assert(refused.startsWith("HTTP/1.1 503 "), refused);
    assert(refused.includes("retry-after: 1\r\n"), refused);
    gate.resolve();
    assertEquals((await Promise.all(held)).map(({ text }) => text), ["done", "done"]);
    assertEquals((await rawCall(port, GET_AND_CLOSE)).text, "done");
  }, slow);
});

Deno.test("connections that are cut or closed leave no descriptor behind", async () => {
  const open = () => Array.from(Deno.readDirSync("/proc/self/fd")).length;
  await withServer(SHORT, async (port) => {
    await rawCall(port, GET_AND_CLOSE);
    const before = open();
    const many = await Promise.all(
      Array.from({ length: 100 }, (_, at) => connect(port, at % 2 === 0 ? "" : GET)),
    );
    await Promise.all(many.map(ended));
    await until("the descriptors to be free", () => open() <= before + 5);
  });
});

Deno.test("ConnectionWatch keeps each state to its own limit", () => {
  let nowMs = 0;
  const limits = { connectionsMax: 10, headSeconds: 1, idleSeconds: 5, answerSeconds: 9 };
  const watch = new ConnectionWatch(limits, () => nowMs);
  const cut: string[] = [];
  const open = (name: string) => watch.open(() => cut.push(name));
  const look = (ms: number) => {
    nowMs = ms;
    watch.sweep();
    return cut.splice(0);
  };
  open("new");
  const idle = open("idle");
  const answering = open("answering");
  const working = open("working");
  for (const one of [idle, answering, working]) one?.requested();
  for (const one of [idle, answering]) one?.answered();
  idle?.taken();
  assertEquals(look(1000), []);
  assertEquals(look(1001), ["new"]);
  assertEquals(look(5001), ["idle"]);
  assertEquals(look(9001), ["answering"]);
  assertEquals(look(99_000), []);
  assertEquals([watch.count, working?.used], [1, true]);
  working?.closed();
  assertEquals(watch.count, 0);
  watch.close();
});

Deno.test("a server that was shut down is no longer there", async () => {
  await withServer(SHORT, async (port, server) => {
    const silent = await connect(port);
    await server.shutdown(100);
    assertEquals(await ended(silent), "");
    await assertRejects(() => Deno.connect({ hostname: "127.0.0.1", port }));
  });
});
