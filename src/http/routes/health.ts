// Whether the agent runs: `/healthz` for supervisors, `/ping` for clients of node-workflow. Whether it can
// work: `/readyz` for callers that send work. access.ts admits probes without a token to `/healthz` and
// `/readyz`.

import { type Context, Hono } from "hono";
import {
  always,
  COUNT,
  mapOf,
  objectOf,
  type ShapeOf,
  shapeRef,
  TEXT,
  whole,
  wordOf,
} from "../../domain/description/answer.ts";
import { ERROR_CODES } from "../../domain/error.ts";
import {
  type KeptReading,
  keptReading,
  type Readable,
  type ReadingClocks,
} from "../answer/kept_reading.ts";
import type { HttpEnv } from "../context.ts";
import type { Store } from "../../store/store.ts";

const READY = 200;
const NOT_READY = ERROR_CODES.overloaded.status;

export const HEALTH = whole("The agent answers.", { status: always("ok") });

export const PING = whole("The agent answers.", {
  pid: { ...COUNT, minimum: 1, description: "The agent's process." },
  backend: { ...TEXT, description: "Where jobs are kept." },
});

/** Neither route reads the store, so both answer even when the disk hangs. */
export function healthRoutes({ kind }: Pick<Store, "kind">): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  const healthy: ShapeOf<typeof HEALTH> = { status: "ok" };
  const ping: ShapeOf<typeof PING> = { pid: Deno.pid, backend: kind };
  app.get("/healthz", (c) => c.json(healthy));
  app.get("/ping", (c) => c.json(ping));
  return app;
}

/**
 * The findings of the checks by name; 503 if one has failed. An unknown caller gets only the status.
 */
export function readinessRoutes(readiness: () => Promise<ReadinessReport>): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/readyz", async (c: Context<HttpEnv>) => {
    const { ready, checks } = await readiness();
    c.header("cache-control", "no-store");
    const known = c.get("caller") !== undefined;
    const answer: ShapeOf<typeof READINESS> = {
      status: ready ? "ready" : "not_ready",
      ...(known ? { checks } : {}),
    };
    return c.json(answer, ready ? READY : NOT_READY);
  });
  return app;
}

// Checks of what the agent depends on. Each is bounded in time, cached for a while, and never runs twice at
// once, so that probes cannot load what they check.

export const READINESS_FINDING = whole("The result of one check.", {
  status: wordOf(["ok", "warn", "failed"]),
  detail: { ...TEXT, description: "For people." },
});
export type ReadinessFinding = ShapeOf<typeof READINESS_FINDING>;

export const READINESS = objectOf("Whether the agent can do its work.", ["status"], {
  status: wordOf(["ready", "not_ready"]),
  checks: {
    ...mapOf(shapeRef("Finding", READINESS_FINDING)),
    description: "Results by check. A warning does not make the agent unready. Left out for a " +
      "caller that needs a token and sends none.",
  },
});

/** A part that readiness depends on, and how often it may be checked. */
export type ReadinessCheck = Readable<ReadinessFinding>;

/** The findings of all checks. */
export interface ReadinessReport {
  readonly ready: boolean;
  /** Findings by the name of the check. */
  readonly checks: Readonly<Record<string, ReadinessFinding>>;
}

/** @returns runs all checks that are due */
export function openReadiness(
  checks: Readonly<Record<string, ReadinessCheck>>,
  clocks: ReadingClocks,
): () => Promise<ReadinessReport> {
  const kept = Object.entries(checks).map(([name, check]) =>
    [name, keptReading(check, clocks)] as const
  );
  return async () => {
    const found = await Promise.all(
      kept.map(async ([name, look]) => [name, findingOf(await look())] as const),
    );
    return {
      ready: found.every(([, { status }]) => status !== "failed"),
      checks: Object.fromEntries(found),
    };
  };
}

function findingOf(reading: KeptReading<ReadinessFinding>): ReadinessFinding {
  return reading.error === null ? reading.value : { status: "failed", detail: reading.error };
}
