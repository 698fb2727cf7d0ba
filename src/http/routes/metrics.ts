// /metrics, and the counting of requests: each under the pattern of the route that answered it, or `none`.

import { Hono, type MiddlewareHandler } from "hono";
import { EXPOSITION_TYPE, expositionText, type Family } from "../../metrics/exposition.ts";
import type { RequestCount } from "../../metrics/meters.ts";
import type { HttpContext, HttpEnv } from "../context.ts";
import { answeredRoute } from "../request/access_lines.ts";
import type { App } from "../listen/server.ts";
import { EXECUTIONS } from "../../domain/job/state.ts";
import type { JobStats } from "../../store/job_store.ts";
import { MS_PER_SECOND } from "../../domain/instant.ts";
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

/** Counts requests of the application. Comes before all that may refuse them. */
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
 * @param before puts the fast path before an application
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

// /stats: how many jobs are in each execution, by the age of the jobs.

/** @see document 2, Stats */
export function statsRoutes({ store, now }: Pick<HttpContext, "store" | "now">): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/stats", async (c) => c.json(statsOnWire(await store.jobs.stats(now()))));
  return app;
}

function statsOnWire(stats: JobStats): Record<string, Record<string, number>> {
  return Object.fromEntries(
    STATS_WINDOWS.map((window) => [
      window,
      Object.fromEntries(EXECUTIONS.map((counter) => [counter, stats[window][counter]])),
    ]),
  );
}
