// Who calls, and what they may do. On the unix socket and on loopback everybody who gets through is an
// administrator unless the agent requires a token; a token that is shown is judged in any case, so that
// a caller may choose to have less than it could.

import type { MiddlewareHandler } from "hono";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { AgentError } from "../../domain/error.ts";
import { isTokenText, type Token } from "../../domain/token.ts";
import type { Log } from "../../metrics/log.ts";
import type { HttpEnv } from "../context.ts";
import { type Access, type Caller, isStillGood, peerText } from "./caller.ts";
import { type ConsoleTickets, type ShownTicket, shownTicket } from "../console/tickets.ts";

/** GET that shows a secret or gives the keyboard of a machine: not for the scope `read`. */
const ADMIN_READ = /^\/agent\/v1\/machines\/[^/]+\/(?:vnc|console)$/;
const READING = ["GET", "HEAD"];
/** What load balancers and supervisors ask, who carry no token; they learn one word. */
const PROBES = ["/healthz", "/readyz"];
/** Schemes besides this one belong to something between the caller and the agent. */
const BEARER = /^bearer(?: +(.*))?$/i;
/** All that is told of a ticket that is no good: which of it is true is nobody's business. */
const BAD_TICKET = "the ticket is not known: it was used, has expired, or is another machine's";
/** Milliseconds between two lines of the log about tokens that were refused. */
const TELL_EVERY_MS = 10_000;

/** Whether a request changes something, or shows what is as good as changing it. */
export function needsAdmin(method: string, path: string, headers: Headers): boolean {
  return !READING.includes(method) || ADMIN_READ.test(path) || headers.has("upgrade");
}

/** Finds out who calls, and refuses those who may not. Comes after the checks of Host and Origin. */
export function admitted(
  access: Access,
  tickets: ConsoleTickets,
  log: Log,
): MiddlewareHandler<HttpEnv> {
  const tellFailure = openFailureLog(access, log);
  return async (c, next) => {
    const remote = c.env?.remote;
    const shown = BEARER.exec(c.req.header("authorization")?.trim() ?? "");
    const ticket = shownTicket(c.req.raw, c.req.path);
    if (shown === null) {
      const wanted = access.wantsToken(remote);
      if (ticket === undefined && wanted && !isProbe(c.req.raw, c.req.path)) {
        tellFailure(remote, "none was sent");
        throw unauthorized("a bearer token is required and none was sent");
      }
      // Who shows a ticket that is no good is nobody, also where others are let in; so is a probe.
      if (ticket === undefined && !wanted) {
        c.set("caller", { kind: remote?.transport === "unix" ? "socket" : "loopback" });
      }
    } else {
      const token = await tokenOf(shown[1] ?? "", await access.tokens());
      if (token === undefined) {
        tellFailure(remote, "it is not known");
        throw unauthorized("the bearer token is not known, or was revoked");
      }
      c.set("caller", { kind: "token", name: token.name, scope: token.scope });
      if (token.scope === "read" && needsAdmin(c.req.method, c.req.path, c.req.raw.headers)) {
        const message =
          `Cannot ${c.req.method} this: the scope of token ${token.name} is "read", ` +
          'expected "admin"';
        throw new AgentError("forbidden", message);
      }
    }
    if (ticket !== undefined) {
      const maker = await makerOf(ticket, access, tickets);
      if (maker === undefined) {
        tellFailure(remote, "the ticket is not known");
        throw new AgentError("forbidden", "Cannot open the console: " + BAD_TICKET);
      }
      c.set("caller", { kind: "ticket", maker });
    }
    await next();
  };
}

function isProbe({ method, headers }: Request, path: string): boolean {
  return PROBES.includes(path) && !needsAdmin(method, path, headers);
}

/** Uses a ticket up. One whose maker's token was revoked meanwhile is worth no more than that. */
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
 * The token that a text is. Every digest is compared, to its end: how long it takes tells nothing of
 * any token, or of which one it was.
 */
async function tokenOf(text: string, tokens: readonly Token[]): Promise<Token | undefined> {
  // Of a text that cannot be a token only the form is looked at, which is no secret.
  if (!isTokenText(text)) return undefined;
  const digest = new Uint8Array(
    await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)),
  );
  let found: Token | undefined;
  for (const token of tokens) {
    if (timingSafeEqual(digest, bytesOf(token.sha256))) found = token;
  }
  return found;
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(
    { length: hex.length / 2 },
    (_, at) => Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16),
  );
}

/** Counts refused tokens, and tells of them now and then: a flood of them must not fill the log. */
function openFailureLog(
  access: Access,
  log: Log,
): (remote: Deno.Addr | undefined, why: string) => void {
  let total = 0;
  let untold = 0;
  let toldAtMs: number | undefined;
  return (remote, why) => {
    total += 1;
    untold += 1;
    const nowMs = access.nowMs();
    if (toldAtMs !== undefined && nowMs - toldAtMs < TELL_EVERY_MS) return;
    toldAtMs = nowMs;
    log.warn("tokens refused", { count: untold, total, last_peer: peerText(remote), why });
    untold = 0;
  };
}
