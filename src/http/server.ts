// Listens on a TCP port, a unix socket, or both.

import { AgentError, messageOf } from "../domain/error.ts";
import { isLoopback } from "../domain/ip_address.ts";
import type { Log } from "../metrics/log.ts";
import type { HttpEnv } from "./served_agent.ts";
import { type ConnectionLimits, WatchedConnections } from "./listen/connection_watch.ts";
import {
  type Answering,
  type ConnectionOrigin,
  type ListenPlace,
  type OpenListener,
  placeText,
  type TlsIdentity,
} from "./listen/listener.ts";
import type { SocketRights } from "./listen/socket_file.ts";
import { absent } from "../runtime/regular_file.ts";
import { errorResponse } from "./answer/error_response.ts";
import { headAnswer } from "./request/request_id.ts";
import { openWatchedListener } from "./listen/watched_listener.ts";

/** The part of the application that a server needs; createApp() makes it. */
export interface App {
  fetch(request: Request, env: HttpEnv["Bindings"]): Response | Promise<Response>;
}

/** Where the server listens, with which certificate and within which limits. */
export interface ListenOptions {
  /** Address and port (0 for any free one), or null for none. */
  readonly tcp: { readonly hostname: string; readonly port: number } | null;
  /** Absolute path of a unix socket, or null for none. */
  readonly socketPath: string | null;
  /** Who may open the socket. */
  readonly socketRights: SocketRights;
  /** The certificate of the port; without it, plain HTTP. */
  readonly tls?: TlsIdentity | undefined;
  /** Whether every caller of the port must show a token. */
  readonly tokenRequired: boolean;
  readonly connections: ConnectionLimits;
  /** Whether the agent relays the bytes of connections, for a runtime that does not serve them itself. */
  readonly relayed: boolean;
  readonly log: Log;
}

/** All listeners of the agent. */
export interface Server {
  /** Where it listens: `http://127.0.0.1:8780`, `unix:/run/zonewright/zonewright.sock`. */
  readonly urls: readonly string[];
  /** The TCP port, or undefined without one. */
  readonly port: number | undefined;
  /** Uses another certificate for new connections. */
  replaceTls(identity: TlsIdentity): void;
  /**
   * Accepts no more requests, and resolves when those in progress are answered. After `graceMs` the rest is
   * cut.
   */
  shutdown(graceMs: number): Promise<void>;
}

/**
 * Starts to listen.
 * @throws {AgentError} `forbidden` beyond loopback without a token and TLS; `conflict` when an address
 * is taken or another agent answers on the socket
 */
export async function listen(app: App, options: ListenOptions): Promise<Server> {
  const { tcp, socketPath, socketRights: rights, relayed, log, tls } = options;
  if (tcp !== null) refuseOpenPort(tcp.hostname, options);
  const watch = new WatchedConnections(options.connections);
  const answering: Answering = {
    answer: (request, origin) => answer(app, request, origin),
    failed: (error) => failed(error, log),
  };
  const listeners: OpenListener[] = [];
  const urls: string[] = [];
  const open = async (place: ListenPlace) => {
    const listener = await openWatchedListener(place, answering, { watch, relayed, log });
    listeners.push(listener);
    urls.push(placeText(place.kind === "tcp" ? { ...place, port: listener.port ?? 0 } : place));
    return listener;
  };
  const close = async (graceMs: number) => {
    await Promise.all(listeners.map((listener) => listener.close(graceMs)));
    watch.close();
    // Deno removes the file of a socket only after its last connection, if at all.
    if (socketPath !== null && urls.includes(`unix:${socketPath}`)) {
      await Deno.remove(socketPath).catch(absent);
    }
  };
  try {
    const onPort = tcp === null ? undefined : await open({ kind: "tcp", ...tcp, tls });
    if (socketPath !== null) await open({ kind: "socket", path: socketPath, rights });
    return {
      urls,
      port: onPort?.port,
      replaceTls: (identity) => onPort?.replaceTls(identity),
      shutdown: close,
    };
  } catch (error) {
    // A caller that has connected by now is cut: the agent does not start.
    await close(0);
    throw error;
  }
}

function refuseOpenPort(hostname: string, { tls, tokenRequired }: ListenOptions): void {
  if (isLoopback(hostname)) return;
  const missing = [
    ...(tokenRequired ? [] : ["a token"]),
    ...(tls === undefined ? ["TLS"] : []),
  ];
  if (missing.length === 0) return;
  const message = `Cannot listen on ${hostname}: it is beyond loopback, where there must be ` +
    missing.join(" and ");
  throw new AgentError("forbidden", message);
}

function answer(
  app: App,
  request: Request,
  origin: ConnectionOrigin,
): Response | Promise<Response> {
  const response = app.fetch(request, origin);
  if (request.method !== "HEAD") return response;
  return Promise.resolve(response).then(headAnswer);
}

/**
 * Answers an error that the application let through, which is a defect. An answer that breaks off after it
 * began has already been logged.
 */
function failed(error: unknown, log: Log): Response {
  const request_id = crypto.randomUUID();
  if (error instanceof AgentError) return errorResponse(error, request_id);
  const stack = error instanceof Error ? error.stack : undefined;
  log.error("request failed", { request_id, error: messageOf(error), stack });
  return errorResponse(error, request_id);
}
