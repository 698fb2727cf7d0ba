// One accepted connection, spoken HTTP on by the runtime. Deno.serve accepts connections itself and has
// no time limit for any of them; its own node:http stands on the function that is used here, which
// takes one connection at a time, speaks HTTP/1.1 and HTTP/2 on it with the same code and at the same
// speed, and can cut it. That function is not part of Deno's public interface, so everything that is
// known of it stands in this file. Where it does not do, relayed_connection.ts serves instead.

import { AgentError } from "../domain/error.ts";

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
  handler: ConnectionHandling["answer"],
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
    const served = serve(connection, signal, answer, failed, () => {});
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
