// One accepted connection, spoken TLS on by the runtime. A connection of TLS whose handshake is not
// finished cannot be closed: Deno goes on with the handshake until the caller closes, whatever it is
// told. So the agent keeps the caller's connection for itself and carries its bytes to a second one,
// within this process, on which the runtime shakes hands; closing both ends any handshake.
//
// The second connection goes over loopback, the only way to a listener of TLS. That listener is there
// for the one connection, at a port that the system chooses, and is closed a few hundred microseconds
// later. Whoever else gets in meanwhile is served nothing; but like every connection of TLS it keeps its
// descriptor until it lets go. So that no program of this host can bring that about by trying all
// ports, Linux, where 127.0.0.0/8 leads to this host, is given an address that nobody can guess.

import { isCallerGone } from "./accept_loop.ts";
import { closeConnection, type ConnectionRelay, relayConnections } from "./connection_relay.ts";
import {
  type ConnectionHandling,
  isLastAnswer,
  type ServeConnection,
  type ServedConnection,
} from "./runtime_connection.ts";
import type { TlsIdentity } from "./tls.ts";

/** The one address of loopback that every system has. */
const LOOPBACK = "127.0.0.1";
/** Connections that may wait there: ours, and few of others who tried every port. */
const BACKLOG = 8;
/**
 * Bytes that a caller is sent, beside the certificate, before anybody knows it: the rest of a handshake
 * and one small answer. The system's own buffers take so many of a caller who reads nothing, so that
 * its connection can be closed. More would be asked for by many requests or PINGs of HTTP/2.
 */
const UNKNOWN_BYTES_MAX = 8 * 1024;

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
        const shown = identity();
        const { outer, inner } = await openPair(shown);
        const allowance = openAllowance(handling, UNKNOWN_BYTES_MAX + shown.cert.length);
        relay = relayConnections(connection, outer, handling.moved, allowance.allowed);
        served = serve(inner, { ...handling, answer: allowance.answer, moved: () => {} });
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

/** Bounds what a caller is sent until an answer shows that it is known: one that is not the last. */
function openAllowance(
  handling: ConnectionHandling,
  bytesMax: number,
): Pick<ConnectionHandling, "answer"> & { allowed(bytes: number): boolean } {
  let known = false;
  let sent = 0;
  return {
    async answer(request, info) {
      const response = await handling.answer(request, info);
      if (!isLastAnswer(response)) known = true;
      return response;
    },
    allowed(bytes) {
      if (!known) sent += bytes;
      return known || sent <= bytesMax;
    },
  };
}

/** Two ends of one connection; TLS is spoken on the inner one. */
async function openPair(
  identity: TlsIdentity,
): Promise<{ readonly outer: Deno.TcpConn; readonly inner: Deno.TlsConn }> {
  const hostname = loopbackAddress();
  const listener = Deno.listenTls({ hostname, port: 0, tcpBacklog: BACKLOG, ...identity });
  let outer: Deno.TcpConn | undefined;
  try {
    outer = await Deno.connect({ hostname, port: portOf(listener.addr) });
    // Ours is among those that wait: connecting has succeeded.
    for (;;) {
      const inner = await acceptNext(listener);
      if (inner === undefined) continue;
      if (isSameEnd(inner.remoteAddr, outer.localAddr)) return { outer, inner };
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

/** An address of this host that is another one each time where the system has many. */
function loopbackAddress(): string {
  if (Deno.build.os !== "linux") return LOOPBACK;
  const parts = crypto.getRandomValues(new Uint8Array(3));
  // Neither the first nor the last of any network, which may mean all of its addresses.
  return ["127", ...Array.from(parts, (part) => 1 + part % 254)].join(".");
}

/** The port alone would not do: at another address of this host anybody may have the same. */
export function isSameEnd(one: Deno.Addr, other: Deno.Addr): boolean {
  return "hostname" in one && "hostname" in other && one.hostname === other.hostname &&
    one.port === other.port;
}

function portOf(address: Deno.Addr): number {
  return "port" in address ? address.port : 0;
}
