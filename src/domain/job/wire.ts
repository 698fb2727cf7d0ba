// Jobs on the wire: the words of a response, and which fields it shows.

import { invalidArgument } from "../error.ts";
import { type Instant, msBetween } from "../instant.ts";
import { HOST_STATES, type JobHost } from "../host.ts";
import { type Job, TASK_RESULT } from "./job.ts";
import { ANY_HOST, TASK } from "./workflow.ts";
import {
  always,
  ANY_OBJECT,
  COUNT,
  INSTANT,
  listOf,
  objectOf,
  SECONDS,
  type Shape,
  type ShapeOf,
  shapeRef,
  TEXT,
  URI,
  UUID,
  WHOLE_SECONDS,
  wordOf,
} from "../description/answer.ts";
import { type Execution, isStopConfirmed } from "./state.ts";
import type { JsonObject, JsonValue } from "../json.ts";

/** The words of a response; `node-workflow` changes some of them for its clients. */
export type Wording = "document" | "node-workflow";

/**
 * The word for an execution in a response: document 2 shows finished jobs as `success` and
 * `failure`; node-workflow's clients look for `succeeded` and `failed`.
 */
export function executionOnWire(execution: Execution, wording: Wording): string {
  if (wording === "node-workflow") return execution;
  if (execution === "succeeded") return "success";
  if (execution === "failed") return "failure";
  return execution;
}

/** The executions by the words of both conventions. */
const EXECUTION_OF: Readonly<Record<string, Execution>> = {
  succeeded: "succeeded",
  failed: "failed",
  running: "running",
  canceled: "canceled",
  queued: "queued",
  waiting: "waiting",
  retried: "retried",
  success: "succeeded",
  failure: "failed",
};

/** Every word for an execution, in either convention. */
export const EXECUTION_WORDS: readonly string[] = Object.keys(EXECUTION_OF);

/** The execution of a job in answers. */
export const EXECUTION: Shape<string> = {
  ...wordOf(EXECUTION_WORDS),
  description: "The state of the job. Finished jobs are `success` or `failure`; with `compat = " +
    '"node-workflow"`, `succeeded` or `failed`. A job that a task replaced by ' +
    "`cb('retry')` is `retried`.",
};

/** The execution that a filter names. @throws {AgentError} `invalid_argument` */
export function parseExecutionFilter(word: string): Execution {
  const execution = Object.hasOwn(EXECUTION_OF, word) ? EXECUTION_OF[word] : undefined;
  if (execution !== undefined) return execution;
  throw invalidArgument(
    "execution",
    `Cannot filter by execution ${JSON.stringify(word)}, expected one of ` +
      EXECUTION_WORDS.join(", "),
  );
}

/**
 * What the engine records about a retried job and its successor. `next_attempt_refused` says why cb('retry') created
 * none. `params_from` names the job whose final params a job begins with; other jobs begin with the requested params.
 */
const ATTEMPT_FIELDS = [
  "num_attempts",
  "prev_attempt",
  "next_attempt",
  "next_attempt_refused",
  "params_from",
] as const;

/**
 * Fields that only the engine sets. A task that sets one of them on its job changes nothing: neither later tasks nor
 * responses show it.
 */
export const ENGINE_FIELDS: ReadonlySet<string> = new Set([
  ...("uuid workflow_uuid workflow name execution phase chain onerror oncancel chain_results " +
    "onerror_results oncancel_results timeout exec_after target created_at started started_at " +
    "finished_at elapsed elapsed_ms runner_id starts lease props locks callback_url reason " +
    "next_run_at claimable_at log attempt timeToDie max_attempts initial_delay max_delay wf_uuid " +
    "secret_params placement ordered_by host host_uuid host_state stop_confirmed")
    .split(" "),
  ...ATTEMPT_FIELDS,
]);

/** Why a job does not run, for callers who wait for it; empty for a running or finished job. */
export function waitOf(
  job: Pick<Job, "execution" | "claimable_at">,
  now: Instant,
): Pick<JobOnWire, "reason" | "next_run_at"> {
  if (job.execution === "waiting") return { reason: "waiting_for_resume" };
  if (job.execution !== "queued" || job.claimable_at === null) return {};
  if (job.claimable_at <= now) return { reason: "waiting_for_slot" };
  return { reason: "scheduled", next_run_at: job.claimable_at };
}

/** Milliseconds that the present phase of a job has run until now. */
export function elapsedMs(
  { elapsed_ms, elapsed_at }: Pick<Job, "elapsed_ms" | "elapsed_at">,
  now: Instant,
): number {
  return elapsed_ms + (elapsed_at === null ? 0 : Math.max(msBetween(elapsed_at, now), 0));
}

/** Largest params, in bytes, that are also shown as fields of their job. */
export const EXTRA_FIELDS_BYTES_MAX = 64 * 1024;
/** Names of params that are never shown as fields of their job. */
export const NO_EXTRA_FIELDS: ReadonlySet<string> = new Set([...ENGINE_FIELDS, "params"]);

/** The params as fields of the job, where clients of node-workflow look for them. */
function extraFields({ params, props }: Job): [string, JsonValue][] {
  const bytes = new TextEncoder().encode(JSON.stringify(params)).byteLength;
  if (bytes > EXTRA_FIELDS_BYTES_MAX) return [];
  return Object.entries(params)
    .filter(([name]) => !NO_EXTRA_FIELDS.has(name) && !Object.hasOwn(props, name));
}

const TASKS = listOf(shapeRef("Task", TASK));
const RESULTS = listOf(shapeRef("TaskResult", TASK_RESULT));

/** Fields for the host of a job. */
export const HOST_OF_JOB = {
  host: {
    ...TEXT,
    description: "Name of the host that runs the job, or has run it. Absent for a job that any " +
      "host may run and none has taken.",
  },
  host_uuid: { ...UUID, description: "The uuid of that host." },
  host_state: {
    ...wordOf(HOST_STATES),
    description: "Whether that host takes jobs: `away` if it was not heard within its lease, " +
      "`cordoned` or `forgotten`. Absent for a connected one.",
  },
};

/** The values of these fields for one host. */
export function hostFields(host: JobHost | undefined) {
  if (host === undefined) return {};
  const { name, uuid, state } = host;
  return { host: name, host_uuid: uuid, ...(state === "connected" ? {} : { host_state: state }) };
}

/** A job in an answer. @see document 2, Job */
export const JOB = objectOf(
  "A job. Whatever its tasks set on the job object is added to these fields.",
  [
    "uuid",
    "workflow_uuid",
    "name",
    "execution",
    "chain",
    "onerror",
    "timeout",
    "exec_after",
    "params",
    "chain_results",
    "onerror_results",
    "created_at",
    "elapsed",
  ],
  {
    uuid: UUID,
    workflow_uuid: { ...UUID, description: "The workflow that the job was created from." },
    name: { ...TEXT, description: "The workflow's name." },
    execution: shapeRef("Execution", EXECUTION),
    chain: TASKS,
    onerror: TASKS,
    oncancel: TASKS,
    timeout: { ...WHOLE_SECONDS, description: "Seconds for the chain." },
    exec_after: { ...INSTANT, description: "The job does not run before this time." },
    target: {
      ...TEXT,
      description:
        "While the job is unfinished, no other job with this target and equal params is " +
        "accepted.",
    },
    locks: {
      ...TEXT,
      description:
        "While the job is unfinished, no job whose target matches this pattern is accepted.",
    },
    callback_url: { ...URI, description: "Called when the job is finished." },
    reason: {
      ...wordOf(["scheduled", "waiting_for_slot", "waiting_for_resume"]),
      description:
        "Why an unfinished job is not running: its time has not come, no slot is free or no guest " +
        "starts, or a task waits for `resume`.",
    },
    next_run_at: { ...INSTANT, description: "When a scheduled job may run." },
    params: ANY_OBJECT,
    chain_results: RESULTS,
    onerror_results: RESULTS,
    oncancel_results: RESULTS,
    created_at: INSTANT,
    started_at: { ...INSTANT, description: "When a runner first took the job." },
    finished_at: INSTANT,
    elapsed: { ...SECONDS, description: "Seconds that its tasks have run so far." },
    runner_id: { ...UUID, description: "The runner that is running the job." },
    ...HOST_OF_JOB,
    stop_confirmed: {
      ...always(false),
      description:
        "The job is canceled, and its host has not yet said that the task has ended: its " +
        "target and its machine stay claimed. Absent otherwise.",
    },
    placement: {
      ...always(ANY_HOST),
      description: "Any host may run the job: its workflow says so.",
    },
    ordered_by: {
      ...TEXT,
      description: "Who ordered the job, where hosts share the store: `token:NAME`, `socket` or " +
        "`loopback`, as the agent that accepted it has written it there.",
    },
    num_attempts: { ...COUNT, description: "How many times the job was repeated." },
    prev_attempt: { ...UUID, description: "The job that this one repeats." },
    next_attempt_refused: {
      ...TEXT,
      description: "Why `cb('retry')` created no other job.",
    },
    params_from: {
      ...UUID,
      description:
        "The job whose params, as its tasks left them, this one started with. Absent if it " +
        "started with those of the request.",
    },
    next_attempt: { ...UUID, description: "The job that repeats this one." },
  },
  "open",
);
type JobOnWire = ShapeOf<typeof JOB>;

/** Fields of the engine that answers show. */
export const SHOWN_FIELDS: readonly string[] = [...ATTEMPT_FIELDS, "placement", "ordered_by"];

/**
 * A job as a response shows it, without fields that mean nothing to callers.
 * @param host the host of the job, if known
 */
export function jobOnWire(
  job: Job,
  wording: Wording,
  now: Instant,
  host?: JobHost,
): JsonObject {
  const set = Object.entries(job.props).filter(([name]) =>
    !ENGINE_FIELDS.has(name) || SHOWN_FIELDS.includes(name)
  );
  const fields: JobOnWire = {
    uuid: job.uuid,
    workflow_uuid: job.workflow_uuid,
    name: job.name,
    execution: executionOnWire(job.execution, wording),
    ...waitOf(job, now),
    chain: job.chain,
    onerror: job.onerror,
    chain_results: job.chain_results,
    onerror_results: job.onerror_results,
    ...(job.oncancel.length === 0
      ? {}
      : { oncancel: job.oncancel, oncancel_results: job.oncancel_results }),
    timeout: job.timeout,
    exec_after: job.exec_after,
    params: job.params,
    ...given("target", job.target),
    ...given("locks", job.locks),
    ...given("callback_url", job.callback_url),
    created_at: job.created_at,
    ...given("started_at", job.started_at),
    ...given("finished_at", job.finished_at),
    ...given("runner_id", job.runner_id),
    ...hostFields(host),
    ...(isStopConfirmed(job, host) ? {} : { stop_confirmed: false }),
    elapsed: (job.phases_ms + elapsedMs(job, now)) / 1000,
  };
  const wire: Record<string, unknown> = {
    ...(wording === "node-workflow" ? Object.fromEntries(extraFields(job)) : {}),
    ...Object.fromEntries(set),
    ...fields,
  };
  // Tasks were parsed from JSON; their type, open to any key, cannot say so.
  return wire as JsonObject;
}

function given<N extends string>(name: N, value: string | null): { readonly [Name in N]?: string } {
  return value === null ? {} : { [name]: value } as { readonly [Name in N]: string };
}
