// Listening: on a loopback port, on a unix socket, or on both. Deno.serve speaks HTTP; who may open
// the socket file is settled before the first byte.

import { AgentError, messageOf } from "../domain/error.ts";
import type { Log } from "../log.ts";
import type { HttpEnv } from "./app_deps.ts";
import { errorResponse } from "./error_response.ts";
import { headAnswer } from "./head.ts";
import { keepServing, type LastingServer } from "./lasting_server.ts";

/** What is served: createApp() makes one. */
export interface App {
  fetch(request: Request, env: HttpEnv["Bindings"]): Response | Promise<Response>;
}

/** Where the server listens. */
export interface ListenOptions {
  /** Loopback address and port (0 for any free one), or null for none. */
  readonly tcp: { readonly hostname: string; readonly port: number } | null;
  /** Absolute path of a unix socket that only its owner may open, or null for none. */
  readonly socketPath: string | null;
  readonly log: Log;
}

/** A server that listens. */
export interface Server {
  /** Where it listens: `http://127.0.0.1:8780`, `unix:/run/zonewright/zonewright.sock`. */
  readonly urls: readonly string[];
  /** The TCP port, or undefined without one. */
  readonly port: number | undefined;
  /**
   * Takes no more requests, and resolves when those under way have been answered, or after
   * `graceMs`. What is left then is cut when the process ends: Deno has no other way to cut it.
   */
  shutdown(graceMs?: number): Promise<void>;
}

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/;
/** Removes all rights of group and others while the socket file is made. */
const OWNER_ONLY = 0o177;
/** Milliseconds that a shutdown waits for answers under way, and for callers to take them. */
const SHUTDOWN_GRACE_MS = 5_000;

/**
 * Starts to listen.
 * @throws {AgentError} `forbidden` beyond loopback, where nothing would tell callers apart yet;
 * `conflict` when the address is taken or another agent answers on the socket
 */
export async function listen(app: App, options: ListenOptions): Promise<Server> {
  const { tcp, socketPath, log } = options;
  if (tcp !== null && !LOOPBACK.test(tcp.hostname)) {
    const message = `Cannot listen on ${tcp.hostname}: expected a loopback address`;
    throw new AgentError("forbidden", message);
  }
  const servers: LastingServer[] = [];
  const urls: string[] = [];
  let port: number | undefined;
  try {
    if (tcp !== null) {
      const server = serveTcp(app, tcp, log);
      const taken = { ...tcp, port: server.addr.port };
      servers.push(keepServing(server, () => serveTcp(app, taken, log), log));
      port = taken.port;
      urls.push(urlOf(tcp.hostname, port));
    }
    if (socketPath !== null) {
      const server = await serveSocket(app, socketPath, log);
      servers.push(keepServing(server, () => serveSocket(app, socketPath, log), log));
      urls.push(`unix:${socketPath}`);
    }
  } catch (error) {
    await Promise.all(servers.map((server) => server.shutdown()));
    throw error;
  }
  const stop = (graceMs = SHUTDOWN_GRACE_MS) => shutdown(servers, socketPath, graceMs);
  return { urls, port, shutdown: stop };
}

function urlOf(hostname: string, port: number): string {
  return `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

function serveTcp(
  app: App,
  { hostname, port }: { readonly hostname: string; readonly port: number },
  log: Log,
): Deno.HttpServer<Deno.NetAddr> {
  try {
    return Deno.serve({
      hostname,
      port,
      onListen: () => {},
      onError: (error) => failed(error, log),
    }, (request, info) => answer(app, request, info.remoteAddr));
  } catch (error) {
    throw cannotListen(urlOf(hostname, port), error);
  }
}

async function serveSocket(
  app: App,
  path: string,
  log: Log,
): Promise<Deno.HttpServer<Deno.UnixAddr>> {
  await removeStaleSocket(path);
  const before = Deno.umask(OWNER_ONLY);
  try {
    // Binds before it returns, so that the file has its mode from the beginning.
    return Deno.serve({
      path,
      onListen: () => {},
      onError: (error) => failed(error, log),
    }, (request, info) => answer(app, request, info.remoteAddr));
  } catch (error) {
    throw cannotListen(path, error);
  } finally {
    Deno.umask(before);
  }
}

/** Removes what an agent that was killed left behind, once nobody answers there. */
async function removeStaleSocket(path: string): Promise<void> {
  const found = await Deno.lstat(path).catch(absent);
  if (found === undefined) return;
  if (!found.isSocket) {
    throw new AgentError("conflict", `Cannot listen on ${path}: found a file that is no socket`);
  }
  let connection: Deno.Conn;
  try {
    connection = await Deno.connect({ transport: "unix", path });
  } catch (error) {
    if (!(error instanceof Deno.errors.ConnectionRefused)) throw cannotListen(path, error);
    await Deno.remove(path);
    return;
  }
  connection.close();
  throw new AgentError("conflict", `Cannot listen on ${path}: another agent answers there`);
}

function cannotListen(place: string, error: unknown): AgentError {
  const message = `Cannot listen on ${place}: ${messageOf(error)}`;
  return new AgentError("conflict", message, { cause: error });
}

function answer(app: App, request: Request, remote: Deno.Addr): Response | Promise<Response> {
  const response = app.fetch(request, { remote });
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

async function shutdown(
  servers: readonly LastingServer[],
  socketPath: string | null,
  graceMs: number,
): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, graceMs);
  await Promise.race([Promise.all(servers.map((server) => server.shutdown())), late]);
  clearTimeout(timer);
  // Deno removes the file of a socket only once the last connection to it is closed.
  if (socketPath !== null) await Deno.remove(socketPath).catch(absent);
}

function absent(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}
