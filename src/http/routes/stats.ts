// /stats: how many jobs are in each execution, by the age of the jobs.

import { Hono } from "hono";
import type { Execution } from "../../domain/job/state.ts";
import { type JobStats, STATS_WINDOWS } from "../../store/job_store.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";

/** The counters of each window, in the order of document 2. */
const COUNTERS: readonly Execution[] = [
  "queued",
  "failed",
  "succeeded",
  "canceled",
  "running",
  "retried",
  "waiting",
];

/** @see document 2, Stats */
export function statsRoutes({ store, now }: AppDeps): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/stats", async (c) => c.json(statsOnWire(await store.jobs.stats(now()))));
  return app;
}

function statsOnWire(stats: JobStats): Record<string, Record<string, number>> {
  return Object.fromEntries(
    STATS_WINDOWS.map((window) => [
      window,
      Object.fromEntries(COUNTERS.map((counter) => [counter, stats[window][counter]])),
    ]),
  );
}
