// POST /agent/v1/jobs/:job_uuid/retry: creates a new job from a finished one, from the beginning, or from one of its
// tasks with the results of those before it. Each names the other. A job is retried once; after that, retry the newer
// job.

import { type Context, Hono } from "hono";
import { AgentError, invalidArgument, unreachable } from "../../../domain/error.ts";
import { object } from "../../../domain/description/object.ts";
import { parse } from "../../../domain/description/description.ts";
import { about, either, integer, text } from "../../../domain/description/value.ts";
import type { JobUuid } from "../../../domain/id.ts";
import { isFree, type Job, type NewJob, type TaskResult } from "../../../domain/job/job.ts";
import { HEAP_BYTES_MAX, type JsonValue } from "../../../domain/json.ts";
import { denialOf, stateOf } from "../../../domain/job/state.ts";
import { executionOnWire } from "../../../domain/job/wire.ts";
import type { ReserveOptions } from "../../../domain/memory_budget.ts";
import type { ChangedJob, RetryOutcome } from "../../../store/job_store.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import { jobText, jobUuidOf } from "./change.ts";
import { jobNotFound, jobRefusal } from "../../../store/job_orders.ts";
import { PROVISION_MACHINE } from "../../../machines/workflows/provision_machine.ts";
import { readJson, smallBody } from "../../request/body.ts";
import type { MachineJobs } from "../../../machines/machine_jobs.ts";
import { answerJob } from "../../answer/text_answer.ts";
import { type Caller, orderedBy, showingTo } from "../../caller.ts";
import { ANY_HOST, taskName, type Workflow } from "../../../domain/job/workflow.ts";

/** The part of the context that a retry uses. */
export type RetryContext = Pick<
  ServedAgent,
  "store" | "limits" | "now" | "newUuid" | "log" | "budget" | "wording"
>;

/** Milliseconds to wait for memory: a call on many jobs waits many times. */
const RETRY_TURN: ReserveOptions = { turnMs: 120_000 };

/** The route of one job's retry. */
export function jobRetryRoutes(context: RetryContext, machineJobs: MachineJobs): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.post("/agent/v1/jobs/:job_uuid/retry", (c) => postRetry(c, context, machineJobs));
  return app;
}

async function postRetry(
  c: Context<HttpEnv>,
  context: RetryContext,
  machineJobs: MachineJobs,
): Promise<Response> {
  const uuid = jobUuidOf(c);
  const body = await readJson(c, smallBody(context.limits));
  const { from } = parse(retryRequest, body, "", "retry");
  const made = await retryJob(uuid, { from, caller: c.get("caller") }, context, machineJobs);
  const showing = showingTo(c.get("caller"), context);
  const text = await jobText(made, showing, context);
  return await answerJob(
    c,
    { text, showing, status: 201, headers: { location: `/jobs/${made}` } },
    context,
  );
}

/** The body of a retry. */
export const retryRequest = object({
  from: about(
    "Name, uuid or index of a task: earlier results are kept, and params and whatever " +
      "tasks set are as the job left them. By default, the whole job.",
    either<string | number>(
      "the name or the uuid of a task, or its index",
      text(/[\s\S]/, "a name"),
      integer(0, Number.MAX_SAFE_INTEGER),
    ),
  ),
});

interface RetryOrder {
  /** The task to begin with; without it, the whole job. */
  readonly from?: From | undefined;
  readonly caller: Caller | undefined;
}

/**
 * Retries a finished job.
 * @returns the new job
 * @throws {AgentError} `not_found`, `conflict`, `invalid_argument`, `overloaded`
 */
export async function retryJob(
  uuid: JobUuid,
  order: RetryOrder,
  context: RetryContext,
  machineJobs: MachineJobs,
): Promise<JobUuid> {
  const bytes = await context.store.jobs.bytes(uuid);
  if (bytes === undefined) throw jobNotFound(uuid);
  const held = await context.budget.reserve(
    "jobs",
    HEAP_BYTES_MAX * bytes,
    `retry job ${uuid}`,
    RETRY_TURN,
  );
  try {
    return await retryHeldJob(uuid, order, context, machineJobs);
  } finally {
    held.release();
  }
}

async function retryHeldJob(
  uuid: JobUuid,
  { from, caller }: RetryOrder,
  context: RetryContext,
  machineJobs: MachineJobs,
): Promise<JobUuid> {
  const { store, limits } = context;
  const job = await store.jobs.get(uuid);
  if (job === undefined) throw jobNotFound(uuid);
  const { next_attempt } = job.props;
  // Checked before `from` and before the machine. The store decides again with the write.
  const denial = denialOf(stateOf(job), { kind: "retry", retried: next_attempt !== undefined });
  if (denial === "unfinished") throw unfinished(job, context);
  if (next_attempt !== undefined) throw retriedAlready(uuid, next_attempt);
  const by = orderedBy(caller, context);
  const successor = { ...await successorOf(job, from, context), ...by };
  const outcome = machineJobs.owns(job.workflow_uuid)
    ? await machineJobs.retry(uuid, successor)
    : await store.jobs.retry(uuid, successor, limits.unfinishedJobsMax);
  if (outcome.kind !== "created") throw refusalOf(outcome, uuid, context);
  return outcome.job.uuid;
}

async function successorOf(
  job: Job,
  from: From | undefined,
  context: RetryContext,
): Promise<NewJob> {
  const { store, newUuid } = context;
  if (from === undefined) {
    const stored = await store.workflows.get(job.workflow_uuid);
    return wholeAttempt(job, stored?.workflow, newUuid<JobUuid>());
  }
  if (job.workflow_uuid === PROVISION_MACHINE.uuid) {
    // The results of the earlier tasks were undone, or belong to the machine of the old job.
    const message =
      `Cannot retry job ${job.uuid} from ${JSON.stringify(from)}: a machine is made ` +
      "from the first task; leave `from` out";
    throw invalidArgument("from", message);
  }
  return attemptFrom(job, from, newUuid<JobUuid>());
}

function refusalOf(
  outcome: Exclude<RetryOutcome, { kind: "created" }>,
  uuid: JobUuid,
  context: RetryContext,
): AgentError {
  switch (outcome.kind) {
    case "not_found":
      return jobNotFound(uuid);
    case "denied":
      return outcome.reason === "retried"
        ? retriedAlready(uuid, outcome.next_attempt)
        : unfinished(outcome.job, context);
    case "duplicate":
    case "locked":
    case "machine_taken":
    case "no_host":
    case "full":
      return jobRefusal(outcome);
    default:
      return unreachable(outcome);
  }
}

/** A canceled job is unfinished while its oncancel chain runs. */
function unfinished({ uuid, execution }: ChangedJob, { wording }: RetryContext): AgentError {
  const found = execution === "canceled"
    ? "its oncancel chain is not done"
    : `execution is "${executionOnWire(execution, wording)}", expected a finished job`;
  return new AgentError("conflict", `Cannot retry job ${uuid}: it is unfinished, ${found}`);
}

function retriedAlready(uuid: JobUuid, next: JsonValue): AgentError {
  const message = `Cannot retry job ${uuid}: it was retried already, by job ${next}`;
  return new AgentError("conflict", message, { about: { kind: "job", name: String(next) } });
}

/** Where a retry begins: the index of a task in the chain, or its name or uuid. */
type From = string | number;

/** The whole job, from the current workflow, or from the job's own copy if that was deleted. */
function wholeAttempt(
  job: Job,
  workflow: Workflow | undefined,
  uuid: JobUuid,
): NewJob {
  return { ...attemptOf(job, uuid), workflow: workflow ?? ownWorkflow(job) };
}

/**
 * The rest of the job: its own chain from one task on, with the params and properties that it had at the end;
 * `params_from` says so.
 * @throws {AgentError} `invalid_argument` naming `from`
 */
function attemptFrom(job: Job, from: From, uuid: JobUuid): NewJob {
  const attempt = attemptOf(job, uuid);
  const { next_attempt_refused: _old, ...props } = job.props;
  return {
    ...attempt,
    workflow: ownWorkflow(job),
    params: job.params,
    requested_params: job.requested_params,
    props: { ...props, ...attempt.props, params_from: job.uuid },
    chain_results: resultsBefore(job, taskIndex(job, from)),
  };
}

function attemptOf(
  job: Job,
  uuid: JobUuid,
): Omit<NewJob, "workflow"> & Required<Pick<NewJob, "props">> {
  const { target, requested_params, locks, callback_url, machine_uuid } = job;
  const { num_attempts, secret_params } = job.props;
  const attempts = typeof num_attempts === "number" ? num_attempts : 0;
  return {
    uuid,
    target,
    params: requested_params,
    locks,
    callback_url,
    machine_uuid,
    props: {
      num_attempts: attempts + 1,
      prev_attempt: job.uuid,
      ...(secret_params === undefined ? {} : { secret_params }),
    },
  };
}

/** The job's own copy of its workflow, which may have changed. */
function ownWorkflow(job: Job): Workflow {
  const { workflow_uuid, name, chain, onerror, oncancel, timeout } = job;
  const workflow = { uuid: workflow_uuid, name, chain, onerror, oncancel, timeout };
  return isFree(job.props) ? { ...workflow, placement: ANY_HOST } : workflow;
}

function taskIndex({ uuid, chain }: Job, from: From): number {
  const shown = JSON.stringify(from);
  if (typeof from === "number") {
    if (from < chain.length) return from;
    const message = `Cannot retry job ${uuid} from task ${shown}: it has ${chain.length} tasks, ` +
      "counted from 0";
    throw invalidArgument("from", message);
  }
  const [index, ...others] = Array.from(chain.keys()).filter((at) =>
    chain[at]?.name === from || chain[at]?.uuid === from
  );
  if (index === undefined) {
    const names = chain.map(taskName).join(", ");
    const message = `Cannot retry job ${uuid} from ${shown}, expected one of its tasks, ${names}`;
    throw invalidArgument("from", message);
  }
  if (others.length === 0) return index;
  const message =
    `Cannot retry job ${uuid} from ${shown}: tasks ${[index, ...others].join(", ")} ` +
    "are called so, expected the index of one";
  throw invalidArgument("from", message);
}

/** The results of the tasks before one. @throws {AgentError} `invalid_argument` naming `from` */
function resultsBefore(job: Job, index: number): readonly TaskResult[] {
  const { uuid, chain, chain_results } = job;
  const results = chain_results.slice(0, index);
  // The last task of a failed job is the one that failed, whatever its entry says.
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

/** Whether a task is done. One that put its job back into the queue is; its entry says so in `error`. */
function isPassed({ error }: TaskResult): boolean {
  return error === "" || error === "queue";
}
