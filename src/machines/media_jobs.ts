// Jobs that fetch and verify media: fetching a file takes longer than a request may.

import { BYTES_PER_MIB } from "../domain/bytes.ts";
import type { JobUuid, NewUuid, WorkflowUuid } from "../domain/id.ts";
import type { NewJob } from "../domain/job/job.ts";
import type { JsonObject } from "../domain/json.ts";
import { builtinWorkflow, jobRefusal } from "../store/job_orders.ts";
import type { Store } from "../store/store.ts";
import { HOUR_SECONDS } from "../domain/instant.ts";

/** Target of these jobs, by which the store finds the unfinished job of an equal request. */
const MEDIA_TARGET = "/media";

interface MediaJobsContext {
  readonly store: Pick<Store, "jobs" | "workflows">;
  readonly unfinishedJobsMax: number;
  readonly newUuid: NewUuid;
  readonly by: Pick<NewJob, "ordered_by">;
}

/**
 * Starts the job that fetches a medium, or joins the one of an equal request.
 * @param media as media.find() of a task takes it
 * @throws {AgentError} `not_found`; see jobRefusal()
 */
export async function startMediaJob(
  media: JsonObject,
  { store, unfinishedJobsMax, newUuid, by }: MediaJobsContext,
): Promise<JobUuid> {
  const workflow = await builtinWorkflow(FETCH_MEDIUM_WORKFLOW.uuid, store);
  const outcome = await store.jobs.create({
    uuid: newUuid<JobUuid>(),
    workflow,
    target: MEDIA_TARGET,
    params: { media },
    ...by,
  }, unfinishedJobsMax);
  if (outcome.kind === "duplicate") {
    // The store compares target and params only: a job of a caller's own workflow may have the same.
    const equal = await store.jobs.get(outcome.job_uuid);
    if (equal?.workflow_uuid === workflow.uuid) return equal.uuid;
  }
  if (outcome.kind !== "created" && outcome.kind !== "repeated") throw jobRefusal(outcome);
  return outcome.job.uuid;
}

/**
 * Finds and verifies the medium `media` of the params, which is its result. An interrupted download resumes, so errors
 * of the upstream are retried; other errors are not. It is text, not a function: compiling would rewrite a function.
 */
const FETCH_BODY = `async function fetch(job, cb) {
  const TRIES = 3;
  const PAUSE_SECONDS = 10;
  const { media: wanted } = job.params;
  if (typeof wanted !== "object" || wanted === null) {
    const found = wanted === undefined ? "missing" : JSON.stringify(wanted);
    return cb("Cannot fetch a medium: params.media is " + found + ", expected an object that names it");
  }
  // A file in the cache may have any format; what a machine boots is checked when it is placed.
  const request = "known" in wanted ? wanted : { ...wanted, any_format: true };
  let medium;
  for (let tries = 1; medium === undefined; tries += 1) {
    try {
      medium = await media.find(request);
    } catch (error) {
      if (tries >= TRIES || !["upstream", "timeout"].includes(error.code)) throw error;
      const message = error.message + "; trying again in " + PAUSE_SECONDS + " seconds";
      await info({ task: "fetch", message });
      await sleep(PAUSE_SECONDS * 1000);
    }
  }
  const mib = Math.ceil(medium.size / ${BYTES_PER_MIB});
  await info({
    task: "fetch",
    message: "Verified " + medium.label + ": " + mib + " MiB, sha256 " + medium.sha256,
  });
  cb(null, medium);
}`;

/**
 * The workflow and its constant uuid, which is the same in every agent; `definition` is a body of
 * POST /workflows.
 * @see document 2, Workflow
 */
export const FETCH_MEDIUM_WORKFLOW = {
  // A constant in the form of a uuid.
  uuid: "b7c1a5d2-3e4f-4a6b-8c90-1d2e3f4a5b6c" as WorkflowUuid,
  definition: {
    name: "fetch-medium",
    chain: [{ name: "fetch", body: FETCH_BODY, timeout: 12 * HOUR_SECONDS }],
    timeout: 13 * HOUR_SECONDS,
  },
};
