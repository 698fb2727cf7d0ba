// The door whose connections are watched: each is accepted here, served by itself, and cut when it
// keeps the agent waiting for too long.

import type { Log } from "../log.ts";
import { keepAccepting } from "./accept_loop.ts";
import type { ConnectionWatch, WatchedConnection } from "./connection_watch.ts";
import { type Answering, BACKLOG, cannotListen, type Door, type Place, within } from "./door.ts";
import { type RequestInfo, runtimeServe, type ServedConnection } from "./runtime_connection.ts";
import { bindSocket } from "./unix_socket.ts";

const SWITCHING = 101;
/** What a connection is told that there is no room for. */
const NO_ROOM = new TextEncoder().encode(
  "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n" +
    "connection: close\r\n\r\n",
);

/** Opens it. @throws {AgentError} `conflict` when the place is taken */
export async function openWatchedDoor(
  place: Place,
  answering: Answering,
  watch: ConnectionWatch,
  log: Log,
): Promise<Door> {
  const carrier = openCarrier(answering, watch, log);
  const first = await listenAt(place);
  const port = "port" in first.addr ? first.addr.port : undefined;
  const accepting = keepAccepting(first, carrier.take, log);
  return {
    port,
    async replaceTls(tls) {
      if (place.kind !== "tcp") return;
      await accepting.replace(() => listenAt({ ...place, port: port ?? 0, tls }));
    },
    async close(graceMs) {
      await accepting.close();
      await carrier.drain(graceMs);
    },
  };
}

async function listenAt(place: Place): Promise<Deno.Listener> {
  if (place.kind === "socket") {
    const bind = (path: string) => Deno.listen({ transport: "unix", path });
    return await bindSocket(place.path, place.rights, bind, (listener) => listener.close());
  }
  const { hostname, port, tls } = place;
  const at = { hostname, port, tcpBacklog: BACKLOG };
  try {
    return tls === undefined ? Deno.listen(at) : Deno.listenTls({ ...at, ...tls });
  } catch (error) {
    throw cannotListen(place, error);
  }
}

/** What carries connections to the application. */
interface Carrier {
  take(connection: Deno.Conn): void;
  /** Resolves when all are closed, or after so many milliseconds. */
  drain(graceMs: number): Promise<void>;
}

function openCarrier({ answer, failed }: Answering, watch: ConnectionWatch, log: Log): Carrier {
  const serve = runtimeServe();
  const open = new Map<ServedConnection, WatchedConnection>();
  let closing = false;
  const take = (connection: Deno.Conn) => {
    const remote = connection.remoteAddr;
    let one: ServedConnection | undefined;
    const watched = closing ? undefined : watch.open(() => one?.cut());
    if (watched === undefined) return void turnAway(connection);
    const handler = async (request: Request, { completed }: RequestInfo) => {
      watched.requested();
      completed.then(watched.taken, watched.taken);
      try {
        const response = await answer(request, remote);
        if (response.status === SWITCHING) watched.closed();
        return response;
      } finally {
        watched.answered();
      }
    };
    try {
      one = serve(connection, handler, failed);
    } catch (error) {
      watched.closed();
      log.error("connection not served", { error });
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
      const all = [...open].map(([one, watched]) => {
        // One that has never asked anything may never do so.
        if (!watched.used) one.cut();
        return one.shutdown();
      });
      await within(graceMs, Promise.allSettled(all));
    },
  };
}

/** Tells a connection that there is no room, as far as it listens, and closes it. */
async function turnAway(connection: Deno.Conn): Promise<void> {
  try {
    await connection.write(NO_ROOM);
  } catch {
    // It is gone, or speaks TLS and has not shaken hands.
  } finally {
    connection.close();
  }
}
