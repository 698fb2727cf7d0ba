// WebSockets in every way in which the runtime that runs the tests can keep them.

import { assertEquals } from "@std/assert";
import type { App } from "../../src/http/server.ts";
import { servesConnections } from "../../src/http/runtime_connection.ts";
import { DOORS, doorTest, ended, SHORT_LIMITS, withDoor } from "./doors.ts";

const MESSAGES = 50;
const MESSAGE_BYTES = 40_000;

const ECHO: App = {
  fetch(request) {
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => socket.send(data);
    return response;
  },
};

doorTest(
  DOORS.filter(({ relayed }) => relayed || servesConnections()),
  "a WebSocket carries both ways, and outlives the limits of requests",
  (kind) =>
    withDoor(kind, { app: ECHO, connections: SHORT_LIMITS }, async ({ port, caCerts, connect }) => {
      const client = Deno.createHttpClient({ caCerts });
      const url = `${kind.secure ? "wss" : "ws"}://127.0.0.1:${port}/`;
      const socket = new WebSocket(url, { client });
      try {
        socket.binaryType = "arraybuffer";
        await heard(socket, "open");
        for (let count = 0; count < 2; count++) {
          const back = echoes(socket);
          for (let at = 0; at < MESSAGES; at++) socket.send(new Uint8Array(MESSAGE_BYTES).fill(at));
          assertEquals(await back, Array.from({ length: MESSAGES }, (_, at) => at));
          await ended(await connect()); // As long as a connection may be silent.
        }
        socket.close();
        await heard(socket, "close");
      } finally {
        client.close();
      }
    }),
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
  const marks: number[] = [];
  return new Promise((resolve) => {
    socket.onmessage = ({ data }) => {
      marks.push(new Uint8Array(data)[0] ?? -1);
      if (marks.length === MESSAGES) resolve(marks);
    };
  });
}
