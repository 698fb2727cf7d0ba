// Listening: on a TCP port, on a unix socket, or on both. How connections are taken is a door's.

import { AgentError, messageOf } from "../../domain/error.ts";
import { isLoopback } from "../../domain/ip_address.ts";
import type { Log } from "../../metrics/log.ts";
import type { HttpEnv } from "../context.ts";
import {
  type ConnectionLimits,
  DEFAULT_CONNECTION_LIMITS,
  WatchedConnections,
} from "./connection_watch.ts";
import {
  type Answering,
  type ConnectionOrigin,
  type Door,
  type ListenPlace,
  placeText,
} from "./listener.ts";
import { errorResponse } from "../request/error_response.ts";
import { headAnswer } from "../request/request_id.ts";
import { servesConnections } from "./runtime_connection.ts";
import type { TlsIdentity } from "./tls.ts";
import { OWNER_ONLY, type SocketRights } from "./unix_socket.ts";
import { openWatchedDoor } from "./watched_listener.ts";

/** What is served: createApp() makes one. */
export interface App {
  fetch(request: Request, env: HttpEnv["Bindings"]): Response | Promise<Response>;
}

/** Where the server listens. */
export interface ListenOptions {
  /** Address and port (0 for any free one), or null for none. */
  readonly tcp: { readonly hostname: string; readonly port: number } | null;
  /** Absolute path of a unix socket, or null for none. */
  readonly socketPath: string | null;
  /** Who may open the socket; its owner alone unless given. */
  readonly socketRights?: SocketRights;
  /** With what TLS is spoken on the port; plain HTTP unless given. */
  readonly tls?: TlsIdentity | undefined;
  /** Whether every caller of the port has to show a token. */
  readonly tokenRequired?: boolean;
  readonly connections?: ConnectionLimits;
  /** Whether the agent carries the bytes of connections itself; as the runtime needs unless given. */
  readonly relayed?: boolean;
  readonly log: Log;
}

/** A server that listens. */
export interface Server {
  /** Where it listens: `http://127.0.0.1:8780`, `unix:/run/zonewright/zonewright.sock`. */
  readonly urls: readonly string[];
  /** The TCP port, or undefined without one. */
  readonly port: number | undefined;
  /** Takes another certificate for the connections to come; those that there are keep the old one. */
  replaceTls(identity: TlsIdentity): void;
  /**
   * Takes no more requests, and resolves when those under way have been answered. What is left after
   * `graceMs` is cut.
   */
  shutdown(graceMs?: number): Promise<void>;
}

/** Milliseconds that a shutdown waits for answers under way, and for callers to take them. */
const SHUTDOWN_GRACE_MS = 5_000;

/**
 * Starts to listen.
 * @throws {AgentError} `forbidden` beyond loopback without a token and TLS; `conflict` when an address
 * is taken or another agent answers on the socket
 */
export async function listen(app: App, options: ListenOptions): Promise<Server> {
  const { tcp, socketPath, log, tls } = options;
  if (tcp !== null) refuseOpenPort(tcp.hostname, options);
  const relayed = options.relayed ?? !servesConnections();
  const watch = new WatchedConnections(options.connections ?? DEFAULT_CONNECTION_LIMITS);
  const answering: Answering = {
    answer: (request, origin) => answer(app, request, origin),
    failed: (error) => failed(error, log),
  };
  const doors: Door[] = [];
  const urls: string[] = [];
  const open = async (place: ListenPlace) => {
    const door = await openWatchedDoor(place, answering, { watch, relayed, log });
    doors.push(door);
    urls.push(placeText(place.kind === "tcp" ? { ...place, port: door.port ?? 0 } : place));
    return door;
  };
  const close = async (graceMs: number) => {
    await Promise.all(doors.map((door) => door.close(graceMs)));
    watch.close();
    // Deno removes the file of a socket only once the last connection to it is closed, if at all.
    if (socketPath !== null && urls.includes(`unix:${socketPath}`)) {
      await Deno.remove(socketPath).catch(absent);
    }
  };
  try {
    const onPort = tcp === null ? undefined : await open({ kind: "tcp", ...tcp, tls });
    if (socketPath !== null) {
      await open({ kind: "socket", path: socketPath, rights: options.socketRights ?? OWNER_ONLY });
    }
    return {
      urls,
      port: onPort?.port,
      replaceTls: (identity) => onPort?.replaceTls(identity),
      shutdown: (graceMs = SHUTDOWN_GRACE_MS) => close(graceMs),
    };
  } catch (error) {
    await close(SHUTDOWN_GRACE_MS);
    throw error;
  }
}

/** @throws {AgentError} `forbidden` */
function refuseOpenPort(hostname: string, { tls, tokenRequired }: ListenOptions): void {
  if (isLoopback(hostname)) return;
  const missing = [
    ...(tokenRequired === true ? [] : ["a token"]),
    ...(tls === undefined ? ["TLS"] : []),
  ];
  if (missing.length === 0) return;
  const message = `Cannot listen on ${hostname}, which is beyond loopback, without ` +
    missing.join(" and without ");
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
 * What the application let through: nothing, unless it is broken itself. An answer that breaks off
 * after it has begun was told of by then.
 */
function failed(error: unknown, log: Log): Response {
  const request_id = crypto.randomUUID();
  if (error instanceof AgentError) return errorResponse(error, request_id);
  const stack = error instanceof Error ? error.stack : undefined;
  log.error("request failed", { request_id, error: messageOf(error), stack });
  return errorResponse(error, request_id);
}

function absent(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}
