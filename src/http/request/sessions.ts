// Sessions of the web console. A browser cannot send a token with a page or a WebSocket, and a script that holds one
// can lose it. So a caller shows its token once, and gets a cookie that scripts cannot read. The session has the
// rights of that token and ends with it. Only digests are kept, in memory: a session does not outlive the agent. A
// changing request must also send a text that another site cannot read.

import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { secretDigest, secretText, type Token } from "../../domain/token.ts";
import { hostOf } from "./head_check.ts";

/** Seconds after which a session ends, even one in use. */
export const SESSION_SECONDS = 43_200;
/** Sessions at the same time; with one more, the oldest ends. */
const SESSIONS_MAX = 1000;
/** Random bytes in a session's id, and in its CSRF text. */
const SECRET_BYTES = 32;
const SECRET = /^[A-Za-z0-9_-]{43}$/;
/** The header in which changing requests send the session's CSRF text. */
export const CSRF_HEADER = "x-csrf-token";

/** A session that is valid now. */
export interface BrowserSession {
  readonly token: Pick<Token, "name" | "scope">;
  /** The text that changing requests must send. */
  readonly csrf: string;
  /** Seconds until the session ends by itself. */
  readonly seconds: number;
  /** Whether it is still valid: its time is not up, and its caller has not signed out. */
  readonly stands: () => boolean;
}

/** The sessions of this agent. */
export interface Sessions {
  /** Begins a session. @returns its id, which is shown once, and the session */
  begin(
    token: BrowserSession["token"],
  ): Promise<{ readonly id: string; readonly session: BrowserSession }>;
  /** The session of a request by its cookie; undefined without one, and for one that has ended. */
  of(request: Request, secure: boolean): Promise<BrowserSession | undefined>;
  /** Ends the session of a request, if it has one. */
  end(request: Request, secure: boolean): Promise<void>;
}

interface KeptSession {
  /** Only the SHA-256 of the id is kept. */
  readonly digest: Uint8Array;
  readonly token: BrowserSession["token"];
  readonly csrf: string;
  /** Milliseconds of a monotonic clock. */
  readonly endMs: number;
}

/** @param nowMs a monotonic clock, milliseconds */
export function openSessions(nowMs: () => number): Sessions {
  // In the order in which they end.
  let kept: readonly KeptSession[] = [];
  const find = async (request: Request, secure: boolean) => {
    const id = cookieOf(request, secure);
    if (id === undefined) return undefined;
    const digest = await secretDigest(id);
    const now = nowMs();
    kept = kept.filter(({ endMs }) => endMs > now);
    return kept.find((one) => timingSafeEqual(one.digest, digest));
  };
  const shown = (session: KeptSession): BrowserSession => ({
    token: session.token,
    csrf: session.csrf,
    seconds: Math.ceil((session.endMs - nowMs()) / 1000),
    stands: () => kept.includes(session) && session.endMs > nowMs(),
  });
  return {
    async begin({ name, scope }) {
      const id = newSecret();
      const endMs = nowMs() + SESSION_SECONDS * 1000;
      const session = {
        digest: await secretDigest(id),
        token: { name, scope },
        csrf: newSecret(),
        endMs,
      };
      kept = [...kept.slice(1 - SESSIONS_MAX), session];
      return { id, session: shown(session) };
    },
    async of(request, secure) {
      const found = await find(request, secure);
      return found === undefined ? undefined : shown(found);
    },
    async end(request, secure) {
      const found = await find(request, secure);
      kept = kept.filter((one) => one !== found);
    },
  };
}

/**
 * The name of the cookie. The ports of a host share their cookies, so each agent uses a name of its own.
 */
function cookieName(request: Request, secure: boolean): string {
  const port = /:(\d{1,5})$/.exec(hostOf(request, secure) ?? "")?.[1];
  return `zonewright_session_${port ?? "default"}`;
}

/** The header that gives a browser its session, or with `null` takes it away. */
export function sessionCookie(request: Request, secure: boolean, id: string | null): string {
  const age = id === null ? 0 : SESSION_SECONDS;
  const cookie = `${cookieName(request, secure)}=${id ?? ""}; Path=/; Max-Age=${age}; HttpOnly; ` +
    "SameSite=Strict";
  return secure ? `${cookie}; Secure` : cookie;
}

/** The id of a request's session; a text that cannot be one is refused by its form alone. */
function cookieOf(request: Request, secure: boolean): string | undefined {
  const cookies = request.headers.get("cookie");
  if (cookies === null) return undefined;
  const name = `${cookieName(request, secure)}=`;
  const found = cookies.split(";").map((one) => one.trim()).find((one) => one.startsWith(name));
  const id = found?.slice(name.length);
  return id !== undefined && SECRET.test(id) ? id : undefined;
}

/** Whether a request has sent the CSRF text of its session; compared in constant time. */
export function showsCsrf(session: BrowserSession, shown: string | undefined): boolean {
  // The form is not a secret.
  if (shown === undefined || !SECRET.test(shown)) return false;
  const encoder = new TextEncoder();
  return timingSafeEqual(encoder.encode(shown), encoder.encode(session.csrf));
}

function newSecret(): string {
  return secretText(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)));
}
