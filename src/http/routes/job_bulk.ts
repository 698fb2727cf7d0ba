// POST /agent/v1/jobs/cancel and /agent/v1/jobs/retry: the same change to many jobs. Each job is
// changed on its own, as if it had been named: what one is refused does not hold up the others.

import { type Context, Hono } from "hono";
import { AgentError } from "../../domain/error.ts";
import type { JobUuid } from "../../domain/id.ts";
import type { JsonObject } from "../../domain/json.ts";
import { mapLimited } from "../../program/map_limited.ts";
import type { JobKey } from "../../store/job_store.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";
import { errorWords } from "../request/error_response.ts";
import { cancelUnseen } from "./job_change.ts";
import { retryJob } from "./job_retry.ts";
import { parseSelection, selectJobs } from "./job_selection.ts";
import { readJson, smallBody } from "../request/json_body.ts";
import type { MachineJobs } from "../../machines/machine_jobs.ts";

/** Jobs that are changed at the same time: their writes share commits. */
const CHANGES_AT_A_TIME = 50;

/** A change to many jobs. */
interface BulkChange {
  /** Which jobs it is about, in the words of `filter.execution`. */
  readonly executions: readonly string[];
  /** The member of the answer that lists the changed jobs. */
  readonly done: "canceled" | "retried";
  /** What else is asked of a job. */
  readonly fits: (key: JobKey) => boolean;
  /** @returns what the answer says of the job besides its uuid */
  readonly change: (uuid: JobUuid) => Promise<JsonObject>;
}

/** The routes of changes to many jobs. */
export function jobBulkRoutes(deps: AppDeps, machineJobs: MachineJobs): Hono<HttpEnv> {
  const cancel: BulkChange = {
    executions: ["queued", "waiting", "running"],
    done: "canceled",
    fits: () => true,
    change: async (uuid) => {
      await cancelUnseen(uuid, deps);
      return {};
    },
  };
  const retry: BulkChange = {
    executions: ["failed", "failure", "canceled"],
    done: "retried",
    fits: ({ retried }) => !retried,
    change: async (uuid) => {
      const next_attempt = await retryJob(uuid, undefined, deps, machineJobs);
      return { next_attempt };
    },
  };
  const app = new Hono<HttpEnv>();
  app.post("/agent/v1/jobs/cancel", (c) => changeMany(c, cancel, deps));
  app.post("/agent/v1/jobs/retry", (c) => changeMany(c, retry, deps));
  return app;
}

/** `matched` counts the jobs of this call; `more` tells of others beyond its limit. */
async function changeMany(
  c: Context<HttpEnv>,
  bulk: BulkChange,
  deps: AppDeps,
): Promise<Response> {
  const body = await readJson(c, smallBody(deps.limits));
  const selection = parseSelection(body, bulk.executions);
  const { uuids, more } = await selectJobs(selection, bulk.fits, deps);
  const done = new Map<JobUuid, JsonObject>();
  const refused = new Map<JobUuid, JsonObject>();
  await mapLimited(uuids, CHANGES_AT_A_TIME, async (uuid) => {
    try {
      done.set(uuid, { uuid, ...await bulk.change(uuid) });
    } catch (error) {
      // Every other error is a defect, and ends the call.
      if (!(error instanceof AgentError)) throw error;
      refused.set(uuid, { uuid, ...errorWords(error) });
    }
  });
  const inOrder = (found: ReadonlyMap<JobUuid, JsonObject>) =>
    uuids.flatMap((uuid) => found.get(uuid) ?? []);
  return c.json({
    matched: uuids.length,
    [bulk.done]: inOrder(done),
    refused: inOrder(refused),
    more,
  });
}
