// Jobs: their fields, the words of the wire, and the parse of POST /jobs and of resume.
//
// A job runs its chain; when that fails, or its time is up, its onerror; when it is canceled, its
// oncancel. `phase` says which of the three it is in. What tasks set on their job object is kept in
// `props`, except for `params`, which has a column of its own.

import { AgentError, invalidArgument, unreachable } from "./error.ts";
import { type JobUuid, parseUuid, type RunnerId, type WorkflowUuid } from "./id.ts";
import { type Instant, parseInstant } from "./instant.ts";
import type { Execution } from "./job_state.ts";
import { isJsonObject, isWholeText, type JsonObject, type JsonValue } from "./json.ts";
import { DEFAULT_TIMEOUT_SECONDS, type Task, type Workflow } from "./workflow.ts";

export const PHASES = ["chain", "onerror", "oncancel"] as const;
/** Which of its chains a job is in. */
export type Phase = typeof PHASES[number];

/** What one task ended with. Entries exist only for tasks that ran. @see document 2, Job */
export interface TaskResult {
  readonly result: JsonValue;
  /** The empty text when there was none; a text, or `{name, message}` of an Error. */
  readonly error: JsonValue;
  /** The task's name, or its uuid when it has none. */
  readonly name: string;
  readonly started_at: Instant;
  readonly finished_at: Instant;
  /** Executions of the body. */
  readonly attempts: number;
}

/** A job as the store keeps it. @see document 2, Job */
export interface Job {
  readonly uuid: JobUuid;
  readonly workflow_uuid: WorkflowUuid;
  readonly name: string;
  readonly execution: Execution;
  readonly phase: Phase;
  readonly chain: readonly Task[];
  readonly onerror: readonly Task[];
  readonly oncancel: readonly Task[];
  /** Seconds for the chain; time spent queued or waiting does not count. */
  readonly timeout: number;
  readonly exec_after: Instant;
  readonly target: string | null;
  readonly params: JsonObject;
  /** What tasks set on the job besides `params`. */
  readonly props: JsonObject;
  readonly chain_results: readonly TaskResult[];
  readonly onerror_results: readonly TaskResult[];
  readonly oncancel_results: readonly TaskResult[];
  readonly created_at: Instant;
  /** When a runner first took the job. */
  readonly started_at: Instant | null;
  readonly finished_at: Instant | null;
  /** Milliseconds spent running the present phase before the present claim. */
  readonly elapsed_ms: number;
  readonly runner_id: RunnerId | null;
  /** Claims of the present task without a recorded result; see STARTS_MAX in run_job.ts. */
  readonly starts: number;
}

/** A job that is about to be written. */
export interface NewJob {
  readonly uuid: JobUuid;
  readonly workflow: Workflow;
  readonly exec_after: Instant;
  readonly target: string | null;
  readonly params: JsonObject;
  /** What the engine itself keeps on the job, such as the attempt that came before it. */
  readonly props?: JsonObject;
  readonly created_at: Instant;
}

/** What POST /jobs asks for. */
export interface JobRequest {
  readonly workflow_uuid: WorkflowUuid;
  readonly exec_after: Instant | null;
  readonly target: string | null;
  readonly params: JsonObject;
}

export interface JobLimits {
  /** Characters of `target`. */
  readonly targetCharsMax: number;
  /** Characters of `params` as JSON text. */
  readonly paramsCharsMax: number;
}

/**
 * Reads the body of POST /jobs: every key besides `workflow`, `exec_after` and `target` becomes a
 * parameter.
 * @throws {AgentError} `invalid_argument` naming the field
 * @see document 2, Endpoints
 */
export function parseJobRequest(body: unknown, limits: JobLimits): JobRequest {
  if (!isJsonObject(body)) {
    throw invalidArgument("body", "Cannot read the job: expected the body to be a JSON object");
  }
  const { workflow, exec_after, target, ...params } = body;
  const workflow_uuid = parseUuid<WorkflowUuid>(workflow, "workflow");
  if (target !== undefined && (typeof target !== "string" || target.length === 0)) {
    throw invalidArgument("target", "Cannot read target: expected a text that is not empty");
  }
  if (typeof target === "string" && !isWholeText(target)) {
    throw invalidArgument("target", "Cannot read target: it holds a NUL or half a character");
  }
  if (typeof target === "string" && target.length > limits.targetCharsMax) {
    const message = `Cannot accept target: it is over ${limits.targetCharsMax} characters`;
    throw invalidArgument("target", message, "TooLarge");
  }
  if (JSON.stringify(params).length > limits.paramsCharsMax) {
    const message =
      `Cannot accept the parameters: over ${limits.paramsCharsMax} characters of JSON`;
    throw new AgentError("too_large", message);
  }
  return {
    workflow_uuid,
    exec_after: exec_after === undefined ? null : parseInstant(exec_after, "exec_after"),
    target: target ?? null,
    params,
  };
}

/** The outcome of a waiting task as POST /jobs/:job_uuid/resume reports it. */
export type Resume =
  | { readonly kind: "result"; readonly result: JsonValue }
  | { readonly kind: "error"; readonly error: string; readonly result: JsonValue };

/** What differs between document 2 and node-workflow in a resume. */
export interface ResumeRules {
  /** Recorded when the caller reports no result. */
  readonly defaultResult: string;
  /** Whether an `error` of null, false, 0 or no characters makes the job fail. */
  readonly falsyErrorFails: boolean;
}

/** The rules of document 2: the mere presence of `error` counts. */
export const DOCUMENT_RESUME: ResumeRules = { defaultResult: "OK", falsyErrorFails: true };

/**
 * Reads the body of a resume.
 * @throws {AgentError} `invalid_argument`
 * @see document 2, States and transitions
 */
export function parseResume(body: unknown, rules: ResumeRules = DOCUMENT_RESUME): Resume {
  if (!isJsonObject(body)) {
    throw invalidArgument("body", "Cannot read the resume: expected the body to be a JSON object");
  }
  const { error, result } = body;
  if (error !== undefined && (rules.falsyErrorFails || Boolean(error))) {
    const text = typeof error === "string" ? error : JSON.stringify(error);
    return { kind: "error", error: text, result: result ?? "" };
  }
  return { kind: "result", result: result ?? rules.defaultResult };
}

/** The job's own copy of what its workflow says of time. */
export function timeoutOf(workflow: Workflow): number {
  return workflow.timeout ?? DEFAULT_TIMEOUT_SECONDS;
}

/** The tasks and the results of the phase that a job is in. */
export function phaseOf(job: Job): { tasks: readonly Task[]; results: readonly TaskResult[] } {
  switch (job.phase) {
    case "chain":
      return { tasks: job.chain, results: job.chain_results };
    case "onerror":
      return { tasks: job.onerror, results: job.onerror_results };
    case "oncancel":
      return { tasks: job.oncancel, results: job.oncancel_results };
    default:
      return unreachable(job.phase);
  }
}

/** The words of a response, and which of them change for clients of node-workflow. */
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

/** The execution that a list filter names. @throws {AgentError} `invalid_argument` */
export function parseExecutionFilter(word: string): Execution {
  switch (word) {
    case "success":
    case "succeeded":
      return "succeeded";
    case "failure":
    case "failed":
      return "failed";
    case "queued":
    case "running":
    case "waiting":
    case "canceled":
    case "retried":
      return word;
    default:
      throw invalidArgument(
        "execution",
        `Cannot filter by execution ${JSON.stringify(word)}: expected succeeded, failed, ` +
          "running, canceled, queued or waiting",
      );
  }
}

/** What the engine keeps of a job that was made anew by `cb('retry')`, and of the one after it. */
const ATTEMPT_FIELDS = ["num_attempts", "prev_attempt", "next_attempt"] as const;

/**
 * What only the engine sets on a job. A task that sets one of these on its job object has set
 * nothing: neither a later task nor a response sees it.
 */
export const ENGINE_FIELDS: ReadonlySet<string> = new Set([
  ...("uuid workflow_uuid workflow name execution phase chain onerror oncancel chain_results " +
    "onerror_results oncancel_results timeout exec_after target created_at started started_at " +
    "finished_at elapsed elapsed_ms runner_id starts props locks log attempt timeToDie " +
    "max_attempts initial_delay max_delay").split(" "),
  ...ATTEMPT_FIELDS,
]);

/** A job as a response shows it; engine fields that mean nothing to a caller are left out. */
export function jobOnWire(job: Job, wording: Wording): JsonObject {
  const { phase: _phase, props, runner_id, starts: _starts, elapsed_ms, ...fields } = job;
  const { target, started_at, finished_at, oncancel, oncancel_results, ...always } = fields;
  const shown: readonly string[] = ATTEMPT_FIELDS;
  const set = Object.entries(props).filter(([name]) =>
    !ENGINE_FIELDS.has(name) || shown.includes(name)
  );
  const wire: Record<string, unknown> = {
    ...Object.fromEntries(set),
    ...always,
    execution: executionOnWire(job.execution, wording),
    elapsed: elapsed_ms / 1000,
    ...(target === null ? {} : { target }),
    ...(started_at === null ? {} : { started_at }),
    ...(finished_at === null ? {} : { finished_at }),
    ...(runner_id === null ? {} : { runner_id }),
    ...(oncancel.length === 0 ? {} : { oncancel, oncancel_results }),
  };
  // Tasks are what was parsed from JSON; their type cannot say so, since it is open to any key.
  return wire as JsonObject;
}
