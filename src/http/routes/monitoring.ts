// What monitoring asks for. Whether the agent runs: `/healthz` for supervisors, `/ping` for clients of
// node-workflow. Whether it can work: `/readyz` for callers that send work. How much it does: `/metrics`
// and `/stats`. access.ts admits probes without a token to `/healthz` and `/readyz`.

import { type Context, Hono } from "hono";
import {
  always,
  COUNT,
  INSTANT,
  listOf,
  mapOf,
  objectOf,
  type Shape,
  type ShapeOf,
  shapeRef,
  TEXT,
  whole,
  wordOf,
} from "../../domain/description/answer.ts";
import { ERROR_CODES } from "../../domain/error.ts";
import { EXPOSITION_TYPE, expositionText, type Family } from "../../metrics/exposition.ts";
import {
  type KeptReading,
  keptReading,
  type Readable,
  type ReadingClocks,
} from "../answer/cached_reading.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";
import type { Store } from "../../store/store.ts";
import { about, integer } from "../../domain/description/value.ts";
import { byEnd, byExecution, type Execution } from "../../domain/job/state.ts";
import type { StatsWindow } from "../../store/stats.ts";
import { HOUR_MS, type Instant, instantAfter } from "../../domain/instant.ts";
import { readQuery } from "../request/query.ts";

const READY = 200;
const NOT_READY = ERROR_CODES.overloaded.status;

/** The answer of `GET /healthz`, which says only that the process answers. */
export const HEALTH = whole("The agent answers.", { status: always("ok") });

/** The answer of `GET /ping`. @see document 2, Endpoints */
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

/** One check of `GET /readyz`. */
export const READINESS_FINDING = whole("The result of one check.", {
  status: wordOf(["ok", "warn", "failed"]),
  detail: { ...TEXT, description: "For people." },
});
/** Its type, for src/agent/, which makes the checks. */
export type ReadinessFinding = ShapeOf<typeof READINESS_FINDING>;

/** The answer of `GET /readyz`: 200 when ready, otherwise 503 with the same body. */
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

/**
 * Checks of what the agent depends on. Each is bounded in time, cached for a while, and never runs
 * twice at once, so that probes cannot load what they check.
 * @returns runs all checks that are due
 */
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

/** The metrics, read for every request. */
export function metricsRoutes(metrics: () => Promise<readonly Family[]>): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/metrics", async (c) => {
    c.header("content-type", EXPOSITION_TYPE);
    return c.body(expositionText(await metrics()));
  });
  return app;
}

/** How many jobs of one window have each execution. */
export const COUNTERS = whole("Numbers of jobs of one window.", byExecution(() => COUNT));

const WINDOW = shapeRef("Counters", COUNTERS);
/** The answer of `GET /stats`. @see document 2, Stats */
export const STATS = whole(
  "Numbers of jobs by execution. The windows do not overlap: `all_time` excludes " +
    "`past_24h`, which excludes `past_hour`.",
  { all_time: WINDOW, past_24h: WINDOW, past_hour: WINDOW, current: WINDOW } satisfies Record<
    StatsWindow,
    Shape<Record<Execution, number>>
  >,
);

/** The routes of job counts. @see document 2, Stats */
export function statsRoutes(context: Pick<ServedAgent, "store" | "now">): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/stats", async (c) => {
    const answer: ShapeOf<typeof STATS> = await context.store.jobs.stats();
    return c.json(answer);
  });
  app.get("/agent/v1/stats/hourly", (c) => getHourly(c, context));
  return app;
}

/** Hours of a chart by default. */
const HOURS_DEFAULT = 24;
const HOURS_MAX = 31 * 24;

/** The query of GET /agent/v1/stats/hourly. */
export const HOURLY_QUERY_FIELDS = {
  hours: about("Number of full hours before the current one.", integer(1, HOURS_MAX), {
    default: HOURS_DEFAULT,
  }),
};

const END_COUNTS = byEnd(() => COUNT);

/** The answer of `GET /agent/v1/stats/hourly`; hours of UTC. */
export const HOURLY_STATS = whole(
  "How jobs ended, hour by hour. Jobs that were removed do not count.",
  {
    since: { ...INSTANT, description: "Start of the first hour." },
    until: { ...INSTANT, description: "The current time; the last hour is not over." },
    total: whole("Sums of all these hours.", END_COUNTS),
    hours: {
      ...listOf(
        whole("Jobs that ended in one hour.", {
          hour: { ...INSTANT, description: "Start of the hour, UTC." },
          ...END_COUNTS,
        }),
      ),
      description: "Oldest first, without gaps: an hour in which no job ended has zeros.",
    },
  },
);

async function getHourly(
  c: Context<HttpEnv>,
  { store, now }: Pick<ServedAgent, "store" | "now">,
): Promise<Response> {
  const { hours = HOURS_DEFAULT } = readQuery(c.req.url, HOURLY_QUERY_FIELDS);
  const until = now();
  const since = hourOf(instantAfter(until, -hours * HOUR_MS));
  const found = new Map((await store.jobs.finished(since)).map((one) => [one.hour, one]));
  const entries = Array.from({ length: hours + 1 }, (_, index) => {
    const hour = instantAfter(since, index * HOUR_MS);
    const counts = found.get(hour);
    return { hour, ...byEnd((execution) => counts?.[execution] ?? 0) };
  });
  const total = byEnd((execution) => entries.reduce((sum, entry) => sum + entry[execution], 0));
  const answer: ShapeOf<typeof HOURLY_STATS> = { since, until, total, hours: entries };
  return c.json(answer);
}

function hourOf(instant: Instant): Instant {
  return `${instant.slice(0, "2026-11-20T13".length)}:00:00.000Z`;
}
