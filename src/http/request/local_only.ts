// Who may call over TCP: programs on this host, and pages that the agent itself served. A page of
// another site that reaches 127.0.0.1 from the browser of an administrator is told apart by what the
// browser says of it: the Host it believes to talk to (DNS rebinding), its Origin, and the site it
// fetches for. No CORS header is ever given. On the unix socket the file's mode decides instead.

import type { MiddlewareHandler } from "hono";
import { AgentError } from "../../domain/error.ts";
import type { HttpEnv } from "../context.ts";

const LOOPBACK_NAMES = ["localhost", "[::1]"] as const;
/** Literal addresses of this host cannot be rebound. */
const LOOPBACK_ADDRESS = /^127(?:\.\d{1,3}){3}$/;
const HOST = /^(\[[0-9a-f:.]+\]|[^:[\]/@\s]+)(?::\d{1,5})?$/;
const SHOWN_CHARS_MAX = 100;

/** Refuses calls whose Host or origin is foreign, before anything of theirs is looked at. */
export function localOnly(allowedHosts: readonly string[]): MiddlewareHandler<HttpEnv> {
  const names = new Set<string>(LOOPBACK_NAMES);
  for (const host of allowedHosts) names.add(host.toLowerCase());
  return async (c, next) => {
    // The scheme of the URL would not do: a client on TCP can write any into its request line.
    // Hono leaves `env` out when the application is called without one.
    if (c.env?.remote?.transport !== "unix") refuseForeign(c.req.raw, names, c.env?.secure);
    await next();
  };
}

/** @throws {AgentError} `malformed` without a Host; `forbidden` */
function refuseForeign(request: Request, names: ReadonlySet<string>, secure?: boolean): void {
  const host = hostOf(request, secure)?.toLowerCase();
  if (host === undefined) {
    throw new AgentError("malformed", "Cannot accept the request: it has no Host header");
  }
  const name = HOST.exec(host)?.[1] ?? "";
  if (!names.has(name) && !LOOPBACK_ADDRESS.test(name)) {
    throw forbidden(`Host ${shown(host)} is neither a loopback name nor a configured one`);
  }
  const origin = request.headers.get("origin")?.toLowerCase();
  if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`) {
    throw forbidden(`Origin ${shown(origin)} is not the agent's own`);
  }
  const site = request.headers.get("sec-fetch-site");
  // Following a link from elsewhere to one of the agent's pages is no call by that other site.
  const followsLink = request.headers.get("sec-fetch-mode") === "navigate" &&
    request.method === "GET";
  if ((site === "cross-site" || site === "same-site") && !followsLink) {
    throw forbidden("it was sent for a page of another site");
  }
}

/**
 * Whom the caller believes to talk to. HTTP/2, which is spoken over TLS, has no Host header: its
 * `:authority` is in the address of the request.
 */
export function hostOf(request: Request, secure = false): string | undefined {
  const header = request.headers.get("host");
  if (header !== null) return header;
  return secure ? new URL(request.url).host : undefined;
}

function forbidden(reason: string): AgentError {
  return new AgentError("forbidden", `Cannot accept the request: ${reason}`);
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, SHOWN_CHARS_MAX));
}
