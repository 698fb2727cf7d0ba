// /agent/v1/session: shows who is signed in, and signs in and out. Callers need no token here, since they may
// not have signed in yet.

import {
  NULLABLE_INSTANT,
  NULLABLE_TEXT,
  orNull,
  type ShapeOf,
  whole,
  wordOf,
} from "../../domain/description/answer.ts";
import { type Context, Hono } from "hono";
import { object } from "../../domain/description/object.ts";
import { about, atMostChars, parse, wholeText } from "../../domain/description/value.ts";
import { AgentError, unreachable } from "../../domain/error.ts";
import { instantAfter } from "../../domain/instant.ts";
import { TOKEN_SCOPES } from "../../domain/token.ts";
import type { HttpContext, HttpEnv } from "../context.ts";
import {
  type BrowserSession,
  SESSION_PATH,
  sessionCookie,
  type Sessions,
  tokenOf,
} from "../request/access.ts";
import { type Access, type Caller, callerText } from "../request/caller.ts";
import { readJson, smallBody } from "../request/json_body.ts";

type SessionContext = Pick<HttpContext, "limits" | "now">;

const TOKEN_CHARS_MAX = 200;

/** The body of a sign-in. */
export const signInRequest = object({
  token: about(
    "A bearer token; it is not stored.",
    atMostChars(TOKEN_CHARS_MAX, wholeText(1, TOKEN_CHARS_MAX)),
  ),
}, { required: ["token"] });

/** Showing, beginning and ending the session of a browser. */
export function sessionRoutes(
  context: SessionContext,
  access: Access,
  sessions: Sessions,
): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  const secure = (c: Context<HttpEnv>) => c.env?.secure ?? false;
  app.get(SESSION_PATH, async (c) => {
    const session = await sessions.of(c.req.raw, secure(c));
    return answer(c, sessionOnWire(c.get("caller"), session, context));
  });
  app.post(SESSION_PATH, async (c) => {
    const body = await readJson(c, smallBody(context.limits));
    const { token: text } = parse(signInRequest, body, "", "sign-in");
    const token = await tokenOf(text, await access.tokens());
    if (token === undefined) {
      throw new AgentError("forbidden", "Cannot sign in: the token is unknown or was revoked");
    }
    const { id, session } = await sessions.begin(token);
    c.header("set-cookie", sessionCookie(c.req.raw, secure(c), id));
    // From here on the call is recorded under the token.
    c.set("caller", { kind: "token", ...session.token });
    return answer(c, sessionOnWire(c.get("caller"), session, context));
  });
  app.delete(SESSION_PATH, async (c) => {
    await sessions.end(c.req.raw, secure(c));
    c.header("set-cookie", sessionCookie(c.req.raw, secure(c), null));
    return c.body(null, 204);
  });
  return app;
}

export const SESSION = whole("The caller that a browser acts for.", {
  caller: {
    ...NULLABLE_TEXT,
    description:
      "`loopback`, `socket`, or `token:` and its name; null if the caller must send a token.",
  },
  scope: orNull(wordOf(TOKEN_SCOPES)),
  csrf: {
    ...NULLABLE_TEXT,
    description:
      "What requests with the session's cookie must send as `X-CSRF-Token` when they change " +
      "something. Null without a session.",
  },
  expires_at: NULLABLE_INSTANT,
});
type SessionAnswer = ShapeOf<typeof SESSION>;

function answer(c: Context<HttpEnv>, body: SessionAnswer): Response {
  c.header("cache-control", "no-store");
  return c.json(body);
}

function sessionOnWire(
  caller: Caller | undefined,
  session: BrowserSession | undefined,
  { now }: SessionContext,
): SessionAnswer {
  const known = session !== undefined && caller?.kind === "token";
  return {
    caller: caller === undefined ? null : callerText(caller),
    scope: scopeOf(caller),
    csrf: known ? session.csrf : null,
    expires_at: known ? instantAfter(now(), session.seconds * 1000) : null,
  };
}

function scopeOf(caller: Caller | undefined): SessionAnswer["scope"] {
  switch (caller?.kind) {
    case "socket":
    case "loopback":
      return "admin";
    case "token":
      return caller.scope;
    case "ticket":
    case "host":
    case undefined:
      return null;
    default:
      return unreachable(caller);
  }
}
