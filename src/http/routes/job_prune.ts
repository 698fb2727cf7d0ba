// POST /agent/v1/jobs/prune: removes finished jobs by age now, which the agent otherwise does by
// itself as `keep_finished` says.

import { type Context, Hono } from "hono";
import {
  integer,
  openFindings,
  readObject,
  refuseFindings,
  type Shape,
} from "../../domain/field_check.ts";
import { instantAfter } from "../../domain/instant.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";
import { readJson, smallBody } from "../request/json_body.ts";

/** Jobs that one call removes; a caller that wants more calls again. */
export const PRUNED_OF_A_CALL_MAX = 1000;
/** As much as the calendar of the agent holds. Seconds. */
const AGE_SECONDS_MAX = 100 * 365 * 86_400;
/** Jobs that go in one write, so that no other write waits for long. */
const BATCH = 100;
const INFO_BATCH = 10_000;

const SHAPE: Shape = {
  checks: { older_than_seconds: integer(0, AGE_SECONDS_MAX) },
  required: ["older_than_seconds"],
};

/** The route. */
export function jobPruneRoutes(deps: AppDeps): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.post("/agent/v1/jobs/prune", (c) => pruneJobs(c, deps));
  return app;
}

async function pruneJobs(
  c: Context<HttpEnv>,
  { store, limits, now, log }: AppDeps,
): Promise<Response> {
  const findings = openFindings();
  const read = readObject(await readJson(c, smallBody(limits)), "", SHAPE, findings);
  refuseFindings(findings, "request to remove jobs");
  const at = now();
  // The store takes those before an instant; those of exactly that age go too.
  const finished_before = instantAfter(at, 1 - Number(read?.older_than_seconds) * 1000);
  const retention = { finished_before, finished_max: Number.MAX_SAFE_INTEGER, limit: BATCH };
  let removed = 0;
  let batch = BATCH;
  while (batch === BATCH && removed < PRUNED_OF_A_CALL_MAX) {
    batch = await store.jobs.prune(retention, at);
    removed += batch;
    await store.jobs.pruneInfo(INFO_BATCH);
  }
  log.info("finished jobs removed", { jobs: removed, request_id: c.get("request_id") });
  return c.json({ removed, more: batch === BATCH });
}
