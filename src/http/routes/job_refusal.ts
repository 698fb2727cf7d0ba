// Why a wish for a job came to nothing, in the words of an error.

import { AgentError, unreachable } from "../../domain/error.ts";
import type { CreateJobOutcome } from "../../store/job_store.ts";
import { keyReused } from "../request/idempotency.ts";

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
