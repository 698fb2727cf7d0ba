// Carries a console between a WebSocket and the connection to it. RFB is passed through untouched: the
// client speaks it, its authentication included, and this file knows no byte of it.
//
// What the console sends waits in its own connection while the client is slow: nothing is read until
// the WebSocket has let go of what came before. The other way round Deno offers no way to leave a
// message with its sender, so what a client may have on the way is bounded instead; keys and pointer
// never come near the bound.

import type { ConsoleStream } from "./app_deps.ts";

/** Bytes that are read from a console at once. */
const READ_BYTES = 64 * 1024;
/** Bytes that may wait in a WebSocket before the console is read again. */
const OUTGOING_BYTES_MAX = 256 * 1024;
/** Bytes from a client that the console has not taken yet. */
const INCOMING_BYTES_MAX = 1024 * 1024;
/** What a message costs besides its bytes, so that empty ones are bounded too. */
const MESSAGE_BYTES = 64;
/** Milliseconds between two looks at a WebSocket that is full; it tells nobody when it is not. */
const DRAIN_MS_FIRST = 2;
const DRAIN_MS_LONGEST = 50;
/** Milliseconds in which a client that asked for a WebSocket must have one. */
const OPEN_MS_MAX = 10_000;
/** Milliseconds between two looks at whether a client may still be here. */
const ALLOWED_MS = 2_000;

/** Codes of RFC 6455, section 7.4.1. */
const NORMAL = 1000;
const GOING_AWAY = 1001;
const NOT_BINARY = 1003;
const POLICY = 1008;
const BROKEN = 1011;

/** How a session ended, and what it carried. */
export interface ConsoleEnd {
  /** One short sentence; the client is told the same. */
  readonly reason: string;
  readonly bytes_to_client: number;
  readonly bytes_from_client: number;
}

/** What a session is held to. */
export interface SessionRules {
  /** Longest time without a byte either way, milliseconds. */
  readonly idleMs: number;
  /** Ends every session. */
  readonly closing: AbortSignal;
  /** Asked now and then whether the client may still be here. */
  readonly allowed: () => Promise<boolean>;
}

/**
 * Carries bytes until one side ends, or a rule of the session ends it. Both sides are closed then.
 * @param socket A WebSocket of this server that is being opened
 * @returns once the WebSocket is closed
 */
export async function bridgeConsole(
  socket: WebSocket,
  stream: ConsoleStream,
  { idleMs, closing, allowed }: SessionRules,
): Promise<ConsoleEnd> {
  const session = openSession(socket, stream, idleMs);
  const looking = watchAllowed(allowed, () => session.end(POLICY, "the token was revoked"));
  const stop = () => session.end(GOING_AWAY, "the agent is stopping");
  if (closing.aborted) stop();
  closing.addEventListener("abort", stop, { once: true });
  try {
    return await session.closed;
  } finally {
    closing.removeEventListener("abort", stop);
    looking.stop();
  }
}

interface Session {
  /** Closes both sides; the first reason counts. */
  end(code: number, reason: string): void;
  readonly closed: Promise<ConsoleEnd>;
}

function openSession(socket: WebSocket, stream: ConsoleStream, idleMs: number): Session {
  const { promise: closed, resolve } = Promise.withResolvers<ConsoleEnd>();
  const bytes = { toClient: 0, fromClient: 0 };
  let reason: string | undefined;
  const end = (code: number, why: string) => {
    reason ??= why;
    idle.stop();
    stream.close();
    if (socket.readyState < WebSocket.CLOSING) socket.close(code, why);
  };
  const finish = (why: string) => {
    clearTimeout(late);
    end(NORMAL, why);
    const { toClient, fromClient } = bytes;
    resolve({ reason: reason ?? why, bytes_to_client: toClient, bytes_from_client: fromClient });
  };
  const idle = watchIdle(idleMs, () => end(NORMAL, `nothing has come for ${idleMs / 1000} s`));
  // A client that is gone before there is a WebSocket brings no event at all.
  const late = setTimeout(() => finish("the client never came"), OPEN_MS_MAX);
  const toConsole = openWriter(stream, end);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    clearTimeout(late);
    carryToClient(socket, stream, (count) => {
      bytes.toClient += count;
      idle.touch();
    }).then(
      () => end(NORMAL, "the console has ended"),
      // A connection that was closed here fails too; the reason for that is known already.
      () => end(BROKEN, "the console broke off"),
    );
  };
  socket.onmessage = ({ data }) => {
    if (!(data instanceof ArrayBuffer)) return end(NOT_BINARY, "a console takes binary messages");
    bytes.fromClient += data.byteLength;
    idle.touch();
    toConsole(new Uint8Array(data));
  };
  // What is wrong is told by the close event that follows.
  socket.onerror = () => {};
  socket.onclose = () => finish("the client has left");
  return { end, closed };
}

/** Ends with the console, or when the WebSocket is no longer open. */
async function carryToClient(
  socket: WebSocket,
  stream: ConsoleStream,
  sent: (bytes: number) => void,
): Promise<void> {
  const send = async (bytes: Uint8Array<ArrayBuffer>) => {
    socket.send(bytes);
    sent(bytes.length);
    let pauseMs = DRAIN_MS_FIRST;
    while (socket.readyState === WebSocket.OPEN && socket.bufferedAmount > OUTGOING_BYTES_MAX) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      pauseMs = Math.min(pauseMs * 2, DRAIN_MS_LONGEST);
    }
  };
  await send(stream.greeting);
  const buffer = new Uint8Array(READ_BYTES);
  while (socket.readyState === WebSocket.OPEN) {
    const count = await stream.read(buffer);
    if (count === null) return;
    // The WebSocket keeps what it is given, and the buffer is used again.
    if (socket.readyState === WebSocket.OPEN) await send(buffer.slice(0, count));
  }
}

/** Takes what a client sends, one message after the other, as far as the console has room for it. */
function openWriter(
  stream: ConsoleStream,
  end: Session["end"],
): (bytes: Uint8Array<ArrayBuffer>) => void {
  let waiting = 0;
  let ended = false;
  let writing: Promise<void> = Promise.resolve();
  const stop = (code: number, reason: string) => {
    ended = true;
    end(code, reason);
  };
  const write = async (bytes: Uint8Array<ArrayBuffer>) => {
    // What follows a failure is not for the console any more.
    if (ended) return;
    try {
      await stream.write(bytes);
    } catch {
      stop(BROKEN, "the console broke off");
    }
  };
  return (bytes) => {
    if (ended) return;
    const cost = bytes.length + MESSAGE_BYTES;
    if (waiting + cost > INCOMING_BYTES_MAX) {
      return stop(POLICY, "the client sends more than the console takes");
    }
    waiting += cost;
    writing = writing.then(() => write(bytes)).then(() => void (waiting -= cost));
  };
}

/** Calls back once somebody is not allowed any more, or nobody can tell. */
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

/** Calls back once nothing was touched for so long. */
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
