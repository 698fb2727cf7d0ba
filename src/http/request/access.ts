// Authenticates callers and checks their rights. On the unix socket and on loopback, every caller is an
// administrator unless the agent requires a token. A token that is sent always counts, so a caller may choose
// to have fewer rights.

import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import type { Context, MiddlewareHandler } from "hono";
import { bytesOfHex } from "../../domain/bytes.ts";
import { AgentError } from "../../domain/error.ts";
import { isTokenText, type Token } from "../../domain/token.ts";
import type { Log } from "../../metrics/log.ts";
import { type ConsoleTickets, type ShownTicket, shownTicket } from "../console/tickets.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";
import type { HttpLimits } from "../limits.ts";
import { withSignedBody } from "../peers/check.ts";
import { type AcceptedCall, type Access, type Caller, isStillGood, peerText } from "../caller.ts";
import { readBytes } from "./body.ts";
import { type BrowserSession, CSRF_HEADER, type Sessions, showsCsrf } from "./sessions.ts";

/**
 * GETs for administrators only: they show a secret, give access to a machine's keyboard, or start processes.
 */
const ADMIN_READ = /^\/agent\/v1\/(?:machines\/[^/]+\/(?:vnc|console)|doctor)$/;
const READING = ["GET", "HEAD"];
/** Paths that load balancers and supervisors may use without a token; the answer is one word. */
const PROBES = ["/healthz", "/readyz"];
/** The path of the web console, which holds no secret; each of its views has a path below it. */
export const UI_PATH = "/ui";
/** The path where browsers sign in and out. */
export const SESSION_PATH = "/agent/v1/session";
/** Credentials of other schemes are for a proxy between the caller and the agent. */
const BEARER = /^bearer(?: +(.*))?$/i;
/** The same for every invalid ticket, so that it does not reveal what is wrong. */
const BAD_TICKET =
  "the ticket is not known: it was used, has expired, or belongs to another machine";
/** Milliseconds between two log lines about refused tokens. */
const REFUSAL_LOG_EVERY_MS = 10_000;

/** Whether a request changes something, or shows what would allow that. */
export function needsAdmin(method: string, path: string, headers: Headers): boolean {
  return !READING.includes(method) || ADMIN_READ.test(path) || headers.has("upgrade");
}

/** Identifies the caller, and refuses one without access. Comes after the checks of Host and Origin. */
export function admitted(
  access: Access,
  tickets: ConsoleTickets,
  sessions: Sessions,
  { log, peers, limits }: Pick<ServedAgent, "log" | "peers" | "limits">,
): MiddlewareHandler<HttpEnv> {
  const logFailure = openFailureLog(access, log);
  return async (c, next) => {
    const remote = c.env?.remote;
    const call = peers === undefined
      ? undefined
      : await peers.check(c.req.raw).catch((error: unknown) => {
        if (error instanceof AgentError) logFailure(remote, error.message);
        throw error;
      });
    if (call !== undefined) {
      await acceptCall(c, call, limits);
      return await next();
    }
    const shown = BEARER.exec(c.req.header("authorization")?.trim() ?? "");
    const ticket = shownTicket(c.req.raw, c.req.path);
    const session = shown === null && c.req.raw.headers.has("cookie")
      ? await sessions.of(c.req.raw, c.env?.secure ?? false)
      : undefined;
    if (shown !== null) {
      const token = await tokenOf(shown[1] ?? "", await access.tokens());
      if (token === undefined) {
        logFailure(remote, "it is not known");
        throw unauthorized("the bearer token is unknown or was revoked");
      }
      c.set("caller", { kind: "token", name: token.name, scope: token.scope });
      refuseBeyond(token, c.req.raw, c.req.path);
    } else if (session !== undefined && await isStillGood(callerIn(session), access)) {
      c.set("caller", callerIn(session));
      refuseForged(session, c.req.raw, c.req.path);
      refuseBeyond(session.token, c.req.raw, c.req.path);
    } else {
      const wanted = access.requiresToken(remote);
      if (ticket === undefined && wanted && !isOpen(c.req.raw, c.req.path)) {
        logFailure(remote, "none was sent");
        throw unauthorized("a bearer token is required and none was sent");
      }
      // A caller with an invalid ticket is unknown even where no token is required; so is a probe.
      if (ticket === undefined && !wanted) {
        c.set("caller", { kind: remote?.transport === "unix" ? "socket" : "loopback" });
      }
    }
    if (ticket !== undefined) {
      const maker = await makerOf(ticket, access, tickets);
      if (maker === undefined) {
        logFailure(remote, "the ticket is not known");
        throw new AgentError("forbidden", "Cannot open the console: " + BAD_TICKET);
      }
      c.set("caller", { kind: "ticket", maker });
    }
    await next();
  };
}

/** The call of another agent, for one of its callers. */
async function acceptCall(
  c: Context<HttpEnv>,
  { from, sha256 }: AcceptedCall,
  { bodySeconds: secondsMax }: Pick<HttpLimits, "bodySeconds">,
): Promise<void> {
  c.set("caller", { kind: "host", from });
  refuseBeyond({ name: `of host ${from.host.name}`, scope: from.scope }, c.req.raw, c.req.path);
  c.req.raw = await withSignedBody(
    c.req.raw,
    sha256,
    ({ body }, bytesMax) => readBytes(body, { bytesMax, secondsMax, keeps: true }),
  );
}

/** Whether a caller without a token is answered: probes, the page of the console, and its sign-in. */
function isOpen(request: Request, path: string): boolean {
  const { method, headers } = request;
  if (path === SESSION_PATH) return true;
  const page = path === UI_PATH || path.startsWith(`${UI_PATH}/`) || asksForPage(request, path);
  return (page || PROBES.includes(path)) && !needsAdmin(method, path, headers);
}

/** Whether a request is a browser's for `/`: browsers list HTML among what they accept, programs do not. */
export function asksForPage({ method, headers }: Request, path: string): boolean {
  return method === "GET" && path === "/" &&
    (headers.get("accept")?.includes("text/html") ?? false);
}

/** Characters of a path that an error shows. */
const PATH_SHOWN_CHARS_MAX = 200;

/** A path as errors show it. */
export function quotedPath(path: string): string {
  return JSON.stringify(path.slice(0, PATH_SHOWN_CHARS_MAX));
}

function callerIn({ token, stands }: BrowserSession): Caller {
  return { kind: "token", ...token, stands };
}

/** Refuses what the scope of a token does not allow. @throws {AgentError} `forbidden` */
function refuseBeyond(
  { name, scope }: BrowserSession["token"],
  { method, headers }: Request,
  path: string,
): void {
  if (scope !== "read" || path === SESSION_PATH || !needsAdmin(method, path, headers)) return;
  const message = `Cannot ${method} ${
    quotedPath(path)
  }: the scope of token ${name} is "read", expected "admin"`;
  throw new AgentError("forbidden", message, { about: { kind: "token", name } });
}

/**
 * Refuses a change that was not sent by a page of the session. A sign-in shows a token instead.
 * @throws {AgentError} `forbidden`
 */
function refuseForged(session: BrowserSession, { method, headers }: Request, path: string): void {
  if (READING.includes(method) || (path === SESSION_PATH && method === "POST")) return;
  const shown = headers.get(CSRF_HEADER) ?? undefined;
  if (showsCsrf(session, shown)) return;
  // Not quoted: it may be that of another session.
  const found = shown === undefined ? "is missing" : "is not that of the session";
  const message = `Cannot ${method} ${quotedPath(path)} with a session: ${CSRF_HEADER} ${found}, ` +
    `expected csrf of GET ${SESSION_PATH}`;
  throw new AgentError("forbidden", message);
}

/** Uses up a ticket, which is invalid once its maker's token is revoked. */
async function makerOf(
  { ticket, uuid }: ShownTicket,
  access: Access,
  tickets: ConsoleTickets,
): Promise<Caller | undefined> {
  const maker = await tickets.take(ticket, uuid);
  return maker !== undefined && await isStillGood(maker, access) ? maker : undefined;
}

function unauthorized(why: string): AgentError {
  return new AgentError("unauthorized", `Cannot accept the request: ${why}`);
}

/**
 * The token that has this text. Every digest is compared, in constant time, so nothing is revealed of any
 * token.
 */
export async function tokenOf(text: string, tokens: readonly Token[]): Promise<Token | undefined> {
  // The form of a token is not a secret.
  if (!isTokenText(text)) return undefined;
  const digest = new Uint8Array(
    await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)),
  );
  let found: Token | undefined;
  for (const token of tokens) {
    if (timingSafeEqual(digest, bytesOfHex(token.sha256))) found = token;
  }
  return found;
}

/** Counts refused tokens, and logs them from time to time, so that a flood does not fill the log. */
function openFailureLog(
  access: Access,
  log: Log,
): (remote: Deno.Addr | undefined, why: string) => void {
  let total = 0;
  let unlogged = 0;
  let loggedAtMs: number | undefined;
  return (remote, why) => {
    total += 1;
    unlogged += 1;
    const nowMs = access.nowMs();
    if (loggedAtMs !== undefined && nowMs - loggedAtMs < REFUSAL_LOG_EVERY_MS) return;
    loggedAtMs = nowMs;
    log.warn("tokens refused", { count: unlogged, total, last_peer: peerText(remote), why });
    unlogged = 0;
  };
}
