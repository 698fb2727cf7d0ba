// TLS on one accepted connection. Deno cannot close a TLS connection before its handshake is finished: it
// continues until the caller closes. So the agent keeps the caller's connection and relays its bytes to a
// second one within this process, where the runtime does the handshake. Closing both ends any handshake.
//
// The second connection goes over loopback, the only way to a TLS listener. That listener exists for this one
// connection, at a port that the system chooses, and is closed a few hundred microseconds later. Another
// caller in that time is not served, but keeps a descriptor until it closes. A program on this host could
// cause that by trying all ports, so on Linux, where all of 127.0.0.0/8 is this host, the listener uses a
// random address.

import { isCallerGone, type TlsIdentity } from "./listener.ts";
import { closeConnection, type ConnectionRelay, relayConnections } from "./connection_relay.ts";
import {
  type ConnectionHandling,
  isLastAnswer,
  type ServeConnection,
  type ServedConnection,
} from "./runtime_connection.ts";

/** The loopback address of every system. */
const LOOPBACK = "127.0.0.1";
/** Connections that may wait there: ours, and a few from port scanners. */
const BACKLOG = 8;
/**
 * Bytes, besides the certificate, that an unknown caller is sent: the rest of a handshake and one small
 * answer. The system's buffers hold that much for a caller that reads nothing, so its connection can be
 * closed. Many requests or HTTP/2 PINGs would ask for more.
 */
const UNKNOWN_BYTES_MAX = 8 * 1024;

/** @param identity the certificate of new connections */
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
      // Rejects when a handshake fails or a caller hangs up; the relay reports both.
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

/** Bounds what a caller is sent until it is known, which it is once an answer leaves its connection open. */
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

/** Two ends of one connection, with TLS on the inner one. */
async function openPair(
  identity: TlsIdentity,
): Promise<{ readonly outer: Deno.TcpConn; readonly inner: Deno.TlsConn }> {
  const hostname = loopbackAddress();
  const listener = Deno.listenTls({ hostname, port: 0, tcpBacklog: BACKLOG, ...identity });
  let outer: Deno.TcpConn | undefined;
  try {
    outer = await Deno.connect({ hostname, port: portOf(listener.addr) });
    // Ours is among those waiting, since connecting has succeeded.
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

/** The next waiting connection; undefined when it was reset. */
async function acceptNext(listener: Deno.TlsListener): Promise<Deno.TlsConn | undefined> {
  try {
    return await listener.accept();
  } catch (error) {
    if (isCallerGone(error)) return undefined;
    throw error;
  }
}

/** A loopback address, a random one where the system has many. */
function loopbackAddress(): string {
  if (Deno.build.os !== "linux") return LOOPBACK;
  const parts = crypto.getRandomValues(new Uint8Array(3));
  // Neither the first nor the last of a network, which may be broadcast addresses.
  return ["127", ...Array.from(parts, (part) => 1 + part % 254)].join(".");
}

/** Compares the address too: another address may use the same port. */
export function isSameEnd(one: Deno.Addr, other: Deno.Addr): boolean {
  return "hostname" in one && "hostname" in other && one.hostname === other.hostname &&
    one.port === other.port;
}

function portOf(address: Deno.Addr): number {
  return "port" in address ? address.port : 0;
}
