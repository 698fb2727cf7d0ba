// Clients that keep an agent waiting: by sending drop by drop, by not reading, or by doing nothing.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import type { App } from "../../src/http/server.ts";
import { until } from "../support/until.ts";
import {
  ended,
  LISTENERS,
  listenerTest,
  listenerTestInTurn,
  openDescriptors,
  type OpenedListener,
  openInTurn,
  OTHER_DESCRIPTORS,
  PLAIN_LISTENERS,
  send,
  SHORT_LIMITS as SHORT,
  withListener,
} from "./listeners.ts";
import { listed } from "./raw_call.ts";

/** A connection on which a text was sent. */
async function saying(listener: OpenedListener, text = ""): Promise<Deno.Conn> {
  const connection = await listener.converse();
  await send(connection, text);
  return connection;
}

/** The body of the answer to a request after which the agent closes. */
async function bodyOf(listener: OpenedListener, request = GET_AND_CLOSE): Promise<string> {
  return (await ended(await saying(listener, request))).split("\r\n\r\n")[1] ?? "";
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

listenerTest(
  LISTENERS,
  "connections that never finish their first head are cut, and others are answered",
  (kind) =>
    withListener(kind, { connections: SHORT }, async (listener) => {
      const start = "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
      const silent = await Promise.all(Array.from({ length: 50 }, () => listener.connect()));
      const half = await openInTurn(50, () => saying(listener, start));
      const dripping = drip(await saying(listener, start), "a");
      assertEquals(await bodyOf(listener), "hello");
      const texts = await Promise.all([...silent, ...half].map(ended));
      assertEquals(new Set(texts), new Set([""]));
      await dripping;
      assertEquals(await bodyOf(listener), "hello");
    }),
);

listenerTest(
  LISTENERS,
  "a connection that was used and is idle is cut, half a second head included",
  (kind) =>
    withListener(kind, { connections: SHORT }, async (listener) => {
      const idle = ended(await saying(listener, GET));
      const half = ended(await saying(listener, `${GET}GET / HTTP/1.1\r\n`));
      assert((await idle).endsWith("hello"));
      assert((await half).endsWith("hello"));
    }),
);

listenerTest(LISTENERS, "a caller that does not take its answer is cut", async (kind) => {
  let broken = false;
  let made = 0;
  const endless: App = {
    fetch: () =>
      new Response(
        new ReadableStream({
          pull: (controller) => {
            made += 1;
            controller.enqueue(new Uint8Array(64 * 1024));
          },
          cancel: () => void (broken = true),
        }),
      ),
  };
  await withListener(kind, { app: endless, connections: SHORT }, async (listener) => {
    const connection = await saying(listener, GET);
    await until("the answer to be broken off", () => broken);
    // What the system keeps for the sockets on the way; nothing is piled up in the agent.
    assert(made < 500, `${made} pieces were made for a caller that took none`);
    connection.close();
  });
});

listenerTest(LISTENERS, "a request that the agent is at work on is never cut", async (kind) => {
  const gate = Promise.withResolvers<void>();
  const slow: App = {
    fetch: async ({ url }) => {
      if (url.endsWith("/slow")) await gate.promise;
      return new Response("done");
    },
  };
  await withListener(kind, { app: slow, connections: SHORT }, async (listener) => {
    const waiting = bodyOf(listener, GET_AND_CLOSE.replace("GET /", "GET /slow"));
    await ended(await listener.connect()); // As long as the limits are.
    await ended(await saying(listener, GET));
    gate.resolve();
    assertEquals(await waiting, "done");
  });
});

listenerTest(
  LISTENERS,
  "of too many connections the one that has been silent longest makes room",
  (kind) => {
    const connections = { ...DEFAULT_LIMITS, connectionsMax: 3 };
    return withListener(kind, { connections }, async (listener) => {
      const silent = [];
      for (let count = 0; count < 10; count++) silent.push(await listener.connect());
      assertEquals(await bodyOf(listener), "hello");
      assertEquals(await Promise.all(silent.slice(0, 7).map(ended)), Array(7).fill(""));
      for (const connection of silent.slice(7)) connection.close();
    });
  },
);

listenerTest(
  PLAIN_LISTENERS,
  "a connection for which there is no room answers 503 with Retry-After",
  async (kind) => {
    const gate = Promise.withResolvers<void>();
    let entered = 0;
    const app: App = {
      fetch: async () => {
        entered += 1;
        await gate.promise;
        return new Response("done");
      },
    };
    const connections = { ...DEFAULT_LIMITS, connectionsMax: 2 };
    await withListener(kind, { app, connections }, async (listener) => {
      const held = [bodyOf(listener), bodyOf(listener)];
      await until("both to be under way", () => entered === 2);
      const refused = await ended(await listener.connect());
      assert(refused.startsWith("HTTP/1.1 503 "), refused);
      assert(refused.includes("retry-after: 1\r\n"), refused);
      gate.resolve();
      assertEquals(await Promise.all(held), ["done", "done"]);
      assertEquals(await bodyOf(listener), "done");
    });
  },
);

listenerTestInTurn(
  LISTENERS,
  "connections that are cut or closed leave no descriptor behind",
  (kind) =>
    withListener(kind, { connections: SHORT }, async (listener) => {
      await bodyOf(listener);
      const before = openDescriptors();
      const many = await openInTurn(
        100,
        (at) => at % 2 === 0 ? listener.connect() : saying(listener, GET),
      );
      await Promise.all(many.map(ended));
      await until("the descriptors to be free", () =>
        openDescriptors() <= before + OTHER_DESCRIPTORS);
    }),
);

listenerTest(
  LISTENERS,
  "a server that was shut down is no longer there",
  (kind) =>
    withListener(kind, { connections: SHORT }, async (listener) => {
      const silent = await listener.connect();
      await listener.server.shutdown(100);
      assertEquals(await ended(silent), "");
      await assertRejects(() => listener.connect());
    }),
);
