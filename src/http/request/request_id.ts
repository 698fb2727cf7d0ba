// Every request has an id: the caller's, or a new one. It is in every response, every error body, and the log
// line of the request, if it gets one.

import type { Context, MiddlewareHandler } from "hono";
import { AgentError, messageOf } from "../../domain/error.ts";
import type { Log } from "../../metrics/log.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";
import { SWITCHING } from "../listen/listener.ts";
import { callerText, peerText } from "../caller.ts";
import { CONVENTIONS } from "./compat.ts";
import type { AccessLines } from "./access_lines.ts";

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

const LENGTH = "content-length";
/** Statuses whose answers have no body to GET either. */
const BODILESS = [204, 304];

/**
 * Sets the length of the body that an answer to HEAD leaves out; that of a partial list is unknown.
 * Hono runs the handler of GET and drops its body, and server.ts keeps Deno from setting another
 * length.
 */
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
