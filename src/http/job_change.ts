// The two changes that callers may make to a job: cancel and resume. The row is changed first; what
// the runner and those who wait are told afterwards are hints.

import type { Context } from "hono";
import { AgentError } from "../domain/error.ts";
import { type JobUuid, parsePathUuid } from "../domain/id.ts";
import type { Job } from "../domain/job.ts";
import type { Resume } from "../domain/job_request.ts";
import { executionOnWire } from "../domain/job_wire.ts";
import type { ChangeOutcome } from "../store/job_store.ts";
import type { AppDeps, HttpEnv } from "./app_deps.ts";

/** The job that a path names. @throws {AgentError} `not_found` when it is no uuid */
export function jobUuidOf(c: Context<HttpEnv>): JobUuid {
  return parsePathUuid<JobUuid>(c.req.param("job_uuid") ?? "", "job");
}

/** A job that is not there, as an error. */
export function jobNotFound(uuid: JobUuid): AgentError {
  return new AgentError("not_found", `Cannot find job ${uuid}`);
}

/** Cancels a job that is not final. @throws {AgentError} `not_found`, `conflict` */
export async function cancelJob(uuid: JobUuid, deps: AppDeps): Promise<Job> {
  const outcome = await deps.store.jobs.cancel(uuid, deps.now());
  const job = changedJob(outcome, "cancel", uuid, deps);
  deps.cancelRunning(uuid);
  deps.changed(uuid);
  deps.wake(); // Its oncancel chain may be due.
  return job;
}

/** Reports the outcome of a waiting job's task. @throws {AgentError} `not_found`, `conflict` */
export async function resumeJob(uuid: JobUuid, resume: Resume, deps: AppDeps): Promise<Job> {
  const outcome = await deps.store.jobs.resume(uuid, resume, deps.now());
  const job = changedJob(outcome, "resume", uuid, deps);
  deps.changed(uuid);
  deps.wake();
  return job;
}

function changedJob(
  outcome: ChangeOutcome,
  verb: "cancel" | "resume",
  uuid: JobUuid,
  { wording }: AppDeps,
): Job {
  if (outcome.kind === "changed") return outcome.job;
  if (outcome.kind === "not_found") throw jobNotFound(uuid);
  const execution = executionOnWire(outcome.job.execution, wording);
  const wanted = verb === "cancel" ? "queued, running or waiting" : "waiting";
  const message = `Cannot ${verb} job ${uuid}: execution is "${execution}", expected ${wanted}`;
  throw new AgentError("conflict", message);
}
