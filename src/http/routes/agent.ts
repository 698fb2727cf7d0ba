// /agent/v1/whoami, session, config and doctor: who the caller is, signing in and out, which settings are in effect,
// and what the doctor finds.

import { type Context, Hono } from "hono";
import {
  always,
  ANY_VALUE,
  FLAG,
  INSTANT,
  listOf,
  NULLABLE_INSTANT,
  NULLABLE_TEXT,
  objectOf,
  orNull,
  type ShapeOf,
  shapeRef,
  TEXT,
  whole,
  wordOf,
} from "../../domain/description/answer.ts";
import { object } from "../../domain/description/object.ts";
import { parse } from "../../domain/description/description.ts";
import { about, wholeText } from "../../domain/description/value.ts";
import { AgentError, unreachable } from "../../domain/error.ts";
import { WALL } from "../../domain/host.ts";
import { instantAfter } from "../../domain/instant.ts";
import { TOKEN_SCOPES } from "../../domain/token.ts";
import type { KeptReading } from "../answer/cached_reading.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";
import { SESSION_PATH, tokenOf } from "../request/access.ts";
import { type BrowserSession, sessionCookie, type Sessions } from "../request/sessions.ts";
import { type Access, type Caller, callerText } from "../caller.ts";
import { readJson, smallBody } from "../request/body.ts";

/** The caller, as the agent identifies it. */
export function callerRoutes(): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/whoami", (c) => {
    const caller = c.get("caller");
    if (caller === undefined) {
      throw new AgentError(
        "unauthorized",
        "Cannot identify the caller: it sent neither a token nor a session",
      );
    }
    c.header("cache-control", "no-store");
    return c.json({ ...identityOf(caller), request_id: c.get("request_id") });
  });
  return app;
}

/** Where the value of a setting may come from; the last one wins. */
const SETTING_ORIGINS = ["default", "file", "environment", "flag"] as const;

const SETTING = whole("A setting.", {
  name: { ...TEXT, description: "With the name of its table: `limits.tasks_max`." },
  value: { ...ANY_VALUE, description: "A JSON value; null for none." },
  text: { ...NULLABLE_TEXT, description: "As written in a flag or in the file." },
  origin: wordOf(SETTING_ORIGINS),
  source: {
    ...NULLABLE_TEXT,
    description: "The file, variable or flag that set it; null for a default.",
  },
  meaning: TEXT,
  reloads: { ...FLAG, description: "Whether SIGHUP applies a new value." },
});
/** A setting with its value in force and where it comes from. */
export type ShownSetting = ShapeOf<typeof SETTING>;

/** The answer of `GET /agent/v1/config`; after a SIGHUP, `waiting` is not empty until a restart. */
export const SETTINGS = whole("The settings in force.", {
  settings: listOf(SETTING),
  waiting: { ...listOf(TEXT), description: "Settings whose new value waits for a restart." },
});

/** One check of `zonewright doctor`, with its outcome and what to do. */
export const DIAGNOSIS = objectOf(
  "One thing that was looked at.",
  ["name", "outcome", "detail", "repaired"],
  {
    name: TEXT,
    outcome: {
      ...TEXT,
      description: "`ok`, `warn`, `fail`, or `skipped` for what does not apply here.",
    },
    detail: { ...TEXT, description: "What was found, and what was expected." },
    fix: { ...TEXT, description: "What to do." },
    parts: listOf(shapeRef("Wall", WALL)),
    repaired: { ...always(false), description: "Over HTTP the doctor repairs nothing." },
  },
);
/** The type of one such check, which src/service/doctor/ makes. */
export type ShownDiagnosis = ShapeOf<typeof DIAGNOSIS>;

/** The answer of `GET /agent/v1/doctor`; `examined_at` is when the checks were read. */
export const EXAMINED = whole("What the doctor found.", {
  examined_at: INSTANT,
  checks: listOf(shapeRef("Diagnosis", DIAGNOSIS)),
});

/** Where the answers about the agent itself come from. */
export interface AgentSources {
  /** The settings in force. None of them is secret: secrets are in files of their own. */
  readonly settings: () => readonly ShownSetting[];
  /** Names of settings whose new value takes effect at the next restart. */
  readonly settingsWaiting: () => readonly string[];
  /** The doctor's findings: cached, and never run twice at once. Nothing is repaired. */
  readonly diagnoses: () => Promise<KeptReading<readonly ShownDiagnosis[]>>;
}

/** The settings and the doctor's findings. */
export function agentRoutes(sources: AgentSources): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/config", (c) => {
    c.header("cache-control", "no-store");
    const answer: ShapeOf<typeof SETTINGS> = {
      settings: sources.settings(),
      waiting: sources.settingsWaiting(),
    };
    return c.json(answer);
  });
  // access.ts lets only administrators in.
  app.get("/agent/v1/doctor", async (c) => {
    c.header("cache-control", "no-store");
    // It may take minutes, so it gives its place to other requests.
    c.get("release")();
    const { read_at, error, value } = await sources.diagnoses();
    if (error !== null) throw new AgentError("internal", `Cannot examine the host: ${error}`);
    const answer: ShapeOf<typeof EXAMINED> = { examined_at: read_at, checks: value };
    return c.json(answer);
  });
  return app;
}

/** How a caller was identified, and what it may do. */
export const CALLER = whole("The caller.", {
  authenticated_by: {
    ...wordOf(["token", "loopback", "socket", "ticket", "host"]),
    description: "Callers on loopback and on the unix socket need no token, unless the agent " +
      "requires one. `host` is the agent of another host.",
  },
  token: { ...NULLABLE_TEXT, description: "Name of the token, if one was sent." },
  scope: { ...wordOf(TOKEN_SCOPES), description: "What the caller may do: look, or everything." },
  request_id: { ...TEXT, description: "As in the header `X-Request-Id`." },
});

function identityOf(caller: Caller): Omit<ShapeOf<typeof CALLER>, "request_id"> {
  switch (caller.kind) {
    case "socket":
    case "loopback":
      return { authenticated_by: caller.kind, token: null, scope: "admin" };
    case "token":
      return { authenticated_by: "token", token: caller.name, scope: caller.scope };
    case "ticket":
      return { ...identityOf(caller.maker), authenticated_by: "ticket" };
    case "host":
      return { authenticated_by: "host", token: null, scope: caller.from.scope };
    default:
      return unreachable(caller);
  }
}

type SessionContext = Pick<ServedAgent, "limits" | "now">;

const TOKEN_CHARS_MAX = 200;

/** The body of a sign-in. */
export const signInRequest = object({
  token: about(
    "A bearer token; it is not stored.",
    wholeText(TOKEN_CHARS_MAX),
  ),
}, { required: ["token"] });

/**
 * Showing, beginning and ending the session of a browser. Callers need no token here, since they
 * may not have signed in yet.
 */
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
      throw new AgentError(
        "forbidden",
        "Cannot sign in: the token is unknown or was revoked, expected one that zonewright token list shows",
      );
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

/** The answer of `GET /agent/v1/session`, with the token against cross-site requests. */
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
