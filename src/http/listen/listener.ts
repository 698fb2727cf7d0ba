// What a listener is: its address, and what answers its requests.

import { AgentError, systemReason } from "../../domain/error.ts";
import { ipv6Groups } from "../../domain/ip_address.ts";
import type { RawBytes } from "./runtime_connection.ts";
import type { TlsIdentity } from "./tls.ts";
import type { SocketRights } from "./unix_socket.ts";

/** Status of an answer that turns the connection into a WebSocket. */
export const SWITCHING = 101;

/** Where a listener is. */
export type ListenPlace =
  | {
    readonly kind: "tcp";
    readonly hostname: string;
    /** 0 lets the system choose. */
    readonly port: number;
    readonly tls: TlsIdentity | undefined;
  }
  | { readonly kind: "socket"; readonly path: string; readonly rights: SocketRights };

/** The connection of a request. */
export interface ConnectionOrigin {
  readonly remote: Deno.Addr;
  /** Whether it uses TLS; request.url does not always say so. */
  readonly secure: boolean;
  /** Takes the connection from HTTP; see RequestInfo. */
  readonly takeOver: () => RawBytes;
}

/** What answers requests: the application, and the answer when it fails. */
export interface Answering {
  answer(request: Request, origin: ConnectionOrigin): Response | Promise<Response>;
  failed(error: unknown): Response;
}

/** A listener that accepts requests, on a TCP port or a unix socket. */
export interface OpenListener {
  /** The TCP port; undefined for a socket. */
  readonly port: number | undefined;
  /** Uses another certificate for new connections; without effect without TLS. */
  replaceTls(identity: TlsIdentity): void;
  /** Accepts no more requests, and waits at most so long for those in progress. */
  close(graceMs: number): Promise<void>;
}

/** Connections that may wait to be accepted; the system may have a lower limit. */
export const BACKLOG = 511;

/**
 * What identifies one remote caller: an IPv4 address, or a whole IPv6 network, where each connection can come
 * from another address (RFC 7421).
 */
export function peerNetwork(address: string): string {
  const groups = ipv6Groups(address);
  if (groups === undefined) return address;
  // Mapped IPv4 addresses, as on a dual-stack socket, all share one such network.
  const mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  const own = mapped ? groups.slice(6) : groups.slice(0, 4);
  return own.map((group) => group.toString(16)).join(":");
}

/** The name of a listener in messages and the log. */
export function placeText(place: ListenPlace): string {
  if (place.kind === "socket") return `unix:${place.path}`;
  const { hostname, port, tls } = place;
  const scheme = tls === undefined ? "http" : "https";
  return `${scheme}://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/** The error for an address where listening failed; names the process that has the port. */
export async function cannotListen(place: ListenPlace, error: unknown): Promise<AgentError> {
  const taken = error instanceof Deno.errors.AddrInUse && place.kind === "tcp";
  const why = taken
    ? `${await portHolder(place.port) ?? "another process"} listens there: expected a free port; ` +
      "--listen HOST:PORT names another"
    : systemReason(error);
  const message = `Cannot listen on ${placeText(place)}: ${why}`;
  return new AgentError("conflict", message, { cause: error });
}

/** How the tables of the kernel write that a socket listens. @see proc_net_tcp in the kernel's docs */
const LISTENS = "0A";

/** `process 4711 (nginx)`: who listens on a port, where the system lets this process see it. */
async function portHolder(port: number): Promise<string | undefined> {
  if (Deno.build.os !== "linux") return undefined;
  try {
    const sockets = new Set<string>();
    for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
      for (const line of (await Deno.readTextFile(table)).split("\n")) {
        const [, local = "", , state, , , , , , inode = ""] = line.trim().split(/\s+/);
        if (state !== LISTENS || Number.parseInt(local.split(":")[1] ?? "", 16) !== port) continue;
        sockets.add(`socket:[${inode}]`);
      }
    }
    for (const { name: pid } of Deno.readDirSync("/proc")) {
      if (/^\d+$/.test(pid) && await holdsAny(pid, sockets)) {
        const name = (await Deno.readTextFile(`/proc/${pid}/comm`)).trim();
        return `process ${pid} (${name})`;
      }
    }
  } catch {
    // It is only a help: a table that cannot be read names nobody.
  }
  return undefined;
}

/** Whether a process has one of the sockets open; those of other users cannot be looked at. */
async function holdsAny(pid: string, sockets: ReadonlySet<string>): Promise<boolean> {
  try {
    for await (const { name } of Deno.readDir(`/proc/${pid}/fd`)) {
      if (sockets.has(await Deno.readLink(`/proc/${pid}/fd/${name}`).catch(() => ""))) return true;
    }
  } catch {
    // It ended, or belongs to somebody else.
  }
  return false;
}

/** Waits for a promise, at most so long. */
export async function within(ms: number, waiting: Promise<unknown>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  try {
    await Promise.race([waiting, late]);
  } finally {
    clearTimeout(timer);
  }
}
