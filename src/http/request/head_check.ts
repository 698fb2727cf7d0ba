// Whether a request is accepted by what its head says: its size, and the page it was sent for. Over TCP the
// agent serves programs, and the pages that come from itself. A page of another site that reaches 127.0.0.1
// from an administrator's browser is recognized by what the browser sends: the Host it believes it is talking
// to (DNS rebinding), its Origin, and its site. No CORS header is ever sent. On the unix socket the mode of
// the file decides instead.
//
// The application and the fast path of the index share this check; see routes/index/fast_path.ts.

import type { MiddlewareHandler } from "hono";
import { AgentError } from "../../domain/error.ts";
import type { HttpEnv } from "../served_agent.ts";
import type { HttpLimits } from "../limits.ts";

const LOOPBACK_NAMES = ["localhost", "[::1]"] as const;
/** Literal addresses of this host cannot be rebound. */
const LOOPBACK_ADDRESS = /^127(?:\.\d{1,3}){3}$/;
const HOST = /^(\[[0-9a-f:.]+\]|[^:[\]/@\s]+)(?::\d{1,5})?$/;
const SHOWN_CHARS_MAX = 100;

/** The size of a head, and the fields that are checked; null if not sent. */
interface RequestHead {
  readonly fields: number;
  /** Characters of all names and values. */
  readonly chars: number;
  readonly host: string | null;
  readonly origin: string | null;
  readonly fetchSite: string | null;
  readonly fetchMode: string | null;
  readonly authorization: string | null;
  readonly upgrade: string | null;
  readonly requestId: string | null;
  readonly match: string | null;
  readonly unmodifiedSince: string | null;
  readonly noneMatch: string | null;
  readonly modifiedSince: string | null;
  readonly acceptEncoding: string | null;
  readonly contentLength: string | null;
  readonly transferEncoding: string | null;
}

/** Reads a head in one pass: each `Headers.get` would search all fields again. */
export function readHead(headers: Headers): RequestHead {
  let [fields, chars] = [0, 0];
  let host: string | null = null;
  let origin: string | null = null;
  let fetchSite: string | null = null;
  let fetchMode: string | null = null;
  let authorization: string | null = null;
  let upgrade: string | null = null;
  let xRequestId: string | null = null;
  let requestId: string | null = null;
  let match: string | null = null;
  let unmodifiedSince: string | null = null;
  let noneMatch: string | null = null;
  let modifiedSince: string | null = null;
  let acceptEncoding: string | null = null;
  let contentLength: string | null = null;
  let transferEncoding: string | null = null;
  headers.forEach((value, name) => {
    fields += 1;
    chars += name.length + value.length;
    if (name === "host") host = value;
    else if (name === "accept-encoding") acceptEncoding = value;
    else if (name === "if-none-match") noneMatch = value;
    else if (name === "if-modified-since") modifiedSince = value;
    else if (name === "x-request-id") xRequestId = value;
    else if (name === "request-id") requestId = value;
    else if (name === "authorization") authorization = value;
    else if (name === "origin") origin = value;
    else if (name === "sec-fetch-site") fetchSite = value;
    else if (name === "sec-fetch-mode") fetchMode = value;
    else if (name === "upgrade") upgrade = value;
    else if (name === "content-length") contentLength = value;
    else if (name === "transfer-encoding") transferEncoding = value;
    else if (name === "if-match") match = value;
    else if (name === "if-unmodified-since") unmodifiedSince = value;
  });
  return {
    fields,
    chars,
    host,
    origin,
    fetchSite,
    fetchMode,
    authorization,
    upgrade,
    requestId: xRequestId ?? requestId,
    match,
    unmodifiedSince,
    noneMatch,
    modifiedSince,
    acceptEncoding,
    contentLength,
    transferEncoding,
  };
}

/** Checks the head of a request. @returns why it is refused */
type HeadCheck = (
  head: RequestHead,
  request: Request,
  from: Pick<HttpEnv["Bindings"], "remote" | "secure"> | undefined,
) => AgentError | undefined;

/** What heads are checked against. */
export interface HeadRules {
  readonly limits: Pick<HttpLimits, "headerFieldsMax" | "headerCharsMax">;
  /** Host names besides the loopback ones. */
  readonly allowedHosts: readonly string[];
}

/**
 * Refuses heads that are too large, and requests that a foreign web page may have made. On the unix socket
 * the second check is skipped: a Host is refused only if it would change the path.
 */
export function openHeadCheck({ limits, allowedHosts }: HeadRules): HeadCheck {
  const { headerFieldsMax, headerCharsMax } = limits;
  const names = new Set<string>(LOOPBACK_NAMES);
  for (const host of allowedHosts) names.add(host.toLowerCase());
  return (head, request, from) => {
    // The runtime accepts about a hundred fields and answers more with 431 and no body. These limits are
    // lower, and are answered like every other refusal (RFC 6585, section 5).
    if (head.fields > headerFieldsMax) {
      return tooLarge(`it has more than ${headerFieldsMax} header fields`);
    }
    if (head.chars > headerCharsMax) {
      return tooLarge(`its header is over ${headerCharsMax} characters`);
    }
    // A proxy that goes by the other one sees another end of this request (RFC 9112, section 6.3).
    if (head.contentLength !== null && head.transferEncoding !== null) {
      return malformed("it has Content-Length and Transfer-Encoding, expected one of them");
    }
    // The scheme of the URL proves nothing: a client on TCP can put any into its request line.
    if (from?.remote?.transport === "unix") return misleadingHost(head);
    return foreignCall(head, request, names, from?.secure);
  };
}

/** Refuses requests by their heads, before anything else of them is read. */
export function headChecked(rules: HeadRules): MiddlewareHandler<HttpEnv> {
  const check = openHeadCheck(rules);
  return (c, next) => {
    // Hono leaves `env` out when the application is called without one.
    const refusal = check(readHead(c.req.raw.headers), c.req.raw, c.env);
    if (refusal !== undefined) throw refusal;
    return next();
  };
}

/**
 * `malformed` for a Host that gives the URL another path or query than the request line has. No other Host
 * matters on the unix socket, and many clients send an empty one.
 */
function misleadingHost({ host }: RequestHead): AgentError | undefined {
  if (host === null || !/[/?#\\]/.test(host)) return undefined;
  return malformed(`Host is ${shown(host)}, expected the name of a host`);
}

/** `malformed` without a Host, `forbidden` for a request from a foreign page. */
function foreignCall(
  { host: sent, origin: sentOrigin, fetchSite, fetchMode }: RequestHead,
  request: Request,
  names: ReadonlySet<string>,
  secure = false,
): AgentError | undefined {
  const host = (sent ?? hostOfUrl(request, secure))?.toLowerCase();
  if (host === undefined) {
    return malformed("it has no header Host, expected one");
  }
  const name = HOST.exec(host)?.[1] ?? "";
  if (!names.has(name) && !LOOPBACK_ADDRESS.test(name)) {
    const expected = "expected a name of this host or one of the setting allow_host";
    return forbidden(`Host is ${shown(host)}, ${expected}`);
  }
  const origin = sentOrigin?.toLowerCase();
  if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`) {
    const own = [`http://${host}`, `https://${host}`].map(shown).join(" or ");
    return forbidden(`Origin is ${shown(origin)}, expected the agent's own: ${own}`);
  }
  // A link on another site to one of the agent's pages may be followed.
  const followsLink = fetchMode === "navigate" && request.method === "GET";
  if ((fetchSite === "cross-site" || fetchSite === "same-site") && !followsLink) {
    return forbidden("it was sent for a page of another site, expected one of the agent's own");
  }
  return undefined;
}

/** The host that the caller believes it is talking to. */
export function hostOf(request: Request, secure = false): string | undefined {
  return request.headers.get("host") ?? hostOfUrl(request, secure);
}

/** HTTP/2, which is spoken over TLS, has no Host header: its `:authority` is in the URL. */
function hostOfUrl({ url }: Request, secure: boolean): string | undefined {
  return secure ? new URL(url).host : undefined;
}

function tooLarge(reason: string): AgentError {
  return new AgentError("head_too_large", `Cannot accept the request: ${reason}`);
}

function malformed(reason: string): AgentError {
  return new AgentError("malformed", `Cannot accept the request: ${reason}`);
}

function forbidden(reason: string): AgentError {
  return new AgentError("forbidden", `Cannot accept the request: ${reason}`);
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, SHOWN_CHARS_MAX));
}
