// Connections that no well-behaved client makes, in every way in which they are served: handshakes
// that are never finished, resets, halves that are closed early, floods, and callers that do not read.

import { assert, assertEquals } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { servesConnections } from "../../src/http/listen/runtime_connection.ts";
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
  send,
  SHORT_LIMITS,
  TLS_LISTENERS,
  withListener,
} from "./listeners.ts";
import { listed } from "./raw_call.ts";

/** Those that an agent on this runtime has. */
const KEPT_LISTENERS = LISTENERS.filter(({ relayed }) => relayed || servesConnections());
const LARGE_BYTES = 3_000_000;
/** Callers that take nothing of their answers. */
const DEAF = 100;
/** The first bytes of a ClientHello that claims to be 512 bytes long. */
const HELLO_START = new Uint8Array([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]);
const GET_AND_CLOSE = listed(["GET / HTTP/1.1", "Host: localhost", "Connection: close"]);

/** Says how many bytes came, and from where; GET /large answers many. */
const COUNTING: App = {
  fetch: async (request, { remote }) => {
    if (request.url.endsWith("/large")) return new Response(pieces(LARGE_BYTES));
    const { byteLength } = await request.arrayBuffer();
    const from = remote !== undefined && "port" in remote ? remote.port : 0;
    return Response.json({ byteLength, from });
  },
};

function pieces(bytes: number): ReadableStream<Uint8Array> {
  let left = bytes;
  return new ReadableStream({
    pull(controller) {
      const size = Math.min(left, 50_000);
      controller.enqueue(new Uint8Array(size).fill(0x78));
      left -= size;
      if (left === 0) controller.close();
    },
  });
}

async function ask(listener: OpenedListener, request: string, body?: Uint8Array): Promise<string> {
  const connection = await listener.converse();
  const answer = ended(connection);
  await send(connection, request);
  if (body !== undefined) await send(connection, body);
  return await answer;
}

listenerTestInTurn(
  TLS_LISTENERS,
  "handshakes that are never finished are closed, and leave nothing behind",
  (kind) =>
    withListener(kind, { connections: SHORT_LIMITS }, async (listener) => {
      assert((await ask(listener, GET_AND_CLOSE)).endsWith("hello"));
      const before = openDescriptors();
      const silent = await Promise.all(Array.from({ length: 50 }, () => listener.connect()));
      const begun = await Promise.all(Array.from({ length: 50 }, () => listener.connect()));
      for (const connection of begun) await send(connection, HELLO_START);
      const dripping = await listener.connect();
      const over = ended(dripping).then(() => true);
      await send(dripping, HELLO_START);
      let cut = false;
      over.then(() => cut = true);
      assert((await ask(listener, GET_AND_CLOSE)).endsWith("hello"));
      await until("the dripping handshake to be cut", async () => {
        if (!cut) await dripping.write(new Uint8Array(1)).catch(() => {});
        return cut;
      });
      assertEquals(new Set(await Promise.all([...silent, ...begun].map(ended))), new Set([""]));
      await until("the descriptors to be free", () =>
        openDescriptors() <= before + OTHER_DESCRIPTORS);
    }),
);

listenerTest(TLS_LISTENERS, "handshakes that are never finished make room for a caller", (kind) => {
  const connections = { ...DEFAULT_LIMITS, connectionsMax: 3 };
  return withListener(kind, { connections }, async (listener) => {
    const silent = [];
    for (let count = 0; count < 10; count++) {
      const connection = await listener.connect();
      await send(connection, HELLO_START);
      silent.push(connection);
    }
    assert((await ask(listener, GET_AND_CLOSE)).endsWith("hello"));
    assertEquals(await Promise.all(silent.slice(0, 7).map(ended)), Array(7).fill(""));
    for (const connection of silent.slice(7)) connection.close();
  });
});

listenerTest(
  TLS_LISTENERS,
  "what is no handshake is closed at once",
  (kind) =>
    withListener(kind, {}, async (listener) => {
      const noise = crypto.getRandomValues(new Uint8Array(4_000));
      for (const bytes of ["GET / HTTP/1.1\r\n\r\n", "\0".repeat(100), noise]) {
        const connection = await listener.connect();
        await send(connection, bytes);
        await ended(connection);
      }
      assert((await ask(listener, GET_AND_CLOSE)).endsWith("hello"));
    }),
);

listenerTestInTurn(
  LISTENERS,
  "a thousand connections, dropped in any state, leave no descriptor",
  (kind) =>
    withListener(kind, { app: COUNTING }, async (listener) => {
      await ask(listener, GET_AND_CLOSE);
      const before = openDescriptors();
      const large = listed(["GET /large HTTP/1.1", "Host: localhost"]);
      const upload = listed(["POST / HTTP/1.1", "Host: localhost", "Content-Length: 99"]);
      for (let round = 0; round < 10; round++) {
        await Promise.all(Array.from({ length: 100 }, async (_, at) => {
          const raw = at % 2 === 0;
          const connection = raw ? await listener.connect() : await listener.converse();
          if (raw) await send(connection, at % 4 === 0 ? HELLO_START : "G");
          else await send(connection, at % 4 === 1 ? large : upload);
          // What it was sent is unread: the agent sees a reset.
          connection.close();
        }));
      }
      await until("the descriptors to be free", () =>
        openDescriptors() <= before + OTHER_DESCRIPTORS);
      assert((await ask(listener, GET_AND_CLOSE)).includes('"byteLength":0'));
    }),
);

listenerTest(
  LISTENERS,
  "large bodies pass whole, both ways",
  (kind) =>
    withListener(kind, { app: COUNTING }, async (listener) => {
      const lines = ["Host: localhost", "Connection: close"];
      const length = `Content-Length: ${LARGE_BYTES}`;
      const head = listed(["POST / HTTP/1.1", ...lines, length]);
      const posted = await ask(listener, head, new Uint8Array(LARGE_BYTES));
      assert(posted.includes(`"byteLength":${LARGE_BYTES}`), posted);
      const got = await ask(listener, listed(["GET /large HTTP/1.0", ...lines]));
      assertEquals(got.split("\r\n\r\n")[1]?.length, LARGE_BYTES);
    }),
);

listenerTest(
  LISTENERS,
  "one who ends sending in the middle of anything is closed",
  (kind) =>
    withListener(kind, { app: COUNTING }, async (listener) => {
      for (
        const text of ["", "GET / HT", listed(["POST / HTTP/1.1", "Host: x", "Content-Length: 9"])]
      ) {
        const connection = await listener.converse();
        await send(connection, text);
        await connection.closeWrite();
        assert(!(await ended(connection)).startsWith("HTTP/1.1 2"), text);
      }
      assert((await ask(listener, GET_AND_CLOSE)).includes('"byteLength":0'));
    }),
);

listenerTest(
  LISTENERS,
  "the application gets the address from which the caller itself has connected",
  (kind) =>
    withListener(kind, { app: COUNTING }, async (listener) => {
      const connection = await listener.converse();
      const { port } = connection.localAddr;
      await send(connection, GET_AND_CLOSE);
      assert((await ended(connection)).includes(`"from":${port}`));
    }),
);

listenerTest(
  KEPT_LISTENERS,
  "an answer that closes its connection is the last one on it",
  async (kind) => {
    let asked = 0;
    const closing: App = {
      fetch: () => {
        asked += 1;
        return new Response("last", { headers: { connection: "close" } });
      },
    };
    await withListener(kind, { app: closing, connections: SHORT_LIMITS }, async (listener) => {
      const text = await ask(listener, listed(["GET / HTTP/1.1", "Host: localhost"]).repeat(50));
      assertEquals([text.split("HTTP/1.1 200").length - 1, text.endsWith("last"), asked], [
        1,
        true,
        1,
      ]);
    });
  },
);

listenerTestInTurn(
  LISTENERS,
  "one who takes nothing is let go of as soon as it lets go",
  async (kind) => {
    const endless: App = { fetch: () => new Response(pieces(1e12)) };
    await withListener(kind, { app: endless, connections: SHORT_LIMITS }, async (listener) => {
      const before = openDescriptors();
      const deaf = await openInTurn(DEAF, async () => {
        const connection = await listener.converse();
        await send(connection, GET_AND_CLOSE);
        return connection;
      });
      // One descriptor of a deaf caller is its own; the agent keeps one at most, for what it wrote.
      await until(
        "all else to be closed",
        () => openDescriptors() <= before + 2 * deaf.length + OTHER_DESCRIPTORS,
      );
      for (const connection of deaf) connection.close();
      await until(
        "the descriptors to be free",
        () => openDescriptors() <= before + OTHER_DESCRIPTORS,
      );
    });
  },
);

listenerTest(
  LISTENERS,
  "an answer given before the body was read reaches its caller",
  async (kind) => {
    const early: App = { fetch: () => new Response("too large", { status: 413 }) };
    await withListener(kind, { app: early }, async (listener) => {
      const length = "Content-Length: 50000000";
      const connection = await listener.converse();
      await send(connection, listed(["POST / HTTP/1.1", "Host: localhost", length]));
      const buffer = new Uint8Array(1000);
      const size = await connection.read(buffer) ?? 0;
      assert(new TextDecoder().decode(buffer.subarray(0, size)).startsWith("HTTP/1.1 413"));
      connection.close();
    });
  },
);
