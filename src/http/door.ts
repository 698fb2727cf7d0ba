// What a door is: where it stands, and what answers behind it.

import { AgentError, messageOf } from "../domain/error.ts";
import type { TlsIdentity } from "./tls.ts";
import type { SocketRights } from "./unix_socket.ts";

/** Where a door is. */
export type Place =
  | {
    readonly kind: "tcp";
    readonly hostname: string;
    /** 0 lets the system choose. */
    readonly port: number;
    readonly tls: TlsIdentity | undefined;
  }
  | { readonly kind: "socket"; readonly path: string; readonly rights: SocketRights };

/** What is known of the connection that a request has come by. */
export interface Origin {
  readonly remote: Deno.Addr;
  /** Whether TLS was spoken on it; request.url does not always say so. */
  readonly secure: boolean;
}

/** What answers: the application, and what is said when it fails. */
export interface Answering {
  answer(request: Request, origin: Origin): Response | Promise<Response>;
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

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/;

/** Whether an address can be reached from this host alone. */
export function isLoopback(hostname: string): boolean {
  return LOOPBACK.test(hostname);
}

/** A place as messages and the log name it. */
export function placeText(place: Place): string {
  if (place.kind === "socket") return `unix:${place.path}`;
  const { hostname, port, tls } = place;
  const scheme = tls === undefined ? "http" : "https";
  return `${scheme}://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/** The error of a place at which nobody can listen. */
export function cannotListen(place: Place, error: unknown): AgentError {
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
