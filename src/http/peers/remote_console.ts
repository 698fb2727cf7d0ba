// The console of a machine on another host: a WebSocket to that host's agent, as the byte stream that a viewer's
// bridge expects. The platform's WebSocket buffers whatever arrives, and hides why the other side refused one, so the
// handshake is done here. Bytes are passed on and never kept.

import { base64Of, writeAll } from "../../domain/bytes.ts";
import { abortedError, AgentError } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { ListedHost } from "../../store/host_store.ts";
import type { ConsoleStream } from "../machine_access.ts";
import { acceptOf } from "../console/socket.ts";
import { frameBytes, MASK_BYTES, OPCODE, openFrameReader } from "../console/frames.ts";
import { SWITCHING } from "../listen/listener.ts";
import type { Caller } from "../caller.ts";
import { READ_BYTES } from "../console/bridge.ts";
import { ERROR_BYTES_MAX, errorOf, notReached, type Peers, refusedBy } from "./peers.ts";

/** Time for the other agent to open the console, milliseconds: more than its own host may take. */
const OPEN_MS_MAX = 45_000;
/** Largest head of its answer, bytes. */
const HEAD_BYTES_MAX = 16 * 1024;
const KEY_BYTES = 16;
const HEAD_END = "\r\n\r\n";

interface RemoteConsole {
  readonly uuid: MachineUuid;
  /** Path of the console at any agent. */
  readonly path: string;
  readonly caller: Caller;
  readonly request_id: string;
  readonly signal: AbortSignal;
}

/**
 * Opens the console of a machine of another host.
 * @throws {AgentError} what that agent answers, naming its host; `host_away`, `host_refused`, `aborted`
 */
export async function openRemoteConsole(
  peers: Peers,
  host: ListedHost,
  { uuid, path, caller, request_id, signal }: RemoteConsole,
): Promise<ConsoleStream> {
  const call = { method: "GET", target: path, caller, body: new Uint8Array() };
  const { url, headers } = await peers.sign(host, call);
  const key = base64Of(crypto.getRandomValues(new Uint8Array(KEY_BYTES)));
  const late = AbortSignal.timeout(OPEN_MS_MAX);
  const either = AbortSignal.any([signal, late]);
  const connection = await inTime(dial(url, peers.authorities), either).catch((error: unknown) => {
    if (signal.aborted) throw abortedError(`Cannot open the console of machine ${uuid}`, signal);
    throw notReached(host, url, error);
  });
  // Only closing the connection ends a pending read.
  let open = true;
  const close = () => {
    if (open) connection.close();
    open = false;
  };
  either.addEventListener("abort", close, { once: true });
  try {
    either.throwIfAborted();
    const lines = [
      `GET ${path} HTTP/1.1`,
      `host: ${url.host}`,
      "connection: Upgrade",
      "upgrade: websocket",
      "sec-websocket-version: 13",
      `sec-websocket-key: ${key}`,
      `x-request-id: ${request_id}`,
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ];
    await writeAll(connection, new TextEncoder().encode(lines.join("\r\n") + HEAD_END));
    const head = await readHead(connection);
    if (head.status !== SWITCHING) throw await refusalOf(host, head, connection);
    if (head.headers.get("sec-websocket-accept") !== await acceptOf(key)) {
      throw refusedBy(host, "it does not open a WebSocket");
    }
    return await streamOf(connection, head.rest, close);
  } catch (error) {
    close();
    if (signal.aborted) throw abortedError(`Cannot open the console of machine ${uuid}`, signal);
    if (error instanceof AgentError) throw error;
    throw notReached(host, url, late.aborted ? late.reason : error);
  } finally {
    either.removeEventListener("abort", close);
  }
}

function dial(url: URL, authorities: readonly string[]): Promise<Deno.Conn> {
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  if (url.protocol === "http:") return Deno.connect({ hostname, port: Number(url.port || 80) });
  const port = Number(url.port || 443);
  return Deno.connectTls({ hostname, port, caCerts: [...authorities] });
}

/** Waits for a connection until the signal fires; a connection that is made later is closed. */
async function inTime(dialed: Promise<Deno.Conn>, signal: AbortSignal): Promise<Deno.Conn> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    return await Promise.race([dialed, late]);
  } catch (error) {
    dialed.then((connection) => connection.close(), () => {});
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** The head of an answer, and bytes that arrived after it. */
interface AnswerHead {
  readonly status: number;
  readonly headers: Headers;
  readonly rest: Uint8Array<ArrayBuffer>;
}

async function readHead(connection: Deno.Conn): Promise<AnswerHead> {
  const buffer = new Uint8Array(HEAD_BYTES_MAX);
  for (let size = 0; size < buffer.length;) {
    const count = await connection.read(buffer.subarray(size));
    if (count === null) throw new Error("it closed the connection");
    size += count;
    const text = new TextDecoder("latin1").decode(buffer.subarray(0, size));
    const end = text.indexOf(HEAD_END);
    if (end < 0) continue;
    const [first = "", ...fields] = text.slice(0, end).split("\r\n");
    const status = Number(/^HTTP\/1\.1 (\d{3})(?: |$)/.exec(first)?.[1] ?? Number.NaN);
    if (Number.isNaN(status)) break;
    const headers = new Headers();
    for (const field of fields) {
      const [, name, value = ""] = /^([\w-]+):\s*(.*?)\s*$/.exec(field) ?? [];
      if (name !== undefined) headers.append(name, value);
    }
    return { status, headers, rest: buffer.slice(end + HEAD_END.length, size) };
  }
  throw new Error("its answer is not that of an agent");
}

/** The error for a console that the other agent does not open. */
async function refusalOf(
  host: ListedHost,
  { status, headers, rest }: AnswerHead,
  connection: Deno.Conn,
): Promise<AgentError> {
  const length = /^\d{1,9}$/.exec(headers.get("content-length") ?? "")?.[0] ?? "0";
  const body = new Uint8Array(Math.min(Number(length), ERROR_BYTES_MAX));
  let size = Math.min(rest.length, body.length);
  body.set(rest.subarray(0, size));
  while (size < body.length) {
    const count = await connection.read(body.subarray(size));
    if (count === null) break;
    size += count;
  }
  return await errorOf(host, status, headers, new Response(body.subarray(0, size)).body);
}

/** The bytes of the console; the first of them have already arrived. */
async function streamOf(
  connection: Deno.Conn,
  rest: Uint8Array<ArrayBuffer>,
  close: () => void,
): Promise<ConsoleStream> {
  /** Frames are written one after another. */
  let turn: Promise<void> = Promise.resolve();
  const send = (opcode: number, bytes: Uint8Array) => {
    const mask = crypto.getRandomValues(new Uint8Array(MASK_BYTES));
    const written = turn.then(() => writeAll(connection, frameBytes(opcode, bytes, mask)));
    turn = written.catch(() => {});
    return written;
  };
  const pieces = consoleBytes(connection, rest, (bytes) => send(OPCODE.pong, bytes));
  let left: Uint8Array = new Uint8Array();
  const first = await pieces.next();
  if (first.done === true) throw new Error("it closed the console");
  return {
    greeting: first.value.slice(),
    async read(buffer) {
      if (left.length === 0) {
        const next = await pieces.next();
        if (next.done === true) return null;
        left = next.value;
      }
      const count = Math.min(left.length, buffer.length);
      buffer.set(left.subarray(0, count));
      left = left.subarray(count);
      return count;
    },
    write: (bytes) => send(OPCODE.binary, bytes),
    close,
  };
}

/** The payload of binary messages as it arrives, to the end of the console. Each piece is valid until the next. */
async function* consoleBytes(
  connection: Deno.Conn,
  rest: Uint8Array<ArrayBuffer>,
  pong: (bytes: Uint8Array) => Promise<void>,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  const frames = openFrameReader("server");
  const buffer = new Uint8Array(READ_BYTES);
  for (let piece: Uint8Array<ArrayBuffer> | null = rest; piece !== null;) {
    for (const { opcode, bytes } of frames(piece)) {
      if (opcode === OPCODE.binary) yield bytes;
      if (opcode === OPCODE.ping) await pong(bytes);
      if (opcode === OPCODE.close) return;
    }
    const count: number | null = await connection.read(buffer);
    piece = count === null ? null : buffer.subarray(0, count);
  }
}
