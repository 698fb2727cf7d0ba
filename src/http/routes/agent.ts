// /agent/v1/whoami, config and doctor: who the caller is, which settings are in effect, and what the doctor
// finds.

import { WALL } from "../../domain/host.ts";
import { Hono } from "hono";
import { AgentError, unreachable } from "../../domain/error.ts";
import { TOKEN_SCOPES } from "../../domain/token.ts";
import {
  always,
  ANY_VALUE,
  FLAG,
  INSTANT,
  listOf,
  NULLABLE_TEXT,
  objectOf,
  type ShapeOf,
  shapeRef,
  TEXT,
  whole,
  wordOf,
} from "../../domain/description/answer.ts";
import type { KeptReading } from "../answer/kept_reading.ts";
import type { HttpEnv } from "../context.ts";
import type { Caller } from "../request/caller.ts";

/** The caller, as the agent identifies it. */
export function callerRoutes(): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/whoami", (c) => {
    const caller = c.get("caller");
    if (caller === undefined) {
      throw new AgentError(
        "unauthorized",
        "Cannot identify the caller: expected a token or a session",
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
export type ShownSetting = ShapeOf<typeof SETTING>;

export const SETTINGS = whole("The settings in force.", {
  settings: listOf(SETTING),
  waiting: { ...listOf(TEXT), description: "Settings whose new value waits for a restart." },
});

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
export type ShownDiagnosis = ShapeOf<typeof DIAGNOSIS>;

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
