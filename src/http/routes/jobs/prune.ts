// POST /agent/v1/jobs/prune: removes finished jobs by age now. The agent itself does so by the setting
// `keep_finished`.

import { type Context, Hono } from "hono";
import { object } from "../../../domain/description/object.ts";
import { about, integer, parse } from "../../../domain/description/value.ts";
import { DAY_SECONDS, MS_PER_SECOND } from "../../../domain/instant.ts";
import { INFO_BATCH } from "../../../store/job_store.ts";
import type { HttpContext, HttpEnv } from "../../context.ts";
import { readJson, smallBody } from "../../request/json_body.ts";

/** Jobs that one call removes. */
export const PRUNED_OF_A_CALL_MAX = 1000;
/** A hundred years, the most that the agent's calendar holds, in seconds. */
const AGE_SECONDS_MAX = 100 * 365 * DAY_SECONDS;
/** Jobs removed in one write; small, so that no other write waits for long. */
const BATCH = 100;

/** The body of a prune. */
export const pruneRequest = object({
  older_than_seconds: about(
    "Those that ended so many seconds ago or more.",
    integer(0, AGE_SECONDS_MAX),
  ),
}, { required: ["older_than_seconds"] });

type PruneContext = Pick<HttpContext, "store" | "limits" | "log">;

/** `POST /agent/v1/jobs/prune`. */
export function jobPruneRoutes(context: PruneContext): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.post("/agent/v1/jobs/prune", (c) => pruneJobs(c, context));
  return app;
}

async function pruneJobs(
  c: Context<HttpEnv>,
  { store, limits, log }: PruneContext,
): Promise<Response> {
  const body = await readJson(c, smallBody(limits));
  const { older_than_seconds } = parse(pruneRequest, body, "", "request to remove jobs");
  const age_ms = older_than_seconds * MS_PER_SECOND;
  const retention = { age_ms, finished_max: Number.MAX_SAFE_INTEGER, limit: BATCH };
  let removed = 0;
  let batch = BATCH;
  while (batch === BATCH && removed < PRUNED_OF_A_CALL_MAX) {
    batch = await store.jobs.prune(retention);
    removed += batch;
    await store.jobs.pruneInfo(INFO_BATCH);
  }
  log.info("finished jobs removed", { jobs: removed, request_id: c.get("request_id") });
  return c.json({ removed, more: batch === BATCH });
}
