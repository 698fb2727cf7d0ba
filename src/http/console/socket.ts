// The WebSocket of a console, on a connection taken over from HTTP. The runtime's own WebSocket collects each
// message, of any number of parts, and bounds only a frame, at 64 MiB. A console is a stream of bytes both
// ways, so bytes are passed on as they arrive, and the client's are read only as fast as they are needed.

import { base64Of } from "../../domain/bytes.ts";
import { AgentError } from "../../domain/error.ts";
import { within } from "../../runtime/wait.ts";
import { SWITCHING } from "../listen/listener.ts";
import type { RawBytes } from "../listen/runtime_connection.ts";
import { closeBytes, frameBytes, FrameError, OPCODE, openFrameReader } from "./frames.ts";

/** Bytes of one read from a client. */
const READ_BYTES = 16 * 1024;
/** Milliseconds in which a client must take a close frame, and then answer it. */
const CLOSE_MS_MAX = 2_000;
/** Appended to a client's key before it is hashed (RFC 6455, section 4.2.2). */
const KEY_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** The base64 of sixteen bytes. */
const KEY = /^[A-Za-z0-9+/]{22}==$/;
const VERSION = "13";
const NOTHING = new Uint8Array(0);

/** A WebSocket of binary messages. */
export interface ConsoleSocket {
  /**
   * The client's next bytes, valid until the next call; null once it has closed or left.
   * @throws {FrameError} for an invalid frame
   */
  read(): Promise<Uint8Array<ArrayBuffer> | null>;
  /** Sends a message; settles when the connection has taken it. @throws when the client has gone */
  write(bytes: Uint8Array): Promise<void>;
  /** Sends a ping; the answer updates the time of the last arrival. */
  ping(): Promise<void>;
  /** When the client's last bytes arrived, by performance.now(). */
  readonly heardAtMs: number;
  /** Sends the reason, waits a while for the client's close, and closes. */
  close(code: number, reason: string): Promise<void>;
}

/** The server's side of a handshake. */
export interface Handshake {
  readonly accept: string;
  readonly protocol: string | undefined;
}

/** Stands for the answer on a connection that was taken over; never sent. */
export function switchedAnswer(): Response {
  return Object.defineProperty(new Response(), "status", { value: SWITCHING });
}

/**
 * Checks a request for a WebSocket.
 * @throws {AgentError} `malformed` (RFC 6455, 4.2.1)
 */
export async function shakeHands(
  { headers }: Request,
  protocol: string | undefined,
): Promise<Handshake> {
  const refuse = (header: string, expected: string) => {
    const sent = headers.get(header)?.slice(0, 80);
    const found = sent === undefined ? "is missing" : `is ${JSON.stringify(sent)}`;
    const message = `Cannot open the console: the header ${header} ${found}, expected ${expected}`;
    return new AgentError("malformed", message);
  };
  const connection = headers.get("connection") ?? "";
  if (!connection.toLowerCase().split(",").some((word) => word.trim() === "upgrade")) {
    throw refuse("Connection", "Upgrade");
  }
  const key = headers.get("sec-websocket-key") ?? "";
  if (!KEY.test(key)) throw refuse("Sec-WebSocket-Key", "16 bytes in base64");
  if (headers.get("sec-websocket-version") !== VERSION) {
    throw refuse("Sec-WebSocket-Version", VERSION);
  }
  return { accept: await acceptOf(key), protocol };
}

/** The answer to the key of a handshake (RFC 6455, section 4.2.2). */
export async function acceptOf(key: string): Promise<string> {
  const bytes = new TextEncoder().encode(key + KEY_SUFFIX);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-1", bytes));
  return base64Of(digest);
}

/** Opens a WebSocket on a connection, beginning with the answer to the handshake. */
export function openConsoleSocket(raw: RawBytes, handshake: Handshake): ConsoleSocket {
  const ended = Promise.withResolvers<void>();
  let heardAtMs = performance.now();
  let closed: Promise<void> | undefined;
  /** Frames are written one after another. Never rejects. */
  let turn: Promise<void> = Promise.resolve();
  const inTurn = (bytes: () => Uint8Array): Promise<void> => {
    const written = turn.then(() => raw.write(bytes()));
    turn = written.catch(() => {});
    return written;
  };
  const send = (opcode: number, bytes: Uint8Array) => inTurn(() => frameBytes(opcode, bytes));
  // The first frame fails in the same way.
  inTurn(() => headBytes(handshake)).catch(() => {});
  const parts = readParts(raw, () => heardAtMs = performance.now());
  const close = async (code: number, reason: string) => {
    await within(CLOSE_MS_MAX, send(OPCODE.close, closeBytes(code, reason)).catch(() => {}));
    await within(CLOSE_MS_MAX, ended.promise);
    raw.close();
    // A connection is closed only after its pending write.
    await turn;
  };
  return {
    async read() {
      try {
        for await (const { opcode, bytes } of parts) {
          if (opcode === OPCODE.binary) return bytes;
          if (opcode === OPCODE.ping) await send(OPCODE.pong, bytes);
          if (opcode === OPCODE.close) break;
        }
      } catch (error) {
        if (error instanceof FrameError) {
          // Closing with unread bytes resets the connection, and the client may miss the reason.
          drained(raw).then(ended.resolve);
          throw error;
        }
        // The connection broke: the bridge ends as if it was closed.
      }
      ended.resolve();
      return null;
    },
    write: (bytes) => send(OPCODE.binary, bytes),
    ping: () => send(OPCODE.ping, NOTHING),
    get heardAtMs() {
      return heardAtMs;
    },
    close: (code, reason) => closed ??= close(code, reason),
  };
}

/** The parts of frames as they arrive, to the end of the connection. May be iterated again. */
function readParts(raw: RawBytes, heard: () => void) {
  const frames = openFrameReader();
  const buffer = new Uint8Array(READ_BYTES);
  const parts = async function* () {
    for (;;) {
      const count = await raw.read(buffer);
      if (count === null) return;
      heard();
      yield* frames(buffer.subarray(0, count));
    }
  };
  const running = parts();
  return { [Symbol.asyncIterator]: () => ({ next: () => running.next() }) };
}

/** Drops what still arrives, until the connection ends. Never rejects. */
async function drained(raw: RawBytes): Promise<void> {
  const buffer = new Uint8Array(READ_BYTES);
  try {
    while (await raw.read(buffer) !== null);
  } catch {
    // The peer has closed it.
  }
}

function headBytes({ accept, protocol }: Handshake): Uint8Array {
  const lines = [
    `HTTP/1.1 ${SWITCHING} Switching Protocols`,
    "upgrade: websocket",
    "connection: Upgrade",
    `sec-websocket-accept: ${accept}`,
    ...(protocol === undefined ? [] : [`sec-websocket-protocol: ${protocol}`]),
  ];
  return new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n`);
}
