// Serves HTTP on one accepted connection by the runtime. Deno.serve accepts connections itself and has no
// time limit for them. The function that its node:http uses takes one connection at a time, speaks HTTP/1.1
// and HTTP/2 with the same code at the same speed, and can cut it. It is not part of Deno's public interface,
// so all knowledge of it is in this file. Where it is missing, watched_listener.ts relays to Deno.serve.

import { AgentError } from "../../domain/error.ts";
import { nodeRuntime } from "../../runtime/node.ts";
import { within } from "../../runtime/wait.ts";

/**
 * The runtimes that serve single connections. Deno 2.7 and later close a WebSocket as soon as its connection
 * is done, and consoles are WebSockets.
 */
const KEEPS_WEBSOCKETS = /^2\.6\./;

/** Whether the runtime can serve single connections, WebSockets included. */
export function servesConnections(version: string = Deno.version.deno): boolean {
  return nodeRuntime() !== undefined || KEEPS_WEBSOCKETS.test(version);
}

/** What the runtime knows of one request. */
export interface RequestInfo {
  /** Settles when the answer was handed to the runtime, with its last part. */
  readonly completed: Promise<void>;
  /**
   * Takes the connection over from HTTP before this request is answered; no answer is sent.
   * @throws {AgentError} `internal` where that is impossible
   */
  readonly takeOver: () => RawBytes;
}

/** A connection that was taken over from HTTP. */
export interface RawBytes {
  /** Reads more; null at the end. @throws when it broke or was closed */
  read(buffer: Uint8Array): Promise<number | null>;
  /** Writes all of it; settles when the connection has taken it. @throws when it broke or was closed */
  write(bytes: Uint8Array): Promise<void>;
  /** May be called twice. A pending read fails or ends. */
  close(): void;
}

/** A connection that the runtime serves until one side closes it. */
export interface ServedConnection {
  /** Settles when the connection is closed. */
  readonly finished: Promise<void>;
  /** Accepts no more requests; resolves when the current one was answered. */
  shutdown(): Promise<void>;
  /** Closes the connection at once in any state. */
  cut(): void;
}

/** Whether an answer closes its connection. */
export function isLastAnswer({ headers }: Response): boolean {
  return headers.get("connection") === "close";
}

/** The calls that one connection makes for each of its requests. */
export interface ConnectionHandling {
  answer(request: Request, info: RequestInfo): Response | Promise<Response>;
  /** Answers a request whose answer() threw. */
  failed(error: unknown): Response | Promise<Response>;
  /** Called when the caller has taken more bytes, where the agent relays them. */
  moved(): void;
  /** Called when the connection could not be served; it is closed. */
  notServed(error: unknown): void;
}

/** Serves one connection, and closes it in the end. */
export type ServeConnection = (
  connection: Deno.Conn,
  handling: ConnectionHandling,
) => ServedConnection;

/** The part of an AbortSignal that the runtime needs. */
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
 * Looks up the function that serves one connection.
 * @throws {AgentError} `internal` on a runtime that has none
 */
export function runtimeServe(): ServeConnection {
  const other = nodeRuntime();
  // Adapters are written for this type.
  if (other !== undefined) return other.serveConnection as ServeConnection;
  const inner: unknown = Reflect.get(Deno, Reflect.get(Deno, "internal"));
  const found: unknown = typeof inner === "object" && inner !== null
    ? Reflect.get(inner, "serveHttpOnConnection")
    : undefined;
  if (typeof found !== "function") {
    const message = `Cannot listen: Deno ${Deno.version.deno} cannot serve a single connection, ` +
      "expected Deno 2.6 to 2.9";
    throw new AgentError("internal", message);
  }
  // Its signature in Deno 2.6 to 2.9; tests use it.
  const serve = found as RuntimeServe;
  return (connection, handling) => serveOne(serve, connection, handling);
}

/** Cuts one connection; after its shutdown() this does nothing. */
function openCut(): { readonly signal: CutSignal; readonly cut: () => void } {
  let abort: (() => void) | undefined;
  return {
    // An AbortSignal would throw for an abort just after the connection closed.
    signal: { addEventListener: (_type, listener) => void (abort = listener) },
    cut() {
      try {
        abort?.();
      } catch (error) {
        if (!(error instanceof Deno.errors.BadResource)) throw error;
      }
    },
  };
}

function serveOne(
  serve: RuntimeServe,
  connection: Deno.Conn,
  { answer, failed }: ConnectionHandling,
): ServedConnection {
  const { signal, cut } = openCut();
  // Requests without an answer, and those whose answer was not sent to its end.
  let waiting = 0;
  let unsent = 0;
  let oneSent = () => {};
  const sent = () => {
    unsent -= 1;
    oneSent();
  };
  const handler: Parameters<RuntimeServe>[2] = async (request, { completed }) => {
    waiting += 1;
    unsent += 1;
    // One that failed is answered too.
    completed.then(sent, sent);
    let taken = false;
    const takeOver = () => {
      const raw = takeRaw(request);
      taken = true;
      return raw;
    };
    try {
      const response = await answer(request, { completed, takeOver });
      if (!taken) return response;
    } finally {
      waiting -= 1;
    }
    // The runtime would still send an answer, but no connection is left for it.
    return await new Promise(() => {});
  };
  const served = serve(connection, signal, handler, failed, () => {});
  let over = false;
  const finished = served.finished.catch(() => {}).then(() => {
    over = true;
  });
  return {
    finished: served.finished,
    // When the runtime is asked to end a connection that its caller has just closed, it panics in the task that
    // drives all its operations, none of which ends from then on. A request without an answer keeps it from
    // that; every other connection is cut, once its answers have been sent.
    async shutdown() {
      while (unsent > 0 && waiting === 0 && !over) {
        const next = new Promise<void>((resolve) => void (oneSent = resolve));
        await Promise.race([next, finished]);
        // The last bytes may still be in a buffer of the runtime. Another request may come before they are sent.
        if (unsent === 0 && waiting === 0) await within(FLUSH_MS, finished);
      }
      if (waiting > 0) return await served.shutdown();
      cut();
      await finished;
    },
    cut,
  };
}

/** Milliseconds for the last bytes of an answer that was handed to the runtime. */
const FLUSH_MS = 1_000;

/** The runtime's table of resources. */
interface RuntimeCore {
  resources(): Readonly<Record<string, string>>;
  read(rid: number, buffer: Uint8Array): Promise<number>;
  writeAll(rid: number, bytes: Uint8Array): Promise<void>;
  tryClose(rid: number): void;
}

/** The runtime's name for a connection taken over from HTTP. */
const RAW_RESOURCE = "httpRawUpgradeStream";

/**
 * Takes a connection over from the runtime. Its function expects a listener and fails without one, but only
 * after its work: the connection is then the one new resource of its kind.
 * @throws {AgentError} `internal` on a runtime without that function
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
    const message =
      `Cannot take over a connection from HTTP: Deno ${Deno.version.deno} does not offer that`;
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

/** The runtime's own record of a request. */
function innerRequest(
  request: Request,
): { readonly _wantsUpgrade: (kind: string) => unknown } | undefined {
  const key = Object.getOwnPropertySymbols(request).find(({ description }) =>
    description === "request"
  );
  return key === undefined ? undefined : Reflect.get(request, key);
}
