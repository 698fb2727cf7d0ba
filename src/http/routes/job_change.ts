// The two changes that callers may make to a job: cancel and resume. The row is changed first; what
// the runner and those who wait are told afterwards are hints.

import type { Context } from "hono";
import { AgentError, unreachable } from "../../domain/error.ts";
import { type JobUuid, parsePathUuid } from "../../domain/id.ts";
import type { Resume } from "../../domain/job/request.ts";
import { executionOnWire } from "../../domain/job/wire.ts";
import type { ChangeOutcome, CreateJobOutcome } from "../../store/job_store.ts";
import type { Showing, StoredText } from "../../store/stored_text.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";
import { seesSecrets } from "../request/caller.ts";
import { keyReused } from "../request/idempotency.ts";

/** The job that a path names. @throws {AgentError} `not_found` when it is no uuid */
export function jobUuidOf(c: Context<HttpEnv>): JobUuid {
  return parsePathUuid<JobUuid>(c.req.param("job_uuid") ?? "", "job");
}

/** A job that is not there, as an error. */
export function jobNotFound(uuid: JobUuid): AgentError {
  return new AgentError("not_found", `Cannot find job ${uuid}`);
}

/** How jobs are shown to a caller: who may not see secrets is shown each with its own masked. */
export function showingOf(c: Context<HttpEnv>, { wording, now }: AppDeps): Showing {
  return { wording, now: now(), apart: !seesSecrets(c.get("caller")) };
}

/** One job as text. @throws {AgentError} `not_found` */
export async function jobText(uuid: JobUuid, showing: Showing, deps: AppDeps): Promise<StoredText> {
  const text = await deps.store.jobs.text(uuid, showing);
  if (text === undefined) throw jobNotFound(uuid);
  return text;
}

/**
 * Cancels a job that is not final.
 * @returns the job as it is then
 * @throws {AgentError} `not_found`, `conflict`
 */
export async function cancelJob(
  uuid: JobUuid,
  deps: AppDeps,
  showing: Showing,
): Promise<StoredText> {
  const outcome = await deps.store.jobs.cancel(uuid, deps.now(), showing);
  const text = changedText(outcome, "cancel", uuid, deps);
  canceled(uuid, deps);
  return text ?? await jobText(uuid, showing, deps);
}

/** Cancels a job that nobody is shown. @throws {AgentError} `not_found`, `conflict` */
export async function cancelUnseen(uuid: JobUuid, deps: AppDeps): Promise<void> {
  changedText(await deps.store.jobs.cancel(uuid, deps.now()), "cancel", uuid, deps);
  canceled(uuid, deps);
}

function canceled(uuid: JobUuid, deps: AppDeps): void {
  deps.cancelRunning(uuid);
  deps.changed(uuid);
  deps.wake(); // Its oncancel chain may be due.
}

/**
 * Reports the outcome of a waiting job's task.
 * @returns the job as it is then
 * @throws {AgentError} `not_found`, `conflict`
 */
export async function resumeJob(
  uuid: JobUuid,
  resume: Resume,
  deps: AppDeps,
  showing: Showing,
): Promise<StoredText> {
  const outcome = await deps.store.jobs.resume(uuid, resume, deps.now(), showing);
  const text = changedText(outcome, "resume", uuid, deps);
  deps.changed(uuid);
  deps.wake();
  return text ?? await jobText(uuid, showing, deps);
}

function changedText(
  outcome: ChangeOutcome,
  verb: "cancel" | "resume",
  uuid: JobUuid,
  { wording }: AppDeps,
): StoredText | undefined {
  if (outcome.kind === "changed") return outcome.text;
  if (outcome.kind === "not_found") throw jobNotFound(uuid);
  const execution = executionOnWire(outcome.job.execution, wording);
  const wanted = verb === "cancel" ? "queued, running or waiting" : "waiting";
  const message = `Cannot ${verb} job ${uuid}: execution is "${execution}", expected ${wanted}`;
  throw new AgentError("conflict", message);
}

// Why a wish for a job came to nothing, in the words of an error.

/** A wish that made no job, and found none that an equal request had made. */
export type RefusedJob = Exclude<CreateJobOutcome, { kind: "created" | "repeated" }>;

/** Why there is no job, as an error that names the key. */
export function jobRefusal(outcome: RefusedJob): AgentError {
  switch (outcome.kind) {
    case "duplicate":
      return targetTaken(
        `Cannot create a job: job ${outcome.job_uuid} with the same target and params is not finished`,
      );
    case "locked":
      return targetTaken(`Cannot create a job: job ${outcome.job_uuid} locks the target`);
    case "full":
      return new AgentError(
        "overloaded",
        `Cannot create a job: there are ${outcome.limit} ${outcome.what}, the most there may be`,
      );
    case "key_reused":
      return keyReused(outcome);
    default:
      return unreachable(outcome);
  }
}

function targetTaken(message: string): AgentError {
  return new AgentError("conflict", message, {
    errors: [{ field: "target", code: "Invalid", message }],
  });
}
