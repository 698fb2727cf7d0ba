// Deno's connections and listeners on Node's sockets.

import { Buffer } from "node:buffer";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import process from "node:process";
import { uncurried } from "../../src/wall/language.ts";
import { asDeno, called, denoError, errorOfNumber, errors } from "./errors.ts";

/** Between two looks whether a listener has descriptors for connections, milliseconds. */
const LOOK_MS = 10_000;
/** Connections that wait where the caller does not say how many may. */
const BACKLOG = 511;
/** Bytes that a stream of a connection reads at once. */
const PIECE_BYTES = 64 * 1024;
/** How IPv4 is written where a socket takes both. */
const MAPPED = /^::ffff:/;

// Captured: a guest takes the names of the platform away from itself, and a task that gets hold of an object
// of the guest's realm could replace methods of bytes.
const { Uint8Array: Bytes } = globalThis;
const typed = Object.getPrototypeOf(Bytes.prototype);
const lengthOf = uncurried<(bytes: Uint8Array) => number>(
  Object.getOwnPropertyDescriptor(typed, "length")?.get,
);
const copy = uncurried<(to: Uint8Array, from: Uint8Array) => void>(typed.set);
/** Each byte as a character: Node sends text without asking an array of bytes for anything. */
const latin1Of = uncurried<(bytes: Uint8Array, from: number, to: number) => string>(
  Reflect.get(Buffer.prototype, "latin1Slice"),
);

/** One end of a connection, or where one listens. */
function endOf(path: string | undefined, hostname = "", port = 0): Deno.Addr {
  if (path !== undefined) return { transport: "unix", path };
  return { transport: "tcp", hostname: hostname.replace(MAPPED, ""), port };
}

function closedError(): Error {
  return new errors.BadResource("Bad resource ID");
}

/**
 * What Node reads into by itself, one piece at a time. Its streams ask each piece of bytes for its length, by a
 * getter that a task could have replaced; a guest reads what the agent sends it here.
 */
class Arrivals {
  readonly #memory = new ArrayBuffer(PIECE_BYTES);
  #from = 0;
  #end = 0;
  wake = () => {};

  /** For Node, which stops reading for as long as a piece waits to be taken. */
  readonly onread = {
    buffer: new Bytes(this.#memory),
    callback: (count: number): boolean => {
      this.#from = 0;
      this.#end = count;
      this.wake();
      return false;
    },
  };

  /** @returns bytes taken */
  take(buffer: Uint8Array): number {
    const room = lengthOf(buffer);
    const waiting = this.#end - this.#from;
    const count = room < waiting ? room : waiting;
    copy(buffer, new Bytes(this.#memory, this.#from, count));
    this.#from += count;
    return count;
  }
}

/** A connection: Deno.Conn, TcpConn, UnixConn and TlsConn in one. */
export class Conn {
  readonly localAddr: Deno.Addr;
  readonly remoteAddr: Deno.Addr;
  /** The socket of Node, for what takes the connection over. */
  readonly socket: net.Socket;
  #error: unknown;
  #ended = false;
  #closed = false;
  /** Wakes a pending read. */
  #wake = () => {};
  #listens = false;
  readonly #arrivals: Arrivals | undefined;

  /** @param arrivals what Node reads into, where it was asked for that when the socket was made */
  constructor(socket: net.Socket, path?: string, arrivals?: Arrivals) {
    this.socket = socket;
    this.#arrivals = arrivals;
    this.localAddr = endOf(path, socket.localAddress, socket.localPort);
    this.remoteAddr = endOf(path, socket.remoteAddress, socket.remotePort);
    socket.on("error", (error) => {
      this.#error ??= denoError(error);
      this.#wake();
    });
  }

  /** Only when the caller reads: what takes the socket over has listeners of its own. */
  #listen(): void {
    if (this.#listens) return;
    this.#listens = true;
    const wake = () => this.#wake();
    const end = () => {
      this.#ended = true;
      wake();
    };
    if (this.#arrivals === undefined) this.socket.on("readable", wake);
    else this.#arrivals.wake = wake;
    this.socket.on("end", end).on("close", end);
  }

  async read(buffer: Uint8Array): Promise<number | null> {
    this.#listen();
    for (;;) {
      if (this.#closed) throw closedError();
      const count = this.#take(buffer);
      if (count > 0) return count;
      if (this.#error !== undefined) throw this.#error;
      if (this.#ended || this.socket.readableEnded) return null;
      await new Promise<void>((resolve) => void (this.#wake = resolve));
    }
  }

  /** @returns bytes taken of what has arrived; 0 for nothing */
  #take(buffer: Uint8Array): number {
    if (this.#arrivals !== undefined) {
      const count = this.#arrivals.take(buffer);
      if (count === 0) this.socket.resume();
      return count;
    }
    const piece: Uint8Array | null = this.socket.read();
    if (piece === null) return 0;
    const count = Math.min(piece.length, buffer.length);
    buffer.set(piece.subarray(0, count));
    if (count < piece.length) this.socket.unshift(piece.subarray(count));
    return count;
  }

  async write(bytes: Uint8Array): Promise<number> {
    if (this.#closed) throw closedError();
    const length = lengthOf(bytes);
    // A copy: the caller may use its buffer again before Node has sent it.
    const text = latin1Of(bytes, 0, length);
    await called<void>((done) => void this.socket.write(text, "latin1", (error) => done(error)));
    return length;
  }

  closeWrite(): Promise<void> {
    if (this.#closed) return Promise.reject(closedError());
    return new Promise((resolve) => {
      this.socket.once("close", () => resolve());
      this.socket.end(() => resolve());
    });
  }

  close(): void {
    if (this.#closed) throw closedError();
    this.#closed = true;
    this.socket.destroySoon();
    this.#wake();
  }

  [Symbol.dispose](): void {
    if (!this.#closed) this.close();
  }

  setNoDelay(on = true): void {
    this.socket.setNoDelay(on);
  }

  get readable(): ReadableStream<Uint8Array<ArrayBuffer>> {
    return new ReadableStream({
      type: "bytes",
      pull: async (controller) => {
        const buffer = new Uint8Array(PIECE_BYTES);
        const count = await this.read(buffer);
        if (count !== null) return controller.enqueue(buffer.subarray(0, count));
        controller.close();
        controller.byobRequest?.respond(0);
      },
    });
  }

  get writable(): WritableStream<Uint8Array<ArrayBufferLike>> {
    return new WritableStream({
      write: async (bytes) => void await this.write(bytes),
      close: () => this[Symbol.dispose](),
    });
  }
}

/** What Deno.listen() takes, as far as the agent uses it. */
export interface ListenPlace {
  readonly transport?: "tcp" | "unix";
  readonly hostname?: string;
  readonly port?: number;
  readonly path?: string;
  readonly tcpBacklog?: number;
}

/** Binds at once, as Deno does, and answers a number when the system refuses; listen() says why in a later turn. */
type CreateHandle = (address: string, port: number, family: number) => net.Server | number;

/** Deno.Listener, TcpListener, UnixListener and TlsListener in one. */
export class Listener {
  readonly addr: Deno.Addr;
  readonly #server: net.Server;
  readonly #arrived: Conn[] = [];
  readonly #waiting: PromiseWithResolvers<Conn>[] = [];
  readonly #looks: ReturnType<typeof setInterval>;
  #failure: unknown;
  #closed = false;

  /** @param secured puts TLS on an accepted socket */
  constructor(place: ListenPlace, secured = (socket: net.Socket): net.Socket => socket) {
    this.#server = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      this.#arrive(new Conn(secured(socket), place.path));
      this.#look();
    });
    this.addr = bind(this.#server, place);
    this.#looks = setInterval(() => this.#look(), LOOK_MS).unref();
  }

  /** Without descriptors Node drops connections and says nothing: the caller learns it when there are none left. */
  #look(): void {
    this.#failure = undefined;
    try {
      fs.closeSync(fs.openSync("/dev/null", "r"));
    } catch (error) {
      const waiting = this.#waiting.shift();
      if (waiting === undefined) this.#failure = error;
      else waiting.reject(denoError(error));
    }
  }

  #arrive(connection: Conn): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#arrived.push(connection);
    else waiting.resolve(connection);
  }

  accept(): Promise<Conn> {
    const connection = this.#arrived.shift();
    if (connection !== undefined) return Promise.resolve(connection);
    if (this.#closed) return Promise.reject(closedError());
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) return Promise.reject(denoError(failure));
    const waiting = Promise.withResolvers<Conn>();
    this.#waiting.push(waiting);
    return waiting.promise;
  }

  close(): void {
    if (this.#closed) throw closedError();
    this.#closed = true;
    clearInterval(this.#looks);
    this.#server.close();
    for (const { reject } of this.#waiting.splice(0)) reject(closedError());
    for (const connection of this.#arrived.splice(0)) connection.close();
  }

  [Symbol.dispose](): void {
    if (!this.#closed) this.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Conn> {
    try {
      for (;;) yield await this.accept();
    } catch (error) {
      if (!(error instanceof errors.BadResource)) throw error;
    }
  }
}

/** @throws Deno's errors of an address that cannot be used */
function bind(
  server: net.Server,
  { path, hostname = "0.0.0.0", port = 0, tcpBacklog = BACKLOG }: ListenPlace,
): Deno.Addr {
  const address = hostname === "localhost" ? "127.0.0.1" : hostname;
  const create: CreateHandle = Reflect.get(net, "_createServerHandle");
  const handle = path === undefined
    ? create(address, port, net.isIP(address))
    : create(path, -1, -1);
  if (typeof handle === "number") throw errorOfNumber(handle);
  server.on("error", () => {});
  server.listen(handle, tcpBacklog);
  // What is refused now is an address in use: the system says that only here.
  if (!server.listening) throw errorOfNumber(-os.constants.errno.EADDRINUSE);
  const bound = server.address();
  if (bound === null || typeof bound === "string") return endOf(path);
  return endOf(path, bound.address, bound.port);
}

/** Deno.listen(). */
export function listen(place: ListenPlace): Listener {
  return new Listener(place);
}

/** Deno.listenTls(): the handshake begins when a connection is accepted. */
export function listenTls(
  { cert, key, ...place }: ListenPlace & Deno.TlsCertifiedKeyPem,
): Listener {
  const tls = process.getBuiltinModule("node:tls");
  const secureContext = asDeno(() => tls.createSecureContext({ cert, key }));
  return new Listener(
    place,
    (socket) =>
      new tls.TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: ["http/1.1"] }),
  );
}

/** Deno.connect(). */
export function connect(
  { path, hostname = "127.0.0.1", port = 0, signal }: ListenPlace & { signal?: AbortSignal },
): Promise<Conn> {
  return new Promise((resolve, reject) => {
    const arrivals = new Arrivals();
    const place = path === undefined ? { host: hostname, port, noDelay: true } : { path };
    const socket = net.connect({ ...place, allowHalfOpen: true, onread: arrivals.onread });
    const aborted = () => {
      socket.destroy();
      reject(signal?.reason);
    };
    const failed = (error: unknown) => {
      signal?.removeEventListener("abort", aborted);
      reject(denoError(error));
    };
    signal?.addEventListener("abort", aborted, { once: true });
    socket.once("error", failed).once("connect", () => {
      signal?.removeEventListener("abort", aborted);
      socket.off("error", failed);
      resolve(new Conn(socket, path, arrivals));
    });
  });
}

/** Deno.connectTls(): resolves when the certificate was verified. */
export function connectTls(
  { hostname = "127.0.0.1", port, caCerts = [] }: Deno.ConnectTlsOptions,
): Promise<Conn> {
  const tls = process.getBuiltinModule("node:tls");
  return new Promise((resolve, reject) => {
    const socket = tls.connect({
      host: hostname,
      port,
      ...(net.isIP(hostname) === 0 ? { servername: hostname } : {}),
      ca: [...tls.rootCertificates, ...caCerts],
    });
    const failed = (error: unknown) => reject(denoError(error));
    socket.once("error", failed).once("secureConnect", () => {
      socket.off("error", failed);
      resolve(new Conn(socket, undefined));
    });
  });
}
