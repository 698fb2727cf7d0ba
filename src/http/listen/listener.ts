// What a door is: where it stands, and what answers behind it.

import { AgentError, messageOf } from "../../domain/error.ts";
import { ipv6Groups } from "../../domain/ip_address.ts";
import type { RawBytes } from "./runtime_connection.ts";
import type { TlsIdentity } from "./tls.ts";
import type { SocketRights } from "./unix_socket.ts";

/** Where a door is. */
export type ListenPlace =
  | {
    readonly kind: "tcp";
    readonly hostname: string;
    /** 0 lets the system choose. */
    readonly port: number;
    readonly tls: TlsIdentity | undefined;
  }
  | { readonly kind: "socket"; readonly path: string; readonly rights: SocketRights };

/** What is known of the connection that a request has come by. */
export interface ConnectionOrigin {
  readonly remote: Deno.Addr;
  /** Whether TLS was spoken on it; request.url does not always say so. */
  readonly secure: boolean;
  /** Takes the connection from HTTP; see RequestInfo. */
  readonly takeOver: () => RawBytes;
}

/** What answers: the application, and what is said when it fails. */
export interface Answering {
  answer(request: Request, origin: ConnectionOrigin): Response | Promise<Response>;
  failed(error: unknown): Response;
}

/** A place where connections are taken. */
export interface Door {
  /** The TCP port; undefined of a socket. */
  readonly port: number | undefined;
  /** Shows another certificate to the connections to come; void without TLS. */
  replaceTls(identity: TlsIdentity): void;
  /** Takes no more requests, and waits at most so long for those under way. */
  close(graceMs: number): Promise<void>;
}

/** Connections that may wait to be taken; the system may have a smaller bound. */
export const BACKLOG = 511;

/**
 * What one caller beyond this host may have to itself: an IPv4 address, or all of an IPv6 network, where
 * each connection can come from another address (RFC 7421).
 */
export function peerNetwork(address: string): string {
  const groups = ipv6Groups(address);
  if (groups === undefined) return address;
  // IPv4 in its mapped form, as on a socket for both: all of it is one such network.
  const mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  const own = mapped ? groups.slice(6) : groups.slice(0, 4);
  return own.map((group) => group.toString(16)).join(":");
}

/** A place as messages and the log name it. */
export function placeText(place: ListenPlace): string {
  if (place.kind === "socket") return `unix:${place.path}`;
  const { hostname, port, tls } = place;
  const scheme = tls === undefined ? "http" : "https";
  return `${scheme}://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/** The error of a place at which nobody can listen. */
export function cannotListen(place: ListenPlace, error: unknown): AgentError {
  const message = `Cannot listen on ${placeText(place)}: ${messageOf(error)}`;
  return new AgentError("conflict", message, { cause: error });
}

/** Waits for a promise, at most so many milliseconds. */
export async function within(ms: number, waiting: Promise<unknown>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  try {
    await Promise.race([waiting, late]);
  } finally {
    clearTimeout(timer);
  }
}
