// The job that takes a finished one's place when a caller asks for it: from the beginning, or from
// one of its tasks, with the results of the tasks before that.

import { invalidArgument } from "../../domain/error.ts";
import type { JobUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { Job, NewJob, TaskResult } from "../../domain/job/job.ts";
import type { Workflow } from "../../domain/job/workflow.ts";

/** Where a retry begins: the place of a task in the chain, or its name or uuid. */
export type From = string | number;

/** The whole job again, of the workflow as it is now, or of the job's own copy when that is gone. */
export function wholeAttempt(
  job: Job,
  workflow: Workflow | undefined,
  uuid: JobUuid,
  now: Instant,
): NewJob {
  return { ...attemptOf(job, uuid, now), workflow: workflow ?? ownWorkflow(job) };
}

/**
 * The rest of the job: its own chain from one task on, which finds params and what tasks have set as
 * the job left them.
 * @throws {AgentError} `invalid_argument` naming `from`
 */
export function attemptFrom(job: Job, from: From, uuid: JobUuid, now: Instant): NewJob {
  const attempt = attemptOf(job, uuid, now);
  return {
    ...attempt,
    workflow: ownWorkflow(job),
    props: { ...job.props, ...attempt.props },
    chain_results: resultsBefore(job, taskIndex(job, from)),
  };
}

function attemptOf(
  job: Job,
  uuid: JobUuid,
  now: Instant,
): Omit<NewJob, "workflow"> & Required<Pick<NewJob, "props">> {
  const { target, params, locks, callback_url } = job;
  const { num_attempts, secret_params } = job.props;
  const attempts = typeof num_attempts === "number" ? num_attempts : 0;
  return {
    uuid,
    exec_after: now,
    target,
    params,
    locks,
    callback_url,
    props: {
      num_attempts: attempts + 1,
      prev_attempt: job.uuid,
      ...(secret_params === undefined ? {} : { secret_params }),
    },
    created_at: now,
  };
}

/** What the job knows of its workflow, which may be another one by now. */
function ownWorkflow(job: Job): Workflow {
  const { workflow_uuid, name, chain, onerror, oncancel, timeout } = job;
  return { uuid: workflow_uuid, name, chain, onerror, oncancel, timeout };
}

function taskIndex({ uuid, chain }: Job, from: From): number {
  const shown = JSON.stringify(from);
  if (typeof from === "number") {
    if (from < chain.length) return from;
    const message = `Cannot retry job ${uuid} from task ${shown}: it has ${chain.length} tasks`;
    throw invalidArgument("from", message);
  }
  const [index, ...others] = Array.from(chain.keys()).filter((at) =>
    chain[at]?.name === from || chain[at]?.uuid === from
  );
  if (index === undefined) {
    const names = chain.map((task) => task.name ?? task.uuid).join(", ");
    const message = `Cannot retry job ${uuid} from ${shown}: expected one of its tasks, ${names}`;
    throw invalidArgument("from", message);
  }
  if (others.length === 0) return index;
  const message =
    `Cannot retry job ${uuid} from ${shown}: tasks ${[index, ...others].join(", ")} ` +
    "are called so, expected the index of one";
  throw invalidArgument("from", message);
}

/** The entries of the tasks before one. @throws {AgentError} `invalid_argument` naming `from` */
function resultsBefore(job: Job, index: number): readonly TaskResult[] {
  const { uuid, chain, chain_results } = job;
  const results = chain_results.slice(0, index);
  // The last task of a job that failed is the one that failed, whatever its entry says of it.
  const last = job.execution === "failed" ? chain_results.length - 1 : -1;
  const failed = results.findIndex((entry, at) => at === last || !isPassed(entry));
  if (results.length === index && failed === -1) return results;
  const at = failed === -1 ? results.length : failed;
  const name = chain[at]?.name ?? chain[at]?.uuid;
  const message =
    `Cannot retry job ${uuid} from task ${index}: task ${at}, ${name}, comes before ` +
    "it and has not succeeded";
  throw invalidArgument("from", message);
}

/** A task that put its job back to the queue was done; its entry says so in the place of an error. */
function isPassed({ error }: TaskResult): boolean {
  return error === "" || error === "queue";
}
