// One session with a PostgreSQL server, and what its errors mean for a caller.

import { AgentError, type ErrorSubject, isAway, messageOf } from "../../domain/error.ts";
import type { Now } from "../../domain/instant.ts";
import pg from "pg";

// @ts-types="@types/pg"

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
  /** Of the session that listens, which no pooler may share; the same unless given. */
  readonly noticesUrl?: string;
  /** Of the user in the address. */
  readonly password?: string;
  /** Certificate of the authority that signed the server's, PEM; those of the system unless given. */
  readonly ca?: string;
  /** Milliseconds after which a call that was not answered fails. */
  readonly deadlineMs: number;
  /** Called when the tables turn out to be of a version that this program cannot use. */
  readonly unusable?: (error: AgentError) => void;
  /** The clock by which leases end and jobs are due; the server's unless given. */
  readonly now?: Now;
}

/** What a statement has found or changed. */
export type SessionResult = Pick<pg.QueryResult, "rows" | "rowCount">;

/** A session that is open on the server. */
export interface ServerSession {
  /** @param name of the statement, whose plan the server is to keep */
  query(sql: string, values?: readonly BoundValue[], name?: string): Promise<SessionResult>;
  /** Runs several statements without values. */
  script(sql: string): Promise<SessionResult[]>;
  /**
   * From now on statements are sent without waiting for the answers to those before them, those of one turn of the
   * event loop in one write: each write costs as much as what it sends.
   */
  pipeline(): void;
  /** The process that serves it, as its other side says. */
  readonly pid: number | null;
  /** Ends it without asking the server. */
  destroy(): void;
  readonly broken: boolean;
}

/** States of PostgreSQL's errors after which the same transaction may succeed: two of them met. */
const LOCKED = new Set(["40001", "40P01", "55P03"]);
/** The same for rows that another agent has just written or removed: what still stands then is a defect. */
const CROSSED = new Set(["23503", "23505"]);
/** The state of an error for a role that was not granted what it does. */
const NOT_ALLOWED = "42501";
/** A row changed after it was read, by another agent's write. Repeat the transaction. */
export class Changed extends Error {}

/** The connection of a transaction broke. */
export class Broken extends Error {}

const types = new pg.TypeOverrides();
// Counts and ids stay far below 2 ** 53.
types.setTypeParser(pg.types.builtins.INT8, Number);

/**
 * Opens a session.
 * @param leftMs milliseconds for it
 * @param noticed called with each notice of a channel that the session listens to, and the process that sent it
 * @throws {Error} the driver's, when the server does not take it
 */
export async function openSession(
  { url, password, ca }: ServerOptions,
  leftMs: number,
  noticed: (notice: string, pid: number) => void = () => {},
): Promise<ServerSession> {
  const { Socket } = await import("node:net");
  // One of our own, since the driver's own end() waits for the server to answer.
  const socket = new Socket();
  const client = new pg.Client({
    ...placeOf(url),
    ...(password === undefined ? {} : { password }),
    // Without a verified name, anyone on the way could be the server.
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
 * Opens a session, trying again until the deadline: a server that starts refuses at first.
 * @param goesOn whether to try again after an error
 * @throws {Error} as the first attempt, or the one after which it was not to try again
 */
export async function openedBy<Session>(
  deadlineMs: number,
  open: (leftMs: number) => Promise<Session>,
  goesOn: (error: unknown) => boolean,
): Promise<Session> {
  let why: unknown;
  for (let pauseMs = 50;; pauseMs = Math.min(pauseMs * 2, 1000)) {
    try {
      return await open(deadlineMs - performance.now());
    } catch (error) {
      // The last one may only say that no time was left.
      why ??= error;
      if (!goesOn(error)) throw error;
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
      // Several statements have several results, whatever the driver's types say.
      const found: pg.QueryResult | pg.QueryResult[] = await send({ text: sql });
      return Array.isArray(found) ? found : [found];
    },
    pipeline: () => void Object.assign(client, { pipeline: true }),
  };
}

/** The parts of an address. The driver would prefer an address without password to a password beside it. */
function placeOf(url: string): pg.ClientConfig {
  const { hostname, port, username, pathname, searchParams } = new URL(url);
  return {
    host: searchParams.get("host") ?? hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || DEFAULT_PORT),
    database: decodeURIComponent(pathname.slice(1)),
    ...(username === "" ? {} : { user: decodeURIComponent(username) }),
  };
}

const DEFAULT_PORT = 5432;

/** Whether a server must prove its name by TLS: always beyond this machine, on it where an authority is given. */
export function isEncrypted(url: string, ca: string | undefined): boolean {
  const { hostname, searchParams } = new URL(url);
  if (searchParams.has("host")) return false;
  return ca !== undefined || !/^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}

/** Whether the same transaction may succeed when it is run again. */
export function isMeeting(error: unknown): boolean {
  return error instanceof Changed || LOCKED.has(stateOf(error) ?? "") ||
    CROSSED.has(stateOf(error) ?? "");
}

/** The SQLSTATE of an error of the server. */
export function stateOf(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined;
}

/**
 * Whether the server will never take what was to be written.
 * @see the table of error codes in PostgreSQL's manual: class 22 are data exceptions, 23 violated constraints
 */
export function isBadData(error: unknown): boolean {
  return /^2[23]/.test(stateOf(error) ?? "");
}

/**
 * The error for a caller: of a full disk, or of a server that refuses or ends what it does.
 * @see the table of error codes in PostgreSQL's manual: class 53 is a lack of resources, 57 an operator
 */
export function named(error: unknown): unknown {
  const state = stateOf(error);
  if (state === "53100") {
    return new AgentError("storage_full", "Cannot write to the store: its disk is full", {
      cause: error,
    });
  }
  if (state === NOT_ALLOWED) {
    const words =
      `${messageOf(error)}; expected the owner of the tables for \`zonewright db migrate\`, ` +
      "and its --agent-role for an agent";
    return new AgentError("internal", `Cannot use the database: ${words}`, { cause: error });
  }
  const isAway = state === "57014" || state?.startsWith("57P") === true || state === "53300" ||
    state === "25006";
  return isAway || LOCKED.has(state ?? "") ? away(error) : error;
}

/** The error for a caller whom the server does not answer. */
export function away(cause: unknown): AgentError {
  if (cause instanceof AgentError) return cause;
  return notReached(whyAway(cause), cause);
}

function notReached(why: string, cause?: unknown): AgentError {
  const message = `Cannot reach the database: ${why}`;
  return overloaded(message, { cause, about: { kind: "database" } });
}

function whyAway(cause: unknown): string {
  const wrong = wrongSetting(cause);
  return wrong === undefined ? ownWords(cause) : `${ownWords(cause)}: expected ${wrong}`;
}

/** What the driver says without a password that the server asks for. */
const ASKS_FOR_PASSWORD = /\bclient password must be\b/;

function ownWords(cause: unknown): string {
  const said = messageOf(cause);
  if (ASKS_FOR_PASSWORD.test(said)) return "the server asks for a password";
  // Who ended it, the driver does not say: the server, or the agent after its deadline.
  if (/^(?:Connection terminated|timeout expired)/.test(said)) {
    return "the server did not answer in time, or hung up";
  }
  const [, refusing] = /^connect ECONNREFUSED (.+)$/.exec(said) ?? [];
  if (refusing !== undefined) return `no server listens at ${refusing}`;
  const [, unknown] = /^getaddrinfo \w+ (.+)$/.exec(said) ?? [];
  if (unknown !== undefined) return `no address is known for ${unknown}`;
  // The driver names the call alone: connect ENOENT /run/postgresql/.s.PGSQL.5432
  const [, socket] = /^connect ENOENT (.+)$/.exec(said) ?? [];
  return socket === undefined ? said : `no server listens on the socket ${socket}`;
}

/**
 * What a setting must have instead where a server answers, and does not let the agent in; undefined for any other
 * error.
 * @see the table of error codes in PostgreSQL's manual: class 28, and 3D000
 */
export function wrongSetting(error: unknown): string | undefined {
  const state = stateOf(error);
  if (state === "28P01" || ASKS_FOR_PASSWORD.test(messageOf(error))) {
    return "the user's password in store_password_file";
  }
  // PgBouncer has one state for whatever it refuses, with the words of the server.
  const pooled = state === "08P01" ? messageOf(error) : "";
  if (state?.startsWith("28") === true || POOLED_USER.test(pooled)) {
    return "a user in store whom the server admits";
  }
  const isMissing = state === "3D000" || POOLED_DATABASE.test(pooled);
  return isMissing ? "an existing database in store" : undefined;
}

const POOLED_USER = /^role .* does not exist$|authentication failed/;
const POOLED_DATABASE = /^database .* does not exist$/;

/** Whether a call failed since no server answered it; one that does not let the agent in answers. */
export function isUnanswered(error: unknown): boolean {
  return error instanceof AgentError && isAway(error) && wrongSetting(error.cause) === undefined;
}

/** Nothing is known to be written, and the same call may succeed soon. */
export function overloaded(
  message: string,
  more: { readonly cause?: unknown; readonly about?: ErrorSubject } = {},
): AgentError {
  return new AgentError("overloaded", message, { ...more, retryAfterSeconds: 1 });
}

/** The error of every call after close(). */
export function closed(): AgentError {
  return new AgentError("aborted", "Cannot use the store: it is closed");
}

// Whether the server answers. After a call that was not answered in time the server is probed by a session of its own;
// while that is not answered either, it counts as away: calls are refused at once, so that nobody waits for each of
// them, and only the probe is repeated.

/** Milliseconds between two probes. */
const PAUSE_MS = 500;
/** The part of the deadline within which a question must be answered. */
const ASK_SHARE = 2;

/** Who hears of it. */
interface ReachOptions {
  /** Called when the server answers again. */
  readonly returned: () => void;
  /** Whether the store is still open: no question is put otherwise. */
  readonly open: () => boolean;
}

/** The knowledge of one agent about its server. */
export class ServerReach {
  readonly #server: ServerOptions;
  readonly #options: ReachOptions;
  #reason: string | undefined;
  #heardAtMs = performance.now();
  #asking: Promise<void> | undefined;

  constructor(server: ServerOptions, options: ReachOptions) {
    this.#server = server;
    this.#options = options;
  }

  /** Whether the server is away. */
  get away(): boolean {
    return this.#reason !== undefined;
  }

  /** Milliseconds since the server last answered. */
  get silentMs(): number {
    return performance.now() - this.#heardAtMs;
  }

  /** @throws {AgentError} `overloaded` while the server is away */
  require(): void {
    if (this.#reason !== undefined) {
      throw notReached(this.#reason);
    }
  }

  /** The server has answered. */
  heard(): void {
    this.#heardAtMs = performance.now();
  }

  /** A call was not answered in time. */
  missed(): void {
    this.#asking ??= this.#askUntilHeard().finally(() => this.#asking = undefined);
  }

  /** Settles when no question is under way; ask for it once the store is closed. */
  async ended(): Promise<void> {
    await this.#asking;
  }

  async #askUntilHeard(): Promise<void> {
    while (this.#options.open()) {
      try {
        await this.#ask();
        this.heard();
        const wasAway = this.away;
        this.#reason = undefined;
        if (wasAway) this.#options.returned();
        return;
      } catch (error) {
        this.#reason = whyAway(error);
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
  async #ask(): Promise<void> {
    const ms = this.#server.deadlineMs / ASK_SHARE;
    const session = await openSession(this.#server, ms);
    const timer = setTimeout(() => session.destroy(), ms);
    try {
      await session.script("SELECT 1");
    } finally {
      clearTimeout(timer);
      session.destroy();
    }
  }
}
