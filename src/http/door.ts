// What both kinds of door share: where one is, and what answers behind it.

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

/** What answers: the application, and what is said when it fails. */
export interface Answering {
  answer(request: Request, remote: Deno.Addr): Response | Promise<Response>;
  failed(error: unknown): Response;
}

/** A place where connections are taken. */
export interface Door {
  /** The TCP port; undefined of a socket. */
  readonly port: number | undefined;
  /** Listens anew at the same address with another certificate; connections that there are stay. */
  replaceTls(identity: TlsIdentity): Promise<void>;
  /** Takes no more requests, and waits at most so long for those under way. */
  close(graceMs: number): Promise<void>;
}

/** Connections that may wait to be taken; the system may have a smaller bound. */
export const BACKLOG = 511;

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
