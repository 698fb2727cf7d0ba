// WebSockets in every way in which the runtime that runs the tests can keep them.

import { assertEquals } from "@std/assert";
import {
  type ConsoleSocket,
  openConsoleSocket,
  shakeHands,
  switchedAnswer,
} from "../../src/http/console/socket.ts";
import { CLOSE } from "../../src/http/console/frames.ts";
import type { App } from "../../src/http/server.ts";
import { servesConnections } from "../../src/http/listen/runtime_connection.ts";
import { ended, LISTENERS, listenerTest, SHORT_LIMITS, withListener } from "./listeners.ts";

const MESSAGES = 50;
const MESSAGE_BYTES = 40_000;

const ECHO: App = {
  async fetch(request, { takeOver }) {
    const handshake = await shakeHands(request, undefined);
    if (takeOver === undefined) throw new Error("there is no connection to take over");
    const socket = openConsoleSocket(takeOver(), handshake);
    echo(socket);
    return switchedAnswer();
  },
};

/** Messages come in parts of any size, and go back so. */
async function echo(socket: ConsoleSocket): Promise<void> {
  for (;;) {
    const bytes = await socket.read();
    if (bytes === null) return await socket.close(CLOSE.normal, "");
    await socket.write(bytes.slice());
  }
}

listenerTest(
  LISTENERS.filter(({ relayed }) => relayed || servesConnections()),
  "a WebSocket carries both ways, and outlives the limits of requests",
  (kind) =>
    withListener(
      kind,
      { app: ECHO, connections: SHORT_LIMITS },
      async ({ port, caCerts, connect }) => {
        const client = Deno.createHttpClient({ caCerts });
        const url = `${kind.secure ? "wss" : "ws"}://127.0.0.1:${port}/`;
        const socket = new WebSocket(url, { client });
        try {
          socket.binaryType = "arraybuffer";
          await heard(socket, "open");
          for (let count = 0; count < 2; count++) {
            const back = echoes(socket);
            for (let at = 0; at < MESSAGES; at++) {
              socket.send(new Uint8Array(MESSAGE_BYTES).fill(at));
            }
            assertEquals(await back, Array.from({ length: MESSAGES }, (_, at) => at));
            await ended(await connect()); // As long as a connection may be silent.
          }
          socket.close();
          await heard(socket, "close");
        } finally {
          client.close();
        }
      },
    ),
);

function heard(socket: WebSocket, name: "open" | "close"): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.addEventListener(name, () => resolve(), { once: true });
    socket.addEventListener("error", () => reject(new Error("the WebSocket failed")), {
      once: true,
    });
  });
}

/** The first byte of each message that comes back. */
function echoes(socket: WebSocket): Promise<number[]> {
  const back: number[] = [];
  return new Promise((resolve) => {
    socket.onmessage = ({ data }) => {
      for (const byte of new Uint8Array(data)) back.push(byte);
      if (back.length < MESSAGES * MESSAGE_BYTES) return;
      resolve(back.filter((_, at) => at % MESSAGE_BYTES === 0));
    };
  });
}
