// /metrics, and the request counters: each request counts under the pattern of its route, or under `none`.

import { type Context, Hono, type MiddlewareHandler } from "hono";
import { about, integer } from "../../domain/description/value.ts";
import {
  EXPOSITION_TYPE,
  expositionText,
  type Family,
  type RequestCount,
} from "../../metrics/meters.ts";
import type { HttpContext, HttpEnv } from "../context.ts";
import { answeredRoute } from "../request/access_lines.ts";
import type { App } from "../listen/server.ts";
import { EXECUTIONS, type FinalExecution, isFinal } from "../../domain/job/state.ts";
import type { JobStats } from "../../store/stats.ts";
import { HOUR_MS, type Instant, instantAfter, MS_PER_SECOND } from "../../domain/instant.ts";
import { readQuery } from "../request/query.ts";
import { STATS_WINDOWS } from "../../domain/job/job.ts";

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

/** The routes of job counts. @see document 2, Stats */
export function statsRoutes(context: Pick<HttpContext, "store" | "now">): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/stats", async (c) => c.json(statsOnWire(await context.store.jobs.stats())));
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

/** Every hour has an entry, oldest first; the last one is not over. */
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
  return c.json({ since, until, total, hours: entries });
}

function hourOf(instant: Instant): Instant {
  return `${instant.slice(0, "2026-11-20T13".length)}:00:00.000Z`;
}

/** A count for each way in which jobs end. */
function byEnd(countOf: (execution: FinalExecution) => number): Record<FinalExecution, number> {
  const counts = EXECUTIONS.filter(isFinal).map((execution) => [execution, countOf(execution)]);
  return Object.fromEntries(counts) as Record<FinalExecution, number>;
}

function statsOnWire(stats: JobStats): Record<string, Record<string, number>> {
  return Object.fromEntries(
    STATS_WINDOWS.map((window) => [
      window,
      Object.fromEntries(EXECUTIONS.map((counter) => [counter, stats[window][counter]])),
    ]),
  );
}
