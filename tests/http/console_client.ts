// The client's side of a console: a WebSocket whose bytes are read in order, as RFB wants them.

import { until } from "../support/until.ts";
import { vncAnswer } from "../../src/simulator/console/handshake.ts";

export interface ConsoleClient {
  readonly socket: WebSocket;
  /** Exactly these many bytes. */
  read(length: number): Promise<Uint8Array<ArrayBuffer>>;
  /** Bytes that have come so far, those that were read included. */
  received(): number;
  /** Code and reason of the end, once it has come. */
  ended(): Promise<{ code: number; reason: string }>;
  /** Closes it and waits for the end. */
  close(): Promise<{ code: number; reason: string }>;
}

/** The WebSocket of a machine's console. */
export function consoleUrl(agentUrl: string, uuid: string): string {
  return `${agentUrl.replace(/^http/, "ws")}/agent/v1/machines/${uuid}/console`;
}

/** Opens a console, or waits until it is refused. */
export async function openConsole(
  url: string,
  options: string[] | WebSocketOptions = ["binary"],
): Promise<ConsoleClient> {
  const socket = new WebSocket(url, options);
  socket.binaryType = "arraybuffer";
  let waiting: Uint8Array<ArrayBuffer>[] = [];
  let received = 0;
  const end = Promise.withResolvers<{ code: number; reason: string }>();
  let closed: string | undefined;
  socket.onmessage = ({ data }) => {
    received += data.byteLength;
    waiting.push(new Uint8Array(data));
  };
  socket.onerror = () => {};
  socket.onclose = ({ code, reason }) => {
    closed = `${code} ${reason}`;
    end.resolve({ code, reason });
  };
  await until("the console to open or to be refused", () => socket.readyState !== 0);
  return {
    socket,
    received: () => received,
    async read(length) {
      const size = () => waiting.reduce((sum, part) => sum + part.length, 0);
      await until(`${length} bytes`, () => {
        if (size() >= length) return true;
        if (closed !== undefined) throw new Error(`The console was closed: ${closed}`);
        return false;
      });
      const all = new Uint8Array(await new Blob(waiting).arrayBuffer());
      waiting = [all.slice(length)];
      return all.slice(0, length);
    },
    ended: () => end.promise,
    close() {
      socket.close(1000);
      return end.promise;
    },
  };
}

/** Shakes hands as a viewer with this password does, and returns the size of the screen. */
export async function shakeHands(
  client: ConsoleClient,
  password?: string,
): Promise<{ width: number; height: number }> {
  const text = new TextDecoder().decode(await client.read(12));
  if (text !== "RFB 003.008\n") throw new Error(`The console said ${JSON.stringify(text)}`);
  client.socket.send(new TextEncoder().encode(text));
  const [count = 0] = await client.read(1);
  const [type = 0] = await client.read(count);
  client.socket.send(new Uint8Array([type]));
  if (type === 2) {
    client.socket.send(vncAnswer(password ?? "", await client.read(16)));
  }
  const result = new DataView((await client.read(4)).buffer).getUint32(0);
  if (result !== 0) throw new Error("The console refused the password");
  client.socket.send(new Uint8Array([1]));
  const init = new DataView((await client.read(24)).buffer);
  await client.read(init.getUint32(20));
  return { width: init.getUint16(0), height: init.getUint16(2) };
}

/** Headers with which a client asks for a WebSocket. */
export const UPGRADE = {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
};

/** Sends a request that fetch() cannot send, and returns the status and the body of its answer. */
export async function askRaw(
  port: number,
  path: string,
  headers: Readonly<Record<string, string>>,
  method = "GET",
): Promise<{ status: number; text: string }> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  try {
    const lines = Object.entries({ host: `127.0.0.1:${port}`, ...headers })
      .map(([name, value]) => `${name}: ${value}`);
    const request = [`${method} ${path} HTTP/1.1`, ...lines, "", ""].join("\r\n");
    await connection.write(new TextEncoder().encode(request));
    let text = "";
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(4096);
    for (;;) {
      const count = await connection.read(buffer);
      text += decoder.decode(buffer.subarray(0, count ?? 0));
      const [head = "", body = ""] = text.split("\r\n\r\n");
      const reported = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      const length = method === "HEAD" ? 0 : reported;
      if (count === null || (text.includes("\r\n\r\n") && body.length >= length)) {
        return { status: Number(head.split(" ")[1]), text: body };
      }
    }
  } finally {
    connection.close();
  }
}
