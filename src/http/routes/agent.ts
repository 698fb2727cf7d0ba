// /agent/v1/whoami, config and doctor: who the caller is, which settings are in effect, and what the doctor
// finds.

import { Hono } from "hono";
import { AgentError, unreachable } from "../../domain/error.ts";
import type { JsonObject, JsonValue } from "../../domain/json.ts";
import type { TokenScope } from "../../domain/token.ts";
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
export const SETTING_ORIGINS = ["default", "file", "environment", "flag"] as const;

/** A setting in force. */
export interface ShownSetting {
  /** With the name of its table: `limits.tasks_max`. */
  readonly name: string;
  readonly value: JsonValue;
  /** As written in a flag or in the file; null for none. */
  readonly text: string | null;
  readonly origin: typeof SETTING_ORIGINS[number];
  /** The file, variable or flag that set it; null for a default. */
  readonly source: string | null;
  readonly meaning: string;
  /** Whether SIGHUP applies a new value. */
  readonly reloads: boolean;
}

/** What these routes show. */
export interface AgentSources {
  /** The settings in force. None of them is secret: secrets are in files of their own. */
  readonly settings: () => readonly ShownSetting[];
  /** Names of settings whose new value takes effect at the next restart. */
  readonly settingsWaiting: () => readonly string[];
  /** The doctor's findings: cached, and never run twice at once. Nothing is repaired. */
  readonly diagnoses: () => Promise<KeptReading<readonly JsonObject[]>>;
}

/** The settings and the doctor's findings. */
export function agentRoutes(sources: AgentSources): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/config", (c) => {
    c.header("cache-control", "no-store");
    const settings = sources.settings().map((setting) => ({ ...setting }));
    return c.json({ settings, waiting: [...sources.settingsWaiting()] });
  });
  // access.ts lets only administrators in.
  app.get("/agent/v1/doctor", async (c) => {
    c.header("cache-control", "no-store");
    // It may take minutes, so it gives its place to other requests.
    c.get("release")();
    const { read_at, error, value } = await sources.diagnoses();
    if (error !== null) throw new AgentError("internal", `Cannot examine the host: ${error}`);
    return c.json({ examined_at: read_at, checks: [...value] });
  });
  return app;
}

/** How a caller was identified, and what it may do. */
interface Identity {
  readonly authenticated_by: Caller["kind"];
  /** The name of its token. */
  readonly token: string | null;
  readonly scope: TokenScope;
}

function identityOf(caller: Caller): Identity {
  switch (caller.kind) {
    case "socket":
    case "loopback":
      return { authenticated_by: caller.kind, token: null, scope: "admin" };
    case "token":
      return { authenticated_by: "token", token: caller.name, scope: caller.scope };
    case "ticket":
      return { ...identityOf(caller.maker), authenticated_by: "ticket" };
    default:
      return unreachable(caller);
  }
}
