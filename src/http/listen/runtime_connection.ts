// One accepted connection, spoken HTTP on by the runtime. Deno.serve accepts connections itself and has
// no time limit for any of them; its own node:http stands on the function that is used here, which
// takes one connection at a time, speaks HTTP/1.1 and HTTP/2 on it with the same code and at the same
// speed, and can cut it. That function is not part of Deno's public interface, so everything that is
// known of it stands in this file. Where it does not do, relayed_connection.ts serves instead.

import { AgentError } from "../../domain/error.ts";

/**
 * The runtimes by which connections are served one at a time. Deno 2.7 and later close a WebSocket as
 * soon as the connection that it was made on is done, and the consoles of machines are WebSockets.
 */
const KEEPS_WEBSOCKETS = /^2\.6\./;

/** Whether the runtime can serve connections one at a time, WebSockets included. */
export function servesConnections(version: string = Deno.version.deno): boolean {
  return KEEPS_WEBSOCKETS.test(version);
}

/** What the runtime tells of one request. */
export interface RequestInfo {
  /** Settles when the answer was handed over: at once when it is whole, else with its last part. */
  readonly completed: Promise<void>;
  /**
   * Takes the connection from HTTP, before this request is answered: what the answer would be is not
   * sent any more.
   * @throws {AgentError} `internal` where that cannot be done
   */
  readonly takeOver: () => RawBytes;
}

/** A connection that carries no HTTP any more. */
export interface RawBytes {
  /** Reads on; null at the end. @throws when it broke or was closed */
  read(buffer: Uint8Array): Promise<number | null>;
  /** Writes all of it; ends when the connection has taken it. @throws when it broke or was closed */
  write(bytes: Uint8Array): Promise<void>;
  /** May be called twice; a read that is under way fails or ends. */
  close(): void;
}

/** One connection that is served. */
export interface ServedConnection {
  /** Settles when the connection is closed. */
  readonly finished: Promise<void>;
  /** Takes no more requests; resolves when the one under way was answered. */
  shutdown(): Promise<void>;
  /** Closes the connection at once, whatever state it is in. */
  cut(): void;
}

/** Whether an answer is to be the last one of its connection. */
export function isLastAnswer({ headers }: Response): boolean {
  return headers.get("connection") === "close";
}

/** What one connection is served by. */
export interface ConnectionHandling {
  /** Answers one request. */
  answer(request: Request, info: RequestInfo): Response | Promise<Response>;
  /** Answers a request that answer() has thrown for. */
  failed(error: unknown): Response | Promise<Response>;
  /** The caller has taken more of what it is sent; told where the agent itself carries the bytes. */
  moved(): void;
  /** The connection could not be served at all, and is closed. */
  notServed(error: unknown): void;
}

/** Serves connections, one at a time. Whatever happens, the connection is closed in the end. */
export type ServeConnection = (
  connection: Deno.Conn,
  handling: ConnectionHandling,
) => ServedConnection;

/** What the runtime wants of a signal: that it can be told of the abort. */
interface CutSignal {
  addEventListener(type: "abort", listener: () => void): void;
}

type RuntimeServe = (
  connection: Deno.Conn,
  signal: CutSignal,
  handler: (request: Request, info: Pick<RequestInfo, "completed">) => Promise<Response>,
  onError: ConnectionHandling["failed"],
  onListen: () => void,
) => Omit<ServedConnection, "cut">;

/**
 * Finds the function that serves one connection.
 * @throws {AgentError} `internal` on a runtime that has none
 */
export function runtimeServe(): ServeConnection {
  const inner: unknown = Reflect.get(Deno, Reflect.get(Deno, "internal"));
  const found: unknown = typeof inner === "object" && inner !== null
    ? Reflect.get(inner, "serveHttpOnConnection")
    : undefined;
  if (typeof found !== "function") {
    const message = `Cannot listen: Deno ${Deno.version.deno} has no way to serve one connection`;
    throw new AgentError("internal", message);
  }
  // The shape that Deno 2.6 to 2.9 give it; tests serve connections by it.
  const serve = found as RuntimeServe;
  return (connection, { answer, failed }) => {
    let abort: (() => void) | undefined;
    // An AbortSignal would make a defect of an abort that comes when the connection has just closed.
    const signal: CutSignal = { addEventListener: (_type, listener) => void (abort = listener) };
    const handler: Parameters<RuntimeServe>[2] = async (request, { completed }) => {
      let taken = false;
      const takeOver = () => {
        const raw = takeRaw(request);
        taken = true;
        return raw;
      };
      const response = await answer(request, { completed, takeOver });
      // The runtime would still want to send an answer, and there is nothing left to send it on.
      return taken ? await new Promise(() => {}) : response;
    };
    const served = serve(connection, signal, handler, failed, () => {});
    return {
      finished: served.finished,
      shutdown: () => served.shutdown(),
      // Void once shutdown() was called.
      cut() {
        try {
          abort?.();
        } catch (error) {
          if (!(error instanceof Deno.errors.BadResource)) throw error;
        }
      },
    };
  };
}

/** What the runtime knows of its resources, and does with them. */
interface RuntimeCore {
  resources(): Readonly<Record<string, string>>;
  read(rid: number, buffer: Uint8Array): Promise<number>;
  writeAll(rid: number, bytes: Uint8Array): Promise<void>;
  tryClose(rid: number): void;
}

/** What the runtime calls a connection that it has taken from HTTP. */
const RAW_RESOURCE = "httpRawUpgradeStream";

/**
 * Takes a connection from a runtime that serves it by itself. It has a way to do so, which wants a
 * listener and fails without one, but only once all is done: the connection is there, and is the one of
 * its kind that was not there before.
 * @throws {AgentError} `internal` on a runtime that has no such way
 */
function takeRaw(request: Request): RawBytes {
  const core = Reflect.get(Reflect.get(Deno, Reflect.get(Deno, "internal")), "core") as RuntimeCore;
  const before = rawResources(core);
  let failure: unknown;
  try {
    innerRequest(request)?._wantsUpgrade("upgradeHttpRaw");
  } catch (error) {
    failure = error;
  }
  const [rid, ...others] = rawResources(core).filter((found) => !before.includes(found));
  if (rid === undefined || others.length > 0) {
    const message = `Cannot take a connection from HTTP on Deno ${Deno.version.deno}`;
    throw new AgentError("internal", message, { cause: failure });
  }
  return {
    async read(buffer) {
      const count = await core.read(rid, buffer);
      return count === 0 ? null : count;
    },
    write: (bytes) => core.writeAll(rid, bytes),
    close: () => core.tryClose(rid),
  };
}

function rawResources(core: RuntimeCore): number[] {
  return Object.entries(core.resources()).filter(([, name]) => name === RAW_RESOURCE)
    .map(([rid]) => Number(rid));
}

/** What the runtime itself has of a request. */
function innerRequest(
  request: Request,
): { readonly _wantsUpgrade: (kind: string) => unknown } | undefined {
  const key = Object.getOwnPropertySymbols(request).find(({ description }) =>
    description === "request"
  );
  return key === undefined ? undefined : Reflect.get(request, key);
}
