// POST /agent/v1/jobs/prune: removes finished jobs by age now, as the agent itself does by the setting `keep_finished`.

import { type Context, Hono } from "hono";
import { COUNT, FLAG, type ShapeOf, whole } from "../../../domain/description/answer.ts";
import { parse } from "../../../domain/description/description.ts";
import { object } from "../../../domain/description/object.ts";
import { about, integer } from "../../../domain/description/value.ts";
import { MS_PER_SECOND, YEAR_SECONDS } from "../../../domain/instant.ts";
import { INFO_BATCH, PRUNE_BATCH } from "../../../store/limits.ts";
import { readJson, smallBody } from "../../request/body.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";

const PRUNED_OF_A_CALL_MAX = 1000;
/** A hundred years, the most that the agent's calendar holds, in seconds. */
const AGE_SECONDS_MAX = 100 * YEAR_SECONDS;

/** The body of a prune. */
export const pruneRequest = object({
  older_than_seconds: about(
    "Jobs that ended at least this many seconds ago.",
    integer(0, AGE_SECONDS_MAX),
  ),
}, { required: ["older_than_seconds"] });

/** The answer of `POST /agent/v1/jobs/prune`; call it again while `more` is true. */
export const PRUNED_JOBS = whole("What was removed.", {
  removed: { ...COUNT, maximum: PRUNED_OF_A_CALL_MAX },
  more: { ...FLAG, description: "Whether there are more such jobs than one call removes." },
});

type PruneContext = Pick<ServedAgent, "store" | "limits" | "log">;

/** Removal of finished jobs on request. */
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
  const retention = { age_ms, finished_max: Number.MAX_SAFE_INTEGER, limit: PRUNE_BATCH };
  let removed = 0;
  let batch = PRUNE_BATCH;
  while (batch === PRUNE_BATCH && removed < PRUNED_OF_A_CALL_MAX) {
    batch = await store.jobs.prune(retention);
    removed += batch;
    await store.jobs.pruneInfo(INFO_BATCH);
  }
  log.info("finished jobs removed", { jobs: removed, request_id: c.get("request_id") });
  const answer: ShapeOf<typeof PRUNED_JOBS> = { removed, more: batch === PRUNE_BATCH };
  return c.json(answer);
}
