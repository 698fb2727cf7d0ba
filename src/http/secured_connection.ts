// One accepted connection, spoken TLS on by the runtime. A connection of TLS whose handshake is not
// finished cannot be closed: Deno goes on with the handshake until the caller closes, whatever it is
// told. So the agent keeps the caller's connection for itself and carries its bytes to a second one,
// within this process, on which the runtime shakes hands; closing both ends any handshake.
//
// The second connection goes over loopback, the only way to a listener of TLS. That listener is there
// for the one connection, at a port that the system chooses, and is closed a few hundred microseconds
// later. Whoever else gets in meanwhile is closed before a byte was read.

import { isCallerGone } from "./accept_loop.ts";
import { closeConnection, type ConnectionRelay, relayConnections } from "./connection_relay.ts";
import type { ServeConnection, ServedConnection } from "./runtime_connection.ts";
import type { TlsIdentity } from "./tls.ts";

const LOOPBACK = "127.0.0.1";
/** Connections that may wait there: ours, and few of others who tried every port. */
const BACKLOG = 8;

/** @param identity what a connection that comes now is shown */
export function servingSecured(
  serve: ServeConnection,
  identity: () => TlsIdentity,
): ServeConnection {
  return (connection, handling) => {
    let relay: ConnectionRelay | undefined;
    let served: ServedConnection | undefined;
    const cut = () => {
      relay?.cut();
      closeConnection(connection);
      served?.cut();
    };
    const run = async () => {
      try {
        const { outer, inner } = await openPair(identity());
        relay = relayConnections(connection, outer, handling.moved);
        served = serve(inner, { ...handling, moved: () => {} });
      } catch (error) {
        handling.notServed(error);
        cut();
        return;
      }
      // It rejects when a handshake fails or a caller hangs up; the relay tells the end of both.
      served.finished.catch(() => {});
      await relay.finished;
      await served.finished.catch(() => {});
    };
    const finished = run();
    return {
      finished,
      async shutdown() {
        if (served === undefined || relay === undefined) return cut();
        await served.shutdown();
        await relay.delivered;
      },
      cut,
    };
  };
}

/** Two ends of one connection; TLS is spoken on the inner one. */
async function openPair(
  identity: TlsIdentity,
): Promise<{ readonly outer: Deno.TcpConn; readonly inner: Deno.TlsConn }> {
  const at = { hostname: LOOPBACK, port: 0, tcpBacklog: BACKLOG };
  const listener = Deno.listenTls({ ...at, ...identity });
  let outer: Deno.TcpConn | undefined;
  try {
    outer = await Deno.connect({ hostname: LOOPBACK, port: portOf(listener.addr) });
    const own = portOf(outer.localAddr);
    // Ours is among those that wait: connecting has succeeded.
    for (;;) {
      const inner = await acceptNext(listener);
      if (inner === undefined) continue;
      if (portOf(inner.remoteAddr) === own) return { outer, inner };
      inner.close();
    }
  } catch (error) {
    if (outer !== undefined) closeConnection(outer);
    throw error;
  } finally {
    listener.close();
  }
}

/** The next connection that waits; undefined when it was reset before it was taken. */
async function acceptNext(listener: Deno.TlsListener): Promise<Deno.TlsConn | undefined> {
  try {
    return await listener.accept();
  } catch (error) {
    if (isCallerGone(error)) return undefined;
    throw error;
  }
}

function portOf(address: Deno.Addr): number {
  return "port" in address ? address.port : 0;
}
