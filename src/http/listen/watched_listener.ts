// The listener: accepts each connection, serves it on its own, and cuts it when it keeps the agent waiting
// too long, with or without TLS.

import { isLoopback } from "../../domain/ip_address.ts";
import type { Log } from "../../metrics/log.ts";
import type { WatchedConnection, WatchedConnections } from "./connection_watch.ts";
import { closeConnection, type ConnectionRelay, relayConnections } from "./connection_relay.ts";
import {
  type Answering,
  BACKLOG,
  cannotListen,
  keepAccepting,
  type ListenPlace,
  openConnectionLog,
  type OpenListener,
  peerNetwork,
  SWITCHING,
} from "./listener.ts";
import { bindSocket } from "./socket_file.ts";
import { within } from "../../runtime/wait.ts";
import {
  type ConnectionHandling,
  isLastAnswer,
  type RequestInfo,
  runtimeServe,
  type ServeConnection,
  type ServedConnection,
} from "./runtime_connection.ts";
import { servingSecured } from "./secured_connection.ts";
import { AgentError, ERROR_CODES } from "../../domain/error.ts";

/** After this many turns of the event loop without a closed connection, the rest count as open. */
const SETTLED_TURNS = 5;
/** Most turns that a shutdown waits. */
const SETTLING_TURNS_MAX = 100;
/** The answer to a connection beyond the limit. */
const NO_ROOM = new TextEncoder().encode(
  `HTTP/1.1 ${ERROR_CODES.overloaded.status} Service Unavailable\r\nretry-after: 1\r\n` +
    "content-length: 0\r\nconnection: close\r\n\r\n",
);

/** How a listener serves its connections. */
interface ListenerOptions {
  readonly watch: WatchedConnections;
  /** Whether the agent relays the bytes, for a runtime that cannot serve single connections. */
  readonly relayed: boolean;
  readonly log: Log;
}

/** @throws {AgentError} `conflict` when the address is in use */
export async function openWatchedListener(
  place: ListenPlace,
  answering: Answering,
  { watch, relayed, log }: ListenerOptions,
): Promise<OpenListener> {
  const plain = relayed ? serveRelayed : runtimeServe();
  const tls = place.kind === "tcp" ? place.tls : undefined;
  let latest = tls;
  const serving: Serving = tls === undefined
    ? { serve: plain, secure: false }
    : { serve: servingSecured(plain, () => latest ?? tls), secure: true };
  const carrier = openCarrier(answering, serving, watch, log);
  const listener = await listenAt(place);
  const accepting = keepAccepting(listener, carrier.take, log);
  return {
    port: "port" in listener.addr ? listener.addr.port : undefined,
    replaceTls: (identity) => void (latest = identity),
    close: async (graceMs) => {
      await accepting.close();
      await carrier.drain(graceMs);
    },
  };
}

async function listenAt(place: ListenPlace): Promise<Deno.Listener> {
  if (place.kind === "socket") {
    const bind = (path: string) => Deno.listen({ transport: "unix", path });
    return await bindSocket(place.path, place.rights, bind, (listener) => listener.close());
  }
  const { hostname, port } = place;
  try {
    return Deno.listen({ hostname, port, tcpBacklog: BACKLOG });
  } catch (error) {
    throw await cannotListen(place, error);
  }
}

/** What serves the connections of a listener. */
interface Carrier {
  take(connection: Deno.Conn): void;
  /** Resolves when all are closed, or after `graceMs`. */
  drain(graceMs: number): Promise<void>;
}

interface Serving {
  readonly serve: ServeConnection;
  readonly secure: boolean;
}

/** Serves each connection with its caller's address and its listener. */
function openHandling(
  { answer, failed }: Answering,
  secure: boolean,
  log: Log,
): (remote: Deno.Addr, watched: WatchedConnection) => ConnectionHandling {
  const notServed = openConnectionLog(log, "connection not served");
  return (remote, watched) => {
    const answered = (response: Response): Response => {
      if (response.status === SWITCHING) watched.closed();
      watched.answered();
      return response;
    };
    const threw = (error: unknown): never => {
      watched.answered();
      throw error;
    };
    return {
      // Not async: an answer from memory is there at once, and to wait for it was a tenth of a 304.
      answer(request, { completed, takeOver }) {
        watched.requested();
        completed.then(watched.taken, watched.taken);
        try {
          const response = answer(request, { remote, secure, takeOver, moved: watched.streamed });
          return response instanceof Promise ? response.then(answered, threw) : answered(response);
        } catch (error) {
          return threw(error);
        }
      },
      failed,
      moved: watched.moved,
      notServed,
    };
  };
}

function openCarrier(
  answering: Answering,
  { serve, secure }: Serving,
  watch: WatchedConnections,
  log: Log,
): Carrier {
  const open = new Map<ServedConnection, WatchedConnection>();
  const handlingOf = openHandling(answering, secure, log);
  let closing = false;
  const take = (connection: Deno.Conn) => {
    let one: ServedConnection | undefined;
    const watched = closing
      ? undefined
      : watch.open(() => one?.cut(), peerOf(connection.remoteAddr));
    if (watched === undefined) return void turnAway(connection, secure);
    const handling = handlingOf(connection.remoteAddr, watched);
    try {
      one = serve(connection, handling);
    } catch (error) {
      watched.closed();
      closeConnection(connection);
      handling.notServed(error);
      return;
    }
    const served = one;
    open.set(served, watched);
    const ended = () => {
      open.delete(served);
      watched.closed();
    };
    served.finished.then(ended, ended);
  };
  return {
    take,
    async drain(graceMs) {
      closing = true;
      await settled(open);
      const all = [...open].map(([one, watched]) => {
        // One that has never sent a request may never send one.
        if (!watched.isUsed()) one.cut();
        return one.shutdown();
      });
      await within(graceMs, Promise.allSettled(all));
      for (const one of open.keys()) one.cut();
    },
  };
}

/**
 * Waits for connections that their callers have closed. The runtime handles about a hundred per turn, and
 * asking one to end before its turn blocks the whole thread forever.
 */
async function settled(open: ReadonlyMap<ServedConnection, unknown>): Promise<void> {
  let left = SETTLED_TURNS;
  let size = open.size;
  for (let turns = 0; turns < SETTLING_TURNS_MAX && left > 0; turns++) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    left = open.size === size ? left - 1 : SETTLED_TURNS;
    size = open.size;
  }
}

/** The remote peer for the limits; undefined for this host. */
function peerOf(remote: Deno.Addr): string | undefined {
  if (!("hostname" in remote) || isLoopback(remote.hostname)) return undefined;
  return peerNetwork(remote.hostname);
}

/** Answers that there are too many connections, except under TLS, and closes this one. */
async function turnAway(connection: Deno.Conn, secure: boolean): Promise<void> {
  try {
    if (!secure) await connection.write(NO_ROOM);
  } catch {
    // The caller has closed it.
  } finally {
    connection.close();
  }
}

/**
 * Serves one accepted connection by its own Deno.serve, for runtimes that cannot serve single
 * connections. The server listens on a unix socket in a private folder; both are removed as soon as
 * the agent has connected, so no other program gets there. The agent relays the bytes, and can
 * therefore close the caller's connection, which Deno.serve would keep for as long as the caller
 * likes. request.url has the scheme `http+unix:`, and the Host of the request.
 */
function serveRelayed(
  connection: Deno.Conn,
  handling: ConnectionHandling,
): ServedConnection {
  let server: Deno.HttpServer | undefined;
  let relay: ConnectionRelay | undefined;
  const cut = () => {
    relay?.cut();
    closeConnection(connection);
  };
  const run = async () => {
    try {
      const takeOver = () => {
        if (relay !== undefined) return relay.takeOver();
        throw new AgentError("internal", "Cannot take over a connection: no relay is open");
      };
      const opened = await openServer(handling, takeOver, cut);
      server = opened.server;
      relay = relayConnections(connection, opened.connection, handling.moved);
    } catch (error) {
      handling.notServed(error);
      cut();
      return;
    }
    await relay.finished;
    // Requests in progress have no caller any more.
    server.shutdown().catch(() => {});
  };
  const finished = run();
  return {
    finished,
    async shutdown() {
      if (server === undefined || relay === undefined) return cut();
      await server.shutdown();
      await relay.delivered;
    },
    cut,
  };
}

/**
 * A server for exactly one connection.
 * @param lost called when the server could not accept it, for example without descriptors
 */
async function openServer(
  { answer, failed }: ConnectionHandling,
  takeOver: RequestInfo["takeOver"],
  lost: () => void,
): Promise<{ readonly server: Deno.HttpServer; readonly connection: Deno.Conn }> {
  const folder = Deno.makeTempDirSync({ prefix: "zw" });
  try {
    const path = `${folder}/s`;
    const server = Deno.serve(
      { path, onListen: () => {}, onError: failed },
      async (request, { completed }) => {
        const response = await answer(request, { completed, takeOver });
        // Deno 2.9 sends this header and keeps the connection.
        if (isLastAnswer(response)) server.shutdown().catch(() => {});
        return response;
      },
    );
    // At once: an unhandled rejection would end the agent.
    server.finished.catch(lost);
    try {
      return { server, connection: await Deno.connect({ transport: "unix", path }) };
    } catch (error) {
      server.shutdown().catch(() => {});
      throw error;
    }
  } finally {
    removeBoth(`${folder}/s`, folder);
  }
}

/** One by one: removing a folder recursively needs a file descriptor, and there may be none. */
function removeBoth(socket: string, folder: string): void {
  try {
    Deno.removeSync(socket);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  } finally {
    Deno.removeSync(folder);
  }
}
