// One session with a PostgreSQL server.

import type { AgentError } from "../../domain/error.ts";
import type { Now } from "../../domain/instant.ts";
import pg from "pg";

/** A value that a statement takes. */
export type BoundValue =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly (string | number | boolean | null)[];

/** Where the server is, and how long calls wait for it. */
export interface ServerOptions {
  /** `postgres://USER@HOST:PORT/DATABASE`, or with `?host=/FOLDER` for its socket. */
  readonly url: string;
  /** Address of the session that listens for notices, which must not go through a pooler; `url` unless given. */
  readonly noticesUrl?: string;
  /** Password of the user in the address. */
  readonly password?: string;
  /** PEM certificate of the authority that signed the server's; the system's authorities unless given. */
  readonly ca?: string;
  /** Milliseconds after which a call without an answer fails. */
  readonly deadlineMs: number;
  /** Called when the version of the schema is one that this program cannot use. */
  readonly unusable?: (error: AgentError) => void;
  /** The clock for leases and due times; the server's unless given. */
  readonly now?: Now;
}

/** The rows that a statement returned, and the number of rows that it changed. */
export type SessionResult = Pick<pg.QueryResult, "rows" | "rowCount">;

/** An open session of the server. */
export interface ServerSession {
  /** @param name of the prepared statement, so that the server keeps its plan */
  query(sql: string, values?: readonly BoundValue[], name?: string): Promise<SessionResult>;
  /** Runs several statements, which take no values. */
  script(sql: string): Promise<SessionResult[]>;
  /**
   * Switches to pipelining: statements are sent without waiting for earlier answers, and those of one turn of the event
   * loop leave in one write to the socket, since a write costs as much as the statement in it.
   */
  pipeline(): void;
  /** The id of the backend process, as the other side reports it; a pooler reports an id of its own. */
  readonly pid: number | null;
  /** Closes the socket without waiting for the server. */
  destroy(): void;
  readonly broken: boolean;
}

const types = new pg.TypeOverrides();
// The driver returns int8 as text. Counts and ids stay far below 2 ** 53, so a number holds them.
types.setTypeParser(pg.types.builtins.INT8, Number);

/**
 * Opens a session.
 * @param leftMs milliseconds that it may take
 * @param noticed called with the payload of each notification on a channel of LISTEN, and the backend that sent it
 * @throws {Error} the driver's, when the server does not accept the session
 */
export async function openSession(
  { url, password, ca }: ServerOptions,
  leftMs: number,
  noticed: (payload: string, pid: number) => void = () => {},
): Promise<ServerSession> {
  const { Socket } = await import("node:net");
  // We create the socket ourselves so that it can be destroyed: the driver's end() waits for the server.
  const socket = new Socket();
  const client = new pg.Client({
    ...connectionParts(url),
    ...(password === undefined ? {} : { password }),
    // Without a verified name, anyone between agent and server could pose as the server.
    ...(isEncrypted(url, ca)
      ? { ssl: { rejectUnauthorized: true, ...(ca === undefined ? {} : { ca }) } }
      : {}),
    stream: () => socket,
    connectionTimeoutMillis: Math.max(Math.ceil(leftMs), 1),
    application_name: "zonewright",
    keepAlive: true,
    types,
  });
  let broken = false;
  const destroy = () => {
    broken = true;
    socket.destroy();
  };
  client.on("error", () => broken = true);
  client.on("end", () => broken = true);
  client.on("notification", ({ payload = "", processId }) => noticed(payload, processId));
  try {
    await client.connect();
  } catch (error) {
    destroy();
    throw error;
  }
  return {
    ...statementsOn(client, socket),
    pid: (client as { readonly processID?: number | null }).processID ?? null,
    destroy,
    get broken() {
      return broken;
    },
  };
}

/**
 * Opens a session, trying again until the deadline: a server refuses sessions while it starts.
 * @param retries whether to try again after this error
 * @throws {Error} the first error when the deadline has passed; the last one when it does not allow a retry
 */
export async function openWithRetries<Session>(
  deadlineMs: number,
  open: (leftMs: number) => Promise<Session>,
  retries: (error: unknown) => boolean,
): Promise<Session> {
  let why: unknown;
  for (let pauseMs = 50;; pauseMs = Math.min(pauseMs * 2, 1000)) {
    try {
      return await open(deadlineMs - performance.now());
    } catch (error) {
      // The last error may only say that no time was left.
      why ??= error;
      if (!retries(error)) throw error;
      if (performance.now() + pauseMs >= deadlineMs) throw why;
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

function statementsOn(
  client: pg.Client,
  socket: { cork(): void; uncork(): void },
): Pick<ServerSession, "query" | "script" | "pipeline"> {
  const send = (what: pg.QueryConfig) => {
    if (client.pipeline) {
      socket.cork();
      queueMicrotask(() => socket.uncork());
    }
    return client.query(what);
  };
  return {
    query: (sql, values, name) => {
      const bound = values === undefined ? {} : { values: [...values] };
      return send({ text: sql, ...bound, ...(name === undefined ? {} : { name }) });
    },
    script: async (sql) => {
      // The driver resolves to a list for several statements, although its types do not say so.
      const found: pg.QueryResult | pg.QueryResult[] = await send({ text: sql });
      return Array.isArray(found) ? found : [found];
    },
    pipeline: () => void Object.assign(client, { pipeline: true }),
  };
}

/**
 * Splits an address into fields of the driver, which would prefer an address without a password to the option
 * `password`.
 */
function connectionParts(url: string): pg.ClientConfig {
  const { hostname, port, username, pathname, searchParams } = new URL(url);
  return {
    host: searchParams.get("host") ?? hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || DEFAULT_PORT),
    database: decodeURIComponent(pathname.slice(1)),
    ...(username === "" ? {} : { user: decodeURIComponent(username) }),
  };
}

const DEFAULT_PORT = 5432;

/**
 * Whether the session uses TLS with a verified name: always to another machine, on this one if an authority is given.
 */
export function isEncrypted(url: string, ca: string | undefined): boolean {
  const { hostname, searchParams } = new URL(url);
  if (searchParams.has("host")) return false;
  return ca !== undefined || !/^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}
