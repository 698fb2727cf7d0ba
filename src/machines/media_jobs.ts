// Jobs that fetch and verify media: fetching a file takes longer than a request may.

import { AgentError } from "../domain/error.ts";
import type { JobUuid, NewUuid, WorkflowUuid } from "../domain/id.ts";
import type { Workflow } from "../domain/job/workflow.ts";
import type { JsonObject } from "../domain/json.ts";
import { jobRefusal } from "../store/job_refusal.ts";
import type { Store } from "../store/store.ts";
import { FETCH_MEDIUM_WORKFLOW } from "./workflows/fetch_medium.ts";

/** Target of these jobs. The store finds the unfinished job of an equal request by it. */
const MEDIA_TARGET = "/media";

/** What is needed to create jobs of media. */
interface MediaJobsContext {
  readonly store: Pick<Store, "jobs" | "workflows">;
  readonly unfinishedJobsMax: number;
  readonly wake: () => void;
  readonly newUuid: NewUuid;
}

/**
 * Starts the job that fetches a medium, or joins the one of an equal request.
 * @param media what media.find() of a task takes
 * @throws {AgentError} `not_found`; see jobRefusal()
 */
export async function startMediaJob(
  media: JsonObject,
  { store, unfinishedJobsMax, wake, newUuid }: MediaJobsContext,
): Promise<JobUuid> {
  const workflow = await builtinWorkflow(FETCH_MEDIUM_WORKFLOW.uuid, store);
  const outcome = await store.jobs.create({
    uuid: newUuid<JobUuid>(),
    workflow,
    target: MEDIA_TARGET,
    params: { media },
  }, unfinishedJobsMax);
  if (outcome.kind === "duplicate") return outcome.job_uuid;
  if (outcome.kind !== "created" && outcome.kind !== "repeated") throw jobRefusal(outcome);
  wake();
  return outcome.job.uuid;
}

/** @throws {AgentError} `not_found` */
export async function builtinWorkflow(
  uuid: WorkflowUuid,
  { workflows }: Pick<Store, "workflows">,
): Promise<Workflow> {
  const stored = await workflows.get(uuid);
  if (stored !== undefined) return stored.workflow;
  const message = `Cannot start the job: its built-in workflow ${uuid} is missing`;
  throw new AgentError("not_found", message);
}
