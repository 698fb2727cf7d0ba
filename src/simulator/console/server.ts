// The VNC listener of a running machine: the host's proxy, with its faults. The VNC server behind it belongs
// to the engine.

import type { VncClient } from "../engine/engine.ts";
import { sleep } from "../host_folder.ts";

/** Clients at the same time; further ones are disconnected at once. */
const CLIENTS_MAX = 32;
/** Bytes of one read of a silent listener. */
const IGNORED_BYTES = 4096;

/** How a listener treats the next client. */
interface Behaviour {
  /** Accepts and stays silent, like a proxy whose hypervisor has no socket. */
  readonly silent: boolean;
  /** Accepts and closes at once, before the first byte. */
  readonly closes: boolean;
  readonly old: boolean;
  readonly delayMs: number;
}

/** Options for the console of one machine. */
interface VncOptions {
  readonly hostname: string;
  /** 0 lets the system choose. */
  readonly port: number;
  readonly behaviour: () => Promise<Behaviour>;
  /** Serves a client until one side ends; the connection is then closed. */
  readonly serve: (conn: Deno.Conn, client: VncClient) => Promise<void>;
}

/** A VNC server that accepts clients until it is closed. */
export interface VncListener {
  readonly port: number;
  /** Stops accepting; open sessions stay. */
  stopListening(): void;
  /** Ends the open sessions as well. */
  close(): void;
}

/** Listens on the host and port of the options. */
export function listenVnc(options: VncOptions): VncListener {
  const listener = Deno.listen({ hostname: options.hostname, port: options.port });
  const clients = new Set<Deno.Conn>();
  let listening = true;
  const accept = async () => {
    for await (const conn of listener) {
      if (clients.size >= CLIENTS_MAX) {
        conn.close();
        continue;
      }
      clients.add(conn);
      serve(conn, options).catch(() => {}).finally(() => {
        clients.delete(conn);
        closeQuietly(conn);
      });
    }
  };
  // Closing the listener ends the loop with an error.
  accept().catch(() => {});
  const stopListening = () => {
    if (listening) listener.close();
    listening = false;
  };
  return {
    port: listener.addr.port,
    stopListening,
    close: () => {
      stopListening();
      for (const conn of clients) closeQuietly(conn);
    },
  };
}

async function serve(conn: Deno.Conn, options: VncOptions): Promise<void> {
  const behaviour = await options.behaviour();
  if (behaviour.closes) return;
  if (behaviour.silent) {
    const ignored = new Uint8Array(IGNORED_BYTES);
    while (await conn.read(ignored) !== null);
    return;
  }
  await sleep(behaviour.delayMs);
  await options.serve(conn, { old: behaviour.old });
}

function closeQuietly(conn: Deno.Conn): void {
  try {
    conn.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}
