// Relays a console between a WebSocket and the machine. RFB passes through unchanged, including
// authentication.
//
// Neither side is read before the other has accepted the previous bytes, with one exception: a few bytes of
// the client are buffered, so that its departure is noticed while the console accepts nothing. Keys and
// pointer events never fill that buffer.

import type { ConsoleStream } from "../machine_access.ts";
import type { ConsoleSocket } from "./socket.ts";
import { CLOSE, FrameError } from "./frames.ts";
import { LOST_ACCESS } from "../caller.ts";

/** Bytes of one read from a console. */
export const READ_BYTES = 64 * 1024;
/** Bytes from a client that the console has not taken yet. */
const INCOMING_BYTES_MAX = 1024 * 1024;
/** Counted for each piece besides its bytes, so that many small ones are bounded too. */
const PIECE_BYTES = 64;
/**
 * Milliseconds without a byte from the client, not even the answer to a ping, after which it counts as gone.
 */
const SILENT_MS_MAX = 60_000;
const PING_MS = SILENT_MS_MAX / 2;
/** Milliseconds between two checks of a client's access. */
const ALLOWED_MS = 2_000;

/** How a session ended, and how many bytes it carried. */
interface ConsoleEnd {
  /** One short sentence, also sent to the client. */
  readonly reason: string;
  readonly bytes_to_client: number;
  readonly bytes_from_client: number;
}

interface SessionRules {
  /** Milliseconds without a byte in either direction. */
  readonly idleMs: number;
  readonly closing: AbortSignal;
  /** Called from time to time: whether the client still has access. */
  readonly allowed: () => Promise<boolean>;
}

/**
 * Relays bytes until one side ends or a limit ends the session, then closes both sides.
 * @returns once the WebSocket is closed
 */
export async function bridgeConsole(
  socket: ConsoleSocket,
  stream: ConsoleStream,
  { idleMs, closing, allowed }: SessionRules,
): Promise<ConsoleEnd> {
  const session = openSession(socket, stream, idleMs);
  const looking = watchAllowed(allowed, () => session.end(CLOSE.policy, LOST_ACCESS));
  const stop = () => session.end(CLOSE.goingAway, "the agent is stopping");
  if (closing.aborted) stop();
  closing.addEventListener("abort", stop, { once: true });
  try {
    return await session.closed;
  } finally {
    closing.removeEventListener("abort", stop);
    looking.stop();
  }
}

interface ConsoleSession {
  /** Closes both sides; the first reason counts. */
  end(code: number, reason: string): void;
  readonly closed: Promise<ConsoleEnd>;
}

function openSession(socket: ConsoleSocket, stream: ConsoleStream, idleMs: number): ConsoleSession {
  const { promise: closed, resolve } = Promise.withResolvers<ConsoleEnd>();
  const bytes = { toClient: 0, fromClient: 0 };
  let ended = false;
  const end = (code: number, reason: string) => {
    if (ended) return;
    ended = true;
    idle.stop();
    pinging.stop();
    stream.close();
    const finish = () => {
      const { toClient, fromClient } = bytes;
      resolve({ reason, bytes_to_client: toClient, bytes_from_client: fromClient });
    };
    socket.close(code, reason).then(finish, finish);
  };
  const idle = watchIdle(
    idleMs,
    () => end(CLOSE.normal, `no data for ${idleMs / 1000} s`),
  );
  const pinging = watchPings(
    socket,
    () => end(CLOSE.goingAway, "the client does not answer pings"),
  );
  const over = () => ended;
  carryToClient(socket, stream, over, (count) => {
    bytes.toClient += count;
    idle.touch();
  }).then(
    (reason) => end(CLOSE.normal, reason),
    // A connection closed on this side fails too; the reason is already known.
    () => end(CLOSE.broken, "the connection to the console broke"),
  );
  const toConsole = openWriter(stream, end);
  carryFromClient(socket, over, (piece) => {
    bytes.fromClient += piece.length;
    idle.touch();
    toConsole(piece);
  }).then(
    () => end(CLOSE.normal, "the client disconnected"),
    (error) => end(error instanceof FrameError ? error.code : CLOSE.broken, error.message),
  );
  return { end, closed };
}

/** Ends with the console, or with the WebSocket. @returns why @throws when the console broke */
async function carryToClient(
  socket: ConsoleSocket,
  stream: ConsoleStream,
  over: () => boolean,
  sent: (bytes: number) => void,
): Promise<string> {
  const buffer = new Uint8Array(READ_BYTES);
  for (let bytes = stream.greeting;;) {
    try {
      await socket.write(bytes);
    } catch {
      return "the client disconnected";
    }
    sent(bytes.length);
    const count = over() ? null : await stream.read(buffer);
    if (count === null) return "the console has ended";
    bytes = buffer.subarray(0, count);
  }
}

/** Ends with the WebSocket, which is still read while it closes. @throws {FrameError} */
async function carryFromClient(
  socket: ConsoleSocket,
  over: () => boolean,
  take: (bytes: Uint8Array<ArrayBuffer>) => void,
): Promise<void> {
  for (;;) {
    const bytes = await socket.read();
    if (bytes === null) return;
    // The socket reuses the bytes with its next read.
    if (!over()) take(bytes.slice());
  }
}

/** Queues what a client sends, up to a limit, until the console takes it. */
function openWriter(
  stream: ConsoleStream,
  end: ConsoleSession["end"],
): (bytes: Uint8Array<ArrayBuffer>) => void {
  let waiting = 0;
  let ended = false;
  let writing: Promise<void> = Promise.resolve();
  const stop = (code: number, reason: string) => {
    ended = true;
    end(code, reason);
  };
  const write = async (bytes: Uint8Array<ArrayBuffer>) => {
    // After a failure nothing more goes to the console.
    if (ended) return;
    try {
      await stream.write(bytes);
    } catch {
      stop(CLOSE.broken, "the connection to the console broke");
    }
  };
  return (bytes) => {
    if (ended) return;
    const cost = bytes.length + PIECE_BYTES;
    if (waiting + cost > INCOMING_BYTES_MAX) {
      return stop(CLOSE.policy, "the client sends more than the console takes");
    }
    waiting += cost;
    writing = writing.then(() => write(bytes)).then(() => void (waiting -= cost));
  };
}

/** Calls back once access is revoked or cannot be checked. */
function watchAllowed(allowed: () => Promise<boolean>, onEnd: () => void): { stop(): void } {
  let timer: ReturnType<typeof setTimeout>;
  let stopped = false;
  const look = async () => {
    if (!await allowed().catch(() => false)) onEnd();
    else if (!stopped) timer = setTimeout(look, ALLOWED_MS);
  };
  timer = setTimeout(look, ALLOWED_MS);
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

/** Pings the client, and calls back once it is gone. */
function watchPings(socket: ConsoleSocket, onGone: () => void): { stop(): void } {
  const timer = setInterval(() => {
    if (performance.now() - socket.heardAtMs > SILENT_MS_MAX) return onGone();
    // The next bytes for the client fail in the same way.
    socket.ping().catch(() => {});
  }, PING_MS);
  return { stop: () => clearInterval(timer) };
}

/** Calls back once `idleMs` have passed without a touch. */
function watchIdle(idleMs: number, onIdle: () => void): { touch(): void; stop(): void } {
  let touchedMs = performance.now();
  let timer: ReturnType<typeof setTimeout>;
  const look = () => {
    const leftMs = touchedMs + idleMs - performance.now();
    if (leftMs <= 0) onIdle();
    else timer = setTimeout(look, leftMs);
  };
  timer = setTimeout(look, idleMs);
  return { touch: () => void (touchedMs = performance.now()), stop: () => clearTimeout(timer) };
}
