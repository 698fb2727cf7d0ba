// The job that replaces another one which asked for a new attempt of the whole job.

import type { JobUuid } from "../domain/id.ts";
import { MS_PER_SECOND, YEAR_SECONDS } from "../domain/instant.ts";
import type { Job, NewJob } from "../domain/job/job.ts";
import type { Workflow } from "../domain/job/workflow.ts";

/** Number of jobs, including the first, for a workflow without `max_attempts`. */
const ATTEMPTS_OF_A_JOB = 10;
/** Longest delay: ten years. A longer one could leave the range of dates that sort as text. */
const DELAY_MS_MAX = 10 * YEAR_SECONDS * MS_PER_SECOND;
/** Doublings after which every delay has reached its maximum; the limit also keeps 0 from becoming NaN. */
const DOUBLINGS_MAX = 40;

/** The job that replaces another one, or why none does. */
type Successor =
  | { readonly kind: "made"; readonly job: NewJob }
  | { readonly kind: "refused"; readonly reason: string };

/**
 * Makes the job that replaces another after `cb('retry')`, from the current version of the workflow.
 * Workflows for node-workflow may contain any value in these fields; only sensible numbers count.
 */
export function successorOf(
  job: Job,
  workflow: Workflow | undefined,
  uuid: JobUuid,
): Successor {
  if (workflow === undefined) {
    return { kind: "refused", reason: `workflow ${job.workflow_uuid} was deleted` };
  }
  const { num_attempts, secret_params, ordered_by } = job.props;
  const attempt = numberOr(num_attempts, 0);
  if (attempt + 1 >= numberOr(workflow.max_attempts, ATTEMPTS_OF_A_JOB)) {
    const reason = `attempt ${attempt + 1} was the last that max_attempts allows`;
    return { kind: "refused", reason };
  }
  const delayMs = Math.min(
    numberOr(workflow.initial_delay, 0) * 2 ** Math.min(attempt, DOUBLINGS_MAX),
    numberOr(workflow.max_delay, DELAY_MS_MAX),
    DELAY_MS_MAX,
  );
  const next: NewJob = {
    uuid,
    workflow,
    delay_ms: delayMs,
    target: job.target,
    locks: job.locks,
    callback_url: job.callback_url,
    machine_uuid: job.machine_uuid,
    // The params of the request: changes that tasks made to them belong to this job.
    params: job.requested_params,
    props: {
      num_attempts: attempt + 1,
      prev_attempt: job.uuid,
      ...(secret_params === undefined ? {} : { secret_params }),
      ...(ordered_by === undefined ? {} : { ordered_by }),
    },
  };
  return { kind: "made", job: next };
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : otherwise;
}
