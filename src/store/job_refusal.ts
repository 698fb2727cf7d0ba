// Turns store outcomes that created no job into errors. The store returns outcomes; the modules that
// answer callers throw.

import { AgentError, type NamedRefusal, unreachable } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import { type Idempotency, IDEMPOTENCY_KEY } from "../domain/job/job.ts";
import type { CreateJobOutcome, EarlierOutcome, JobStore } from "./job_store.ts";

/** An outcome with no job: neither a new one nor the one of a repeated request. */
type RefusedJob = Exclude<CreateJobOutcome, { kind: "created" | "repeated" }>;

/** The error for a job that does not exist. */
export function jobNotFound(uuid: JobUuid, refusal?: NamedRefusal): AgentError {
  const message = `Cannot find job ${uuid}: it does not exist, or was removed`;
  return new AgentError("not_found", message, refusal === undefined ? {} : { refusal });
}

/** The error for a request that made no job. */
export function jobRefusal(outcome: RefusedJob): AgentError {
  switch (outcome.kind) {
    case "duplicate":
      return targetTaken(
        `Cannot create a job: job ${outcome.job_uuid} with the same target and params is not finished`,
        { refusal: "equal_job" },
      );
    case "locked":
      return targetTaken(`Cannot create a job: job ${outcome.job_uuid} locks the target`);
    case "machine_taken":
      return targetTaken(
        `Cannot create a job: job ${outcome.job_uuid} of the same machine is not finished`,
      );
    case "full":
      return new AgentError(
        "overloaded",
        `Cannot create a job: there are ${outcome.limit} ${outcome.what}, the maximum`,
      );
    case "key_reused":
      return keyReused(outcome);
    default:
      return unreachable(outcome);
  }
}

function targetTaken(message: string, named: { readonly refusal?: NamedRefusal } = {}): AgentError {
  return new AgentError("conflict", message, {
    ...named,
    errors: [{ field: "target", code: "Invalid", message }],
  });
}

/**
 * The job that an earlier request created under the same key, or undefined. Check this first: the workflow
 * and everything else may have changed since.
 * @throws {AgentError} `conflict` when the key was used for another request
 */
export async function earlierJob(
  idempotency: Idempotency | undefined,
  jobs: Pick<JobStore, "earlier">,
): Promise<Extract<EarlierOutcome, { kind: "repeated" }> | undefined> {
  if (idempotency === undefined) return undefined;
  const outcome = await jobs.earlier(idempotency);
  if (outcome?.kind === "key_reused") throw keyReused(outcome);
  return outcome;
}

function keyReused({ job_uuid }: Extract<EarlierOutcome, { kind: "key_reused" }>): AgentError {
  const message = `Cannot create a job: the ${IDEMPOTENCY_KEY} was used by another request, ` +
    `which made job ${job_uuid}`;
  return new AgentError("conflict", message, {
    errors: [{ field: IDEMPOTENCY_KEY, code: "Invalid", message }],
  });
}
