// /metrics, and the request counters: each request counts under the pattern of its route, or under `none`.

import {
  COUNT,
  INSTANT,
  listOf,
  type Shape,
  type ShapeOf,
  shapeRef,
  whole,
} from "../../domain/description/answer.ts";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { about, integer } from "../../domain/description/value.ts";
import {
  EXPOSITION_TYPE,
  expositionText,
  type Family,
  type RequestCount,
} from "../../metrics/meters.ts";
import type { HttpContext, HttpEnv } from "../context.ts";
import { answeredRoute } from "../request/request_id.ts";
import type { App } from "../listen/server.ts";
import {
  byExecution,
  type Execution,
  EXECUTIONS,
  type FinalExecution,
  isFinal,
} from "../../domain/job/state.ts";
import type { StatsWindow } from "../../store/stats.ts";
import { HOUR_MS, type Instant, instantAfter, MS_PER_SECOND } from "../../domain/instant.ts";
import { readQuery } from "../request/input.ts";

/** Index documents of the fast path; see index/documents.ts. */
const FAST_PATH_ROUTE = "/v1/*";

/** The metrics, read for every request. */
export function metricsRoutes(metrics: () => Promise<readonly Family[]>): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/metrics", async (c) => {
    c.header("content-type", EXPOSITION_TYPE);
    return c.body(expositionText(await metrics()));
  });
  return app;
}

/** Counts requests of the application. It comes before everything that may refuse them. */
export function counted({ requests }: RequestCount): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const beganMs = performance.now();
    await next();
    const seconds = (performance.now() - beganMs) / MS_PER_SECOND;
    requests.answered(c.req.method, answeredRoute(c), c.res.status, seconds);
  };
}

/**
 * Counts what the fast path answers; the rest is counted in the application.
 * @param before puts the fast path in front of an application
 */
export function countedFastPath(
  before: (app: App) => App,
  app: App,
  { requests }: RequestCount,
): App {
  let left = false;
  // The fast path decides synchronously, so no other request comes in between.
  const whole = before({
    fetch(request, env) {
      left = true;
      return app.fetch(request, env);
    },
  });
  return {
    fetch(request, env) {
      left = false;
      const beganMs = performance.now();
      const answer = whole.fetch(request, env);
      if (!left && answer instanceof Response) {
        const seconds = (performance.now() - beganMs) / MS_PER_SECOND;
        requests.answered(request.method, FAST_PATH_ROUTE, answer.status, seconds);
      }
      return answer;
    },
  };
}

// /stats: how many jobs are in each execution, by age, and how jobs ended, hour by hour.

/** A value for each way in which jobs end. */
export function byEnd<T>(valueOf: (execution: FinalExecution) => T): Record<FinalExecution, T> {
  const values = EXECUTIONS.filter(isFinal).map((execution) => [execution, valueOf(execution)]);
  return Object.fromEntries(values) as Record<FinalExecution, T>;
}

export const COUNTERS = whole("Numbers of jobs of one window.", byExecution(() => COUNT));

const WINDOW = shapeRef("Counters", COUNTERS);
export const STATS = whole(
  "Numbers of jobs by execution. The windows do not overlap: `all_time` excludes " +
    "`past_24h`, which excludes `past_hour`.",
  { all_time: WINDOW, past_24h: WINDOW, past_hour: WINDOW, current: WINDOW } satisfies Record<
    StatsWindow,
    Shape<Record<Execution, number>>
  >,
);

/** The routes of job counts. @see document 2, Stats */
export function statsRoutes(context: Pick<HttpContext, "store" | "now">): Hono<HttpEnv> {
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
  { store, now }: Pick<HttpContext, "store" | "now">,
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
