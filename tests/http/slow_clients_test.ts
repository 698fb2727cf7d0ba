// Clients that keep an agent waiting: by sending drop by drop, by not reading, or by doing nothing.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { DEFAULT_CONNECTION_LIMITS } from "../../src/http/listen/connection_watch.ts";
import type { App } from "../../src/http/listen/server.ts";
import { until } from "../support/until.ts";
import {
  DOORS,
  doorTest,
  doorTestInTurn,
  ended,
  openDescriptors,
  type OpenedDoor,
  PLAIN_DOORS,
  send,
  SHORT_LIMITS as SHORT,
  withDoor,
} from "./doors.ts";
import { listed } from "./raw_call.ts";

/** A connection on which a text was sent. */
async function saying(door: OpenedDoor, text = ""): Promise<Deno.Conn> {
  const connection = await door.converse();
  await send(connection, text);
  return connection;
}

/** The body of the answer to a request after which the agent closes. */
async function bodyOf(door: OpenedDoor, request = GET_AND_CLOSE): Promise<string> {
  return (await ended(await saying(door, request))).split("\r\n\r\n")[1] ?? "";
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

doorTest(
  DOORS,
  "connections that never finish their first head are cut, and others are answered",
  (kind) =>
    withDoor(kind, { connections: SHORT }, async (door) => {
      const start = "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
      const silent = await Promise.all(Array.from({ length: 50 }, () => door.connect()));
      const half = await Promise.all(Array.from({ length: 50 }, () => saying(door, start)));
      const dripping = drip(await saying(door, start), "a");
      assertEquals(await bodyOf(door), "hello");
      const texts = await Promise.all([...silent, ...half].map(ended));
      assertEquals(new Set(texts), new Set([""]));
      await dripping;
      assertEquals(await bodyOf(door), "hello");
    }),
);

doorTest(
  DOORS,
  "a connection that was used and is idle is cut, half a second head included",
  (kind) =>
    withDoor(kind, { connections: SHORT }, async (door) => {
      const idle = ended(await saying(door, GET));
      const half = ended(await saying(door, `${GET}GET / HTTP/1.1\r\n`));
      assert((await idle).endsWith("hello"));
      assert((await half).endsWith("hello"));
    }),
);

doorTest(DOORS, "a caller that does not take its answer is cut", async (kind) => {
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
  await withDoor(kind, { app: endless, connections: SHORT }, async (door) => {
    const connection = await saying(door, GET);
    await until("the answer to be broken off", () => broken);
    // What the system keeps for the sockets on the way; nothing is piled up in the agent.
    assert(made < 500, `${made} pieces were made for a caller that took none`);
    connection.close();
  });
});

doorTest(DOORS, "a request that the agent is at work on is never cut", async (kind) => {
  const gate = Promise.withResolvers<void>();
  const slow: App = {
    fetch: async ({ url }) => {
      if (url.endsWith("/slow")) await gate.promise;
      return new Response("done");
    },
  };
  await withDoor(kind, { app: slow, connections: SHORT }, async (door) => {
    const waiting = bodyOf(door, GET_AND_CLOSE.replace("GET /", "GET /slow"));
    await ended(await door.connect()); // As long as the limits are.
    await ended(await saying(door, GET));
    gate.resolve();
    assertEquals(await waiting, "done");
  });
});

doorTest(
  DOORS,
  "of too many connections the one that has been silent longest makes room",
  (kind) => {
    const connections = { ...DEFAULT_CONNECTION_LIMITS, connectionsMax: 3 };
    return withDoor(kind, { connections }, async (door) => {
      const silent = [];
      for (let count = 0; count < 10; count++) silent.push(await door.connect());
      assertEquals(await bodyOf(door), "hello");
      assertEquals(await Promise.all(silent.slice(0, 7).map(ended)), Array(7).fill(""));
      for (const connection of silent.slice(7)) connection.close();
    });
  },
);

doorTest(
  PLAIN_DOORS,
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
    const connections = { ...DEFAULT_CONNECTION_LIMITS, connectionsMax: 2 };
    await withDoor(kind, { app, connections }, async (door) => {
      const held = [bodyOf(door), bodyOf(door)];
      await until("both to be under way", () => entered === 2);
      const refused = await ended(await door.connect());
      assert(refused.startsWith("HTTP/1.1 503 "), refused);
      assert(refused.includes("retry-after: 1\r\n"), refused);
      gate.resolve();
      assertEquals(await Promise.all(held), ["done", "done"]);
      assertEquals(await bodyOf(door), "done");
    });
  },
);

doorTestInTurn(
  DOORS,
  "connections that are cut or closed leave no descriptor behind",
  (kind) =>
    withDoor(kind, { connections: SHORT }, async (door) => {
      await bodyOf(door);
      const before = openDescriptors();
      const many = await Promise.all(
        Array.from({ length: 100 }, (_, at) => at % 2 === 0 ? door.connect() : saying(door, GET)),
      );
      await Promise.all(many.map(ended));
      await until("the descriptors to be free", () => openDescriptors() <= before + 5);
    }),
);

doorTest(
  DOORS,
  "a server that was shut down is no longer there",
  (kind) =>
    withDoor(kind, { connections: SHORT }, async (door) => {
      const silent = await door.connect();
      await door.server.shutdown(100);
      assertEquals(await ended(silent), "");
      await assertRejects(() => door.connect());
    }),
);
