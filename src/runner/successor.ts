// The job that takes another one's place after `cb('retry')`. What a workflow says of it was written
// for node-workflow, which takes any value; only numbers that make sense count.

import type { JobUuid } from "../domain/id.ts";
import { type Instant, instantAfter } from "../domain/instant.ts";
import type { Job, NewJob } from "../domain/job/job.ts";
import type { Workflow } from "../domain/job/workflow.ts";

/** Jobs in all, the first one counted, when the workflow names no `max_attempts`. */
const ATTEMPTS_OF_A_JOB = 10;
/** Longest delay: ten years. More could leave the range of dates that sort as they read. */
const DELAY_MS_MAX = 10 * 365 * 86_400_000;
/** Doublings after which every delay is the longest, and no zero becomes NaN. */
const DOUBLINGS_MAX = 40;

/** The next attempt, made of the present workflow; null when this job was the last one. */
export function successorOf(
  job: Job,
  workflow: Workflow,
  uuid: JobUuid,
  now: Instant,
): NewJob | null {
  const attempt = numberOr(job.props.num_attempts, 0);
  if (attempt + 1 >= numberOr(workflow.max_attempts, ATTEMPTS_OF_A_JOB)) return null;
  const delayMs = Math.min(
    numberOr(workflow.initial_delay, 0) * 2 ** Math.min(attempt, DOUBLINGS_MAX),
    numberOr(workflow.max_delay, DELAY_MS_MAX),
    DELAY_MS_MAX,
  );
  return {
    uuid,
    workflow,
    exec_after: instantAfter(now, delayMs),
    target: job.target,
    locks: job.locks,
    callback_url: job.callback_url,
    params: job.params,
    props: { num_attempts: attempt + 1, prev_attempt: job.uuid },
    created_at: now,
  };
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : otherwise;
}
