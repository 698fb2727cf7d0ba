// Every request has an id: the caller's, or a new one. It is in every response, every error body, and the log
// line of the request, if it gets one.

import type { Context, MiddlewareHandler } from "hono";
import { routePath } from "hono/route";
import { AgentError, messageOf } from "../../domain/error.ts";
import type { Instant, Now } from "../../domain/instant.ts";
import type { Log } from "../../metrics/log.ts";
import { methodName, NO_ROUTE } from "../../metrics/meters.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";
import { SWITCHING } from "../listen/listener.ts";
import { callerText, peerText } from "./caller.ts";
import { CONVENTIONS } from "./compat.ts";

const REQUEST_ID_CHARS_MAX = 128;
/** Characters of a path in a log line. */
export const PATH_CHARS_MAX = 256;
/** Characters of a method in a log line; the caller chooses it. */
export const METHOD_CHARS_MAX = 32;

/** Statuses from here on refuse a request. */
const FIRST_REFUSAL = 400;

/**
 * An unread body up to this size usually came with its head: the runtime discards it and keeps the
 * connection.
 */
const DISCARDED_BYTES_MAX = 8 * 1024;

/**
 * A caller's id without the characters that could forge a header or a log line; undefined when nothing is
 * left.
 */
export function cleanRequestId(sent: string | null | undefined): string | undefined {
  const clean = (sent ?? "").replace(/[^\w.:@/+=-]/g, "").slice(0, REQUEST_ID_CHARS_MAX);
  return clean === "" ? undefined : clean;
}

function sentRequestId(c: Context<HttpEnv>): string | undefined {
  return cleanRequestId(c.req.header("x-request-id") ?? c.req.header("request-id"));
}

/** Gives the request its id and logs its answer. It comes before everything that may refuse the request. */
export function identified(
  { log, newUuid, wording }: Pick<ServedAgent, "log" | "newUuid" | "wording">,
  lines: AccessLines,
): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const sent = sentRequestId(c);
    const request_id = sent ?? newUuid();
    c.set("request_id", request_id);
    const startMs = performance.now();
    await next();
    // An unknown remote caller gets one answer per connection: see connection_watch.ts about callers that
    // read nothing.
    if (c.env?.secure === true && c.get("caller") === undefined) {
      c.res.headers.set("connection", "close");
    }
    // The runtime closes the connection of a large body that was not read; a caller that reuses connections
    // must not send its next request on it (RFC 9112, section 9.6).
    const { headers } = c.req.raw;
    const isLast = c.res.status >= FIRST_REFUSAL && isBodyLeft(c.req.raw);
    // Deno's answer to a WebSocket cannot be changed.
    if (c.res.status === SWITCHING) return logAnswer(log, lines, c, performance.now() - startMs);
    // The runtime hides a Content-Length that follows a Transfer-Encoding, so what is next on the connection may be
    // part of this body to a proxy (RFC 9112, section 6.3).
    if (isLast || headers.has("transfer-encoding")) c.res.headers.set("connection", "close");
    if (c.req.method === "HEAD") await setLength(c.res);
    c.res.headers.set("x-request-id", request_id);
    if (sent !== undefined && CONVENTIONS[wording].namesAnswers) {
      c.res.headers.set("request-id", sent);
    }
    // Keeps browsers from guessing a type other than JSON.
    c.res.headers.set("x-content-type-options", "nosniff");
    logAnswer(log, lines, c, performance.now() - startMs);
  };
}

function isBodyLeft({ headers, bodyUsed }: Request): boolean {
  return !bodyUsed && Number(headers.get("content-length") ?? 0) > DISCARDED_BYTES_MAX;
}

function logAnswer(log: Log, lines: AccessLines, c: Context<HttpEnv>, ms: number): void {
  const { method } = c.req;
  const read = c.error === undefined && (method === "GET" || method === "HEAD");
  const caller = { who: callerText(c.get("caller")), peer: peerText(c.env?.remote) };
  // A defect always gets its own line.
  if (!read && c.res.status !== 500 && !lines.answered(caller, c.res.status)) return;
  const fields = {
    request_id: c.get("request_id"),
    method: method.slice(0, METHOD_CHARS_MAX),
    path: c.req.path.slice(0, PATH_CHARS_MAX),
    status: c.res.status,
    ms: Math.round(ms * 10) / 10,
  };
  if (read) log.debug("request answered", fields);
  else if (c.error === undefined) log.info("request answered", fields);
  else if (isAborted(c.error, c.req.raw.signal)) {
    log.info("request aborted", { ...fields, code: "aborted", reason: c.error.message });
  } else if (c.res.status >= 500) log.error("request failed", { ...fields, ...causes(c.error) });
  else log.info("request refused", { ...fields, reason: c.error.message });
}

/** Whether a request ended because its caller hung up, which is not a failure of the agent. */
function isAborted(error: Error, caller: AbortSignal): boolean {
  if (!caller.aborted) return false;
  return error.name === "AbortError" || error instanceof AgentError && error.code === "aborted";
}

/** What the log shows of an error: its cause, and the stack of a defect. */
function causes(error: Error): Record<string, unknown> {
  const cause = error.cause === undefined ? {} : { cause: messageOf(error.cause) };
  const known = error instanceof AgentError && error.code !== "internal";
  return { error: error.message, ...cause, ...(known ? {} : { stack: error.stack }) };
}

// HEAD is answered like GET without the body. Hono runs the handler of GET and drops its body; its length is
// set here before, and server.ts keeps Deno from setting another.

const LENGTH = "content-length";
/** Statuses whose answers have no body to GET either. */
const BODILESS = [204, 304];

/** Sets the length of the body that HEAD leaves out; that of a partial list is unknown. */
async function setLength(answer: Response): Promise<void> {
  if (answer.body === null || answer.headers.has(LENGTH)) return;
  const { byteLength } = await answer.arrayBuffer();
  answer.headers.set(LENGTH, String(byteLength));
}

/**
 * An answer to HEAD that Deno leaves alone. It would add `content-length: 0` to one without a body, which is
 * wrong where GET has one.
 */
export function headAnswer(response: Response): Response {
  if (response.headers.has(LENGTH) || BODILESS.includes(response.status)) return response;
  return new Response(new Blob().stream(), response);
}

// Log lines about requests, by caller. Each request gets its own line while its caller has few; further ones
// are counted in a single line, so that no caller can fill the log.

/** Requests of one caller in a window that get their own line. */
export const CALLER_LINES_MAX = 600;
const WINDOW_MS = 60_000;
/** Callers that are counted separately; all others count as one. */
const CALLERS_MAX = 256;
/** Statuses that are counted separately. */
const STATUSES_MAX = 32;
/** Kinds of audited calls that are counted separately; all others count as one. */
const KINDS_MAX = 32;
const OTHER_KINDS = "others";

/** The caller as log lines name it. */
interface LineCaller {
  readonly who: string;
  readonly peer: string;
}

const OTHERS: LineCaller = { who: "others", peer: "others" };

/** Decides which requests get their own line; others are counted. */
export interface AccessLines {
  /** Whether this answer gets its own line. */
  answered(caller: LineCaller, status: number): boolean;
  /**
   * Whether this audited call gets its own line.
   * @param kind method and route; see {@linkcode callKind}
   */
  audited(caller: LineCaller, kind: string): boolean;
  /** Writes the lines of counted requests. */
  flush(): void;
}

interface Window {
  readonly caller: LineCaller;
  readonly since: Instant;
  readonly sinceMs: number;
  /** Lines of this caller that were written singly in this window. */
  lines: number;
  /** Calls that were only counted, by kind. */
  readonly audited: Map<string, number>;
  readonly statuses: Map<number, number>;
}

/** The route that answered: its pattern, never a path, so that there are only as many as routes. */
export function answeredRoute(c: Context<HttpEnv>): string {
  // The path of the last handler; middleware is registered for every path.
  const path = routePath(c).replaceAll(/\{[^{}]*\}/g, "");
  return path === "*" || path === "/*" || path === "" ? NO_ROUTE : path;
}

/** The method and the route of an answered call. */
export function callKind(c: Context<HttpEnv>): string {
  return `${methodName(c.req.method)} ${answeredRoute(c)}`;
}

/** @param nowMs a monotonic clock */
export function openAccessLines(
  log: Log,
  now: Now,
  nowMs: () => number = () => performance.now(),
): AccessLines {
  const windows = openWindows(log, now, nowMs);
  /** The window that counts a request; undefined for a single line. */
  const countingFor = (caller: LineCaller): Window | undefined => {
    const window = windows.of(caller);
    if (window.lines < CALLER_LINES_MAX) {
      window.lines += 1;
      return undefined;
    }
    if (log.leftOut !== undefined) log.leftOut.caller += 1;
    windows.endLater();
    return window;
  };
  return {
    answered(caller, status) {
      const window = countingFor(caller);
      if (window === undefined) return true;
      count(window.statuses, status, STATUSES_MAX, 0);
      return false;
    },
    audited(caller, kind) {
      const window = countingFor(caller);
      if (window === undefined) return true;
      count(window.audited, kind, KINDS_MAX, OTHER_KINDS);
      return false;
    },
    flush: windows.endAll,
  };
}

/** The windows of callers; each ends with a line if it has counted any. */
interface Windows {
  of(caller: LineCaller): Window;
  /** Ends windows on time, even without further calls. */
  endLater(): void;
  endAll(): void;
}

function openWindows(log: Log, now: Now, nowMs: () => number): Windows {
  /** By caller, in order of their start: the oldest ends first. */
  const windows = new Map<string, Window>();
  let ending: ReturnType<typeof setTimeout> | undefined;
  const end = (ageMs: number) => {
    for (const [key, window] of windows) {
      const passedMs = nowMs() - window.sinceMs;
      if (passedMs < ageMs) return;
      windows.delete(key);
      if (isCounting(window)) logWindow(log, window, passedMs);
    }
  };
  const endLater = () => {
    if (ending !== undefined) return;
    ending = setTimeout(() => {
      ending = undefined;
      end(WINDOW_MS);
      if ([...windows.values()].some(isCounting)) endLater();
    }, WINDOW_MS);
    Deno.unrefTimer(ending);
  };
  const of = (caller: LineCaller): Window => {
    end(WINDOW_MS);
    const key = `${caller.who} ${caller.peer}`;
    const known = windows.get(key);
    if (known !== undefined) return known;
    if (windows.size >= CALLERS_MAX && caller !== OTHERS) return of(OTHERS);
    const window: Window = {
      caller,
      since: now(),
      sinceMs: nowMs(),
      lines: 0,
      audited: new Map(),
      statuses: new Map(),
    };
    windows.set(key, window);
    return window;
  };
  const endAll = () => {
    clearTimeout(ending);
    ending = undefined;
    end(0);
  };
  return { of, endLater, endAll };
}

/** Counts one for a key; keys beyond `max` count as `other`. */
function count<Key>(counts: Map<Key, number>, key: Key, max: number, other: Key): void {
  const counted = counts.has(key) || counts.size < max ? key : other;
  counts.set(counted, (counts.get(counted) ?? 0) + 1);
}

function total(counts: ReadonlyMap<unknown, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}

function countsText(counts: ReadonlyMap<unknown, number>): string {
  return [...counts].map(([key, count]) => `${key}: ${count}`).join(", ");
}

/** Writes the line of a window. */
function logWindow(log: Log, { caller, since, statuses, audited }: Window, passedMs: number): void {
  log.info("requests counted together", {
    ...caller,
    requests: total(statuses),
    statuses: countsText(statuses),
    calls_audited: total(audited),
    calls: countsText(audited),
    since,
    seconds: Math.ceil(passedMs / 1000),
  });
}

function isCounting({ statuses, audited }: Window): boolean {
  return statuses.size > 0 || audited.size > 0;
}
