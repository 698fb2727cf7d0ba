// Orders jobs from the store. The store returns outcomes; this file turns those without a job into errors for callers.

import { AgentError, invalidArgument, type NamedRefusal, unreachable } from "../domain/error.ts";
import type { JobUuid, WorkflowUuid } from "../domain/id.ts";
import { SERVER_PARAM } from "../domain/job/job.ts";
import { type Idempotency, IDEMPOTENCY_KEY } from "../domain/job/idempotency.ts";
import type { Workflow } from "../domain/job/workflow.ts";
import type { RequestMemory } from "../domain/memory_budget.ts";
import type {
  CreateJobOutcome,
  EarlierOutcome,
  JobOrder,
  JobStore,
  OrderOutcome,
  OrderRules,
} from "./job_store.ts";
import { noHost } from "./host_store.ts";
import type { Store } from "./store.ts";

/** Bytes of a workflow from which the creation of its job reserves memory. */
const LARGE_WORKFLOW_BYTES = 128 * 1024;
/** Memory per byte of a workflow: its text, its value, and its text in the new job. */
const WORKFLOW_BYTE_WEIGHT = 4;

/**
 * Creates a job in one call of the store. A large workflow needs a second call, and memory until the answer is sent.
 * @throws {AgentError} `overloaded`
 */
export async function orderJob(
  order: JobOrder,
  rules: Omit<OrderRules, "workflowBytesMax">,
  jobs: Pick<JobStore, "order">,
  memory: RequestMemory,
): Promise<OrderOutcome> {
  const first = await jobs.order(order, { ...rules, workflowBytesMax: LARGE_WORKFLOW_BYTES });
  if (first.kind !== "large_workflow") return first;
  const { bytes } = first;
  await memory.reserve("jobs", WORKFLOW_BYTE_WEIGHT * bytes, "create a job");
  return await jobs.order(order, { ...rules, workflowBytesMax: bytes });
}

/** Reads a built-in workflow. @throws {AgentError} `not_found` when the store has none */
export async function builtinWorkflow(
  uuid: WorkflowUuid,
  { workflows }: Pick<Store, "workflows">,
): Promise<Workflow> {
  const stored = await workflows.get(uuid);
  if (stored !== undefined) return stored.workflow;
  const message = `Cannot start the job: its built-in workflow ${uuid} is missing`;
  throw new AgentError("not_found", message);
}

/** The outcome of an order that has a job, from this call or an earlier one. */
type CarriedOut = Extract<OrderOutcome, { kind: "created" | "repeated" }>;

/**
 * The outcome of an order with its job.
 * @throws {AgentError} `not_found` naming the workflow; `overloaded`; see jobRefusal()
 */
export function carriedOut(outcome: OrderOutcome, { workflow_uuid: uuid }: JobOrder): CarriedOut {
  switch (outcome.kind) {
    case "created":
    case "repeated":
      return outcome;
    case "no_workflow":
      throw new AgentError("not_found", `Cannot create a job: no workflow has uuid ${uuid}`, {
        about: { kind: "workflow", name: uuid },
      });
    case "no_tasks":
      throw invalidArgument("workflow", `Cannot create a job: workflow ${uuid} has no tasks`);
    case "large_workflow":
      throw new AgentError(
        "overloaded",
        `Cannot create a job: workflow ${uuid} changed while it was read`,
      );
    default:
      throw jobRefusal(outcome);
  }
}

/** An outcome without a job. */
type RefusedJob = Exclude<CreateJobOutcome, { kind: "created" | "repeated" }>;

/** The error for a job that does not exist. */
export function jobNotFound(uuid: JobUuid, refusal?: NamedRefusal): AgentError {
  const message = `Cannot find job ${uuid}: it does not exist, or was removed`;
  return new AgentError("not_found", message, refusal === undefined ? {} : { refusal });
}

/** The error for a request that created no job. */
export function jobRefusal(outcome: RefusedJob): AgentError {
  switch (outcome.kind) {
    case "duplicate":
      return targetTaken(outcome, "with the same target and params is not finished", "equal_job");
    case "locked":
      return targetTaken(outcome, "locks the target");
    case "machine_taken":
      return targetTaken(outcome, "of the same machine is not finished");
    case "full":
      return new AgentError(
        "overloaded",
        `Cannot create a job: there are ${outcome.limit} ${outcome.what}, the maximum`,
      );
    case "no_host":
      return noHost(outcome, "Cannot create a job", SERVER_PARAM);
    case "key_reused":
      return keyReused(outcome);
    default:
      return unreachable(outcome);
  }
}

function targetTaken(
  { job_uuid }: { readonly job_uuid: JobUuid },
  how: string,
  refusal?: NamedRefusal,
): AgentError {
  const message = `Cannot create a job: job ${job_uuid} ${how}`;
  return new AgentError("conflict", message, {
    ...(refusal === undefined ? {} : { refusal }),
    about: { kind: "job", name: job_uuid },
    errors: [{ field: "target", code: "Invalid", message }],
  });
}

/**
 * The job that an earlier request created with the same key, or undefined. Call this before all other checks, because
 * the workflow and everything else may have changed since.
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
    about: { kind: "job", name: job_uuid },
    errors: [{ field: IDEMPOTENCY_KEY, code: "Invalid", message }],
  });
}
