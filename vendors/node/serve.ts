// HTTP on one accepted connection: the way in which the agent serves, and Deno.serve() for what else
// listens. Node's server never listens itself; it is handed connections.

import { Buffer } from "node:buffer";
import http from "node:http";
import type net from "node:net";
import type { Duplex } from "node:stream";
import type {
  ConnectionHandling,
  RawBytes,
  RequestInfo,
  ServedConnection,
} from "../../src/http/listen/runtime_connection.ts";
import { KnownResponse, wholeBodies } from "./answers.ts";
import { Conn, Listener, type ListenPlace } from "./connections.ts";
import { denoError, errors } from "./errors.ts";

/** Longest head of a request, bytes; the agent refuses those beyond its own limit. */
const HEAD_BYTES_MAX = 64 * 1024;
const UNKNOWN_METHODS: readonly string[] = ["TRACE", "TRACK", "CONNECT"];
const UPGRADE_WITH_BODY = "Cannot change the protocol of a request that has a body\n";

type Handling = Pick<ConnectionHandling, "answer" | "failed">;

/** Serves one request; set for each connection. */
type Take = (request: http.IncomingMessage, answer: http.ServerResponse, raw?: RawSocket) => void;

interface RawSocket {
  readonly socket: net.Socket;
  /** What came behind the head. */
  readonly head: Uint8Array;
}

const takes = new WeakMap<object, Take>();
let sharedServer: http.Server | undefined;

function openServer(): http.Server {
  const server = http.createServer({
    noDelay: true,
    keepAliveTimeout: 0,
    requestTimeout: 0,
    headersTimeout: 0,
    requireHostHeader: false,
    maxHeaderSize: HEAD_BYTES_MAX,
  });
  server.timeout = 0;
  server.on("request", (request, answer) => takes.get(request.socket)?.(request, answer));
  server.on("upgrade", (request: http.IncomingMessage, given: Duplex, head: Uint8Array) => {
    const { method, socket } = request;
    // A newer Node gives something else than the connection when the request has a body, which breaks with it.
    given.on("error", () => {});
    if (given !== socket || (method !== "GET" && method !== "HEAD")) return refuseUpgrade(socket);
    const answer = new http.ServerResponse(request);
    answer.shouldKeepAlive = false;
    answer.assignSocket(socket);
    takes.get(socket)?.(request, answer, { socket, head });
  });
  return server;
}

function refuseUpgrade(socket: net.Socket): void {
  const head = `HTTP/1.1 400 Bad Request\r\nconnection: close\r\n` +
    `content-length: ${UPGRADE_WITH_BODY.length}\r\n\r\n`;
  socket.end(head + UPGRADE_WITH_BODY, () => socket.destroySoon());
}

/** Serves HTTP/1.1 on a connection until one side closes it. */
export function serveConnection(connection: Conn, handling: Handling): ServedConnection {
  const { socket } = connection;
  let underWay = 0;
  let ending = false;
  const { promise: finished, resolve } = Promise.withResolvers<void>();
  socket.once("close", () => resolve());
  if (socket.destroyed) resolve();
  const secure = "encrypted" in socket;
  takes.set(socket, async (message, answer, raw) => {
    underWay += 1;
    const taken = await serveOne(message, answer, raw, handling, secure);
    underWay -= 1;
    if (taken) return;
    if (raw !== undefined || (ending && underWay === 0)) socket.destroySoon();
  });
  (sharedServer ??= openServer()).emit("connection", socket);
  return {
    finished,
    shutdown() {
      ending = true;
      if (underWay === 0) socket.destroySoon();
      return finished;
    },
    cut: () => void socket.destroy(),
  };
}

/** @returns whether the connection was taken over */
async function serveOne(
  message: http.IncomingMessage,
  answer: http.ServerResponse,
  raw: RawSocket | undefined,
  handling: Handling,
  secure: boolean,
): Promise<boolean> {
  const gone = new AbortController();
  const { promise: completed, resolve, reject } = Promise.withResolvers<void>();
  completed.catch(() => {});
  answer.once("finish", resolve);
  answer.once("close", () => {
    if (answer.writableFinished) return;
    reject(new errors.Http("connection closed before message completed"));
    gone.abort();
  });
  let taken = false;
  const takeOver = () => {
    if (raw === undefined) {
      throw new errors.Http("Cannot take a connection from HTTP: the request asked for no upgrade");
    }
    taken = true;
    answer.detachSocket(raw.socket);
    resolve();
    return rawBytes(raw);
  };
  try {
    const request = requestOf(message, gone.signal, secure);
    const response = await answerOf(handling, request, { completed, takeOver });
    if (!taken) await send(answer, response, message.method === "HEAD");
  } catch {
    // The caller has gone, or what it asked for has no address.
    if (answer.headersSent || answer.destroyed) message.socket.destroy();
    else answer.writeHead(400, { connection: "close" }).end();
  }
  return taken;
}

async function answerOf(handling: Handling, request: Request, info: RequestInfo) {
  try {
    return await handling.answer(request, info);
  } catch (error) {
    return await handling.failed(error);
  }
}

function requestOf(message: http.IncomingMessage, signal: AbortSignal, secure: boolean): Request {
  const { method = "GET", rawHeaders, url = "/" } = message;
  const headers = new Headers();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    headers.append(rawHeaders[at] ?? "", rawHeaders[at + 1] ?? "");
  }
  const base = `${secure ? "https" : "http"}://${message.headers.host ?? "localhost"}`;
  const address = new URL(url.startsWith("/") ? `${base}${url}` : url === "*" ? base : url);
  const body = method === "GET" || method === "HEAD" ? null : bodyOf(message);
  // A Request refuses some methods, which the agent answers itself.
  const known = UNKNOWN_METHODS.includes(method) ? "POST" : method;
  const bodied = body === null ? {} : { body, duplex: "half" };
  const request = new Request(address, { method: known, headers, signal, ...bodied });
  if (known !== method) Object.defineProperty(request, "method", { value: method });
  return request;
}

/** The body of a request: nothing is read before it is asked for. */
function bodyOf(message: http.IncomingMessage): ReadableStream<Uint8Array> | null {
  const { "content-length": length, "transfer-encoding": coding } = message.headers;
  if (coding === undefined && (length === undefined || Number(length) === 0)) return null;
  let dropped = false;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      message.pause();
      message.on("data", (piece: Uint8Array) => {
        if (dropped) return;
        controller.enqueue(new Uint8Array(piece));
        message.pause();
      });
      message.once("end", () => dropped || controller.close());
      const broken = () => {
        if (!message.readableEnded) controller.error(new errors.Http("error reading a body"));
      };
      message.once("error", broken).once("close", broken);
    },
    pull: () => void message.resume(),
    // The rest of a refused body is dropped as it comes.
    cancel() {
      dropped = true;
      message.resume();
    },
  }, { highWaterMark: 0 });
}

async function send(answer: http.ServerResponse, response: Response, headOnly: boolean) {
  for (const [name, value] of response.headers) answer.appendHeader(name, value);
  const whole = wholeBodies.get(response);
  if (whole !== undefined && !response.bodyUsed) {
    const bytes = typeof whole === "string" ? Buffer.from(whole) : whole;
    if (!answer.hasHeader("content-length")) answer.setHeader("content-length", bytes.length);
    answer.writeHead(response.status);
    return await ended(answer, headOnly ? undefined : bytes);
  }
  const { body, status } = response;
  const empty = body === null && !headOnly && status >= 200 && status !== 204 && status !== 304;
  if (empty && !answer.hasHeader("content-length")) answer.setHeader("content-length", 0);
  answer.writeHead(status);
  if (headOnly) await body?.cancel();
  if (headOnly || body === null) return await ended(answer);
  answer.flushHeaders();
  for await (const piece of body) {
    if (answer.destroyed) throw new errors.Http("the caller has gone");
    if (!answer.write(piece)) await drained(answer);
  }
  await ended(answer);
}

/** Resolves when the connection has taken all of it, or is closed. */
function ended(answer: http.ServerResponse, bytes?: Uint8Array): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  answer.once("close", resolve).end(bytes, resolve);
  return promise;
}

function drained(answer: http.ServerResponse): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  answer.once("drain", resolve).once("close", resolve);
  return promise;
}

/** The bytes of a connection behind the head of a request. */
function rawBytes({ socket, head }: RawSocket): RawBytes {
  if (head.length > 0) socket.unshift(head);
  const connection = new Conn(socket);
  return {
    read: (buffer) => connection.read(buffer),
    async write(bytes) {
      await connection.write(bytes);
    },
    close: () => connection[Symbol.dispose](),
  };
}

type Handler = (
  request: Request,
  info: { readonly completed: Promise<void>; readonly remoteAddr: Deno.Addr },
) => Response | Promise<Response>;

/** What Deno.serve() takes, as far as the simulated host uses it. */
interface ServeOptions extends Pick<ListenPlace, "hostname" | "port" | "path"> {
  /** Ends the server and its connections at once. */
  readonly signal?: AbortSignal;
  readonly onListen?: (address: Deno.Addr) => void;
  readonly onError?: (error: unknown) => Response | Promise<Response>;
  readonly handler?: Handler;
}

/** Deno.serve() on a port of this host or a unix socket, without TLS. */
export function serve(options: ServeOptions, handler: Handler | undefined = options.handler) {
  const listener = new Listener(options);
  const open = new Set<ServedConnection>();
  const failed = options.onError ?? (() => new KnownResponse("", { status: 500 }));
  const accepting = (async () => {
    for await (const connection of listener) {
      const answer = (request: Request, { completed }: RequestInfo) =>
        handler?.(request, { completed, remoteAddr: connection.remoteAddr }) ??
          new KnownResponse("", { status: 404 });
      const served = serveConnection(connection, { answer, failed });
      open.add(served);
      served.finished.then(() => open.delete(served));
    }
    await Promise.all([...open].map(({ finished }) => finished));
  })();
  options.signal?.addEventListener("abort", () => {
    listener[Symbol.dispose]();
    for (const served of open) served.cut();
  }, { once: true });
  options.onListen?.(listener.addr);
  return {
    addr: listener.addr,
    finished: accepting,
    async shutdown() {
      listener[Symbol.dispose]();
      await Promise.all([...open].map((served) => served.shutdown())).catch(denoError);
    },
  };
}
