// Workflows and tasks: what document 2 says of their fields, and the parse that names every wrong
// one by its path. Unknown keys are kept as sent and returned as sent; a task gets a uuid and
// nothing else, so that clients may compare what they sent with what they read.

import { AgentError, type FieldError, invalidArgument } from "./error.ts";
import { isUuid, type NewUuid, type TaskUuid, type WorkflowUuid } from "./id.ts";
import type { Instant } from "./instant.ts";
import { isJsonObject, isWholeText } from "./json.ts";
import { functionProblem } from "./task_source.ts";

/** One task as sent, plus its uuid. @see document 2, Task */
export interface Task {
  readonly uuid: TaskUuid;
  readonly name?: string;
  /** Source of a function of `job` and `cb`. */
  readonly body: string;
  /** Source of a function of `err`, `job` and `cb`, called when the body has failed for good. */
  readonly fallback?: string;
  /** Further executions after the first one failed. */
  readonly retry?: number;
  /** Seconds for one execution of body or fallback. */
  readonly timeout?: number;
  /** Seconds between a failed execution and the next; an extension. */
  readonly retry_delay?: number;
  readonly [key: string]: unknown;
}

/** A named chain of tasks with its fallback chain. @see document 2, Workflow */
export interface Workflow {
  readonly uuid: WorkflowUuid;
  readonly name: string;
  readonly chain: readonly Task[];
  readonly onerror: readonly Task[];
  /** Tasks that run after a cancel. */
  readonly oncancel?: readonly Task[];
  /** Seconds for the execution of the chain. */
  readonly timeout?: number;
  readonly [key: string]: unknown;
}

/** A workflow with what the store knows of it. */
export interface StoredWorkflow {
  readonly workflow: Workflow;
  /** Part of the agent itself: it can be read and run, not changed or deleted. */
  readonly builtin: boolean;
  readonly created_at: Instant;
}

/** Largest sizes of one workflow; the configuration may set others. */
export interface WorkflowLimits {
  /** Tasks in one chain. */
  readonly tasksMax: number;
  /** Characters of one body or fallback. */
  readonly sourceCharsMax: number;
  /** Largest `retry` of a task. */
  readonly retryMax: number;
  /** Largest `timeout`, seconds. */
  readonly timeoutSecondsMax: number;
}

/** Seconds that a chain may run when its workflow names no `timeout`. */
export const DEFAULT_TIMEOUT_SECONDS = 3600;

const NAME_CHARS_MAX = 255;

/**
 * Reads the body of POST or PUT /workflows.
 * @returns the workflow as sent, with `uuid`, and a uuid in every task
 * @throws {AgentError} `invalid_argument` naming every incorrect field
 * @see document 2, Endpoints
 */
export function parseWorkflow(
  body: unknown,
  uuid: WorkflowUuid,
  newUuid: NewUuid,
  limits: WorkflowLimits,
): Workflow {
  if (!isJsonObject(body)) {
    throw invalidArgument(
      "body",
      "Cannot read the workflow: expected the body to be a JSON object",
    );
  }
  // Document 2 writes the lists as `chain[]`. `wf_uuid` is what GET adds; a client that sends back
  // what it read must not make it part of the workflow.
  const { wf_uuid: _, "chain[]": chainList, "onerror[]": onerrorList, ...sent } = body;
  const errors: FieldError[] = [];
  checkName(errors, sent.name);
  checkInteger(errors, sent.timeout, "timeout", 1, limits.timeoutSecondsMax);
  const chain = parseChain(errors, sent.chain ?? chainList, "chain", newUuid, limits);
  const onerror = parseChain(errors, sent.onerror ?? onerrorList, "onerror", newUuid, limits);
  const oncancel = sent.oncancel === undefined
    ? undefined
    : parseChain(errors, sent.oncancel, "oncancel", newUuid, limits);
  if (errors.length > 0) throw workflowError(errors);
  return {
    ...sent,
    uuid,
    // checkName has found nothing: it is a text.
    name: sent.name as string,
    chain,
    onerror,
    ...(oncancel === undefined ? {} : { oncancel }),
  } as Workflow; // timeout is an integer or absent: checkInteger has found nothing.
}

function checkName(errors: FieldError[], name: unknown): void {
  if (name === undefined) {
    errors.push(fieldError("name", "Missing", "name is missing"));
  } else if (typeof name !== "string" || name.length === 0) {
    errors.push(fieldError("name", "Invalid", "name must be a text that is not empty"));
  } else if (name.length > NAME_CHARS_MAX) {
    errors.push(fieldError("name", "TooLarge", `name is over ${NAME_CHARS_MAX} characters`));
  } else if (!isWholeText(name)) {
    errors.push(fieldError("name", "Invalid", "name holds a NUL or half a character"));
  }
}

function workflowError(errors: readonly FieldError[]): AgentError {
  const [first] = errors;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  return new AgentError(
    "invalid_argument",
    `Cannot accept the workflow: ${first?.message}${more}`,
    { errors },
  );
}

function fieldError(field: string, code: FieldError["code"], message: string): FieldError {
  return { field, code, message };
}

function parseChain(
  errors: FieldError[],
  value: unknown,
  field: string,
  newUuid: NewUuid,
  limits: WorkflowLimits,
): Task[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) {
    errors.push(fieldError(field, "Invalid", `${field} must be a list of tasks`));
    return [];
  }
  if (value.length > limits.tasksMax) {
    errors.push(fieldError(field, "TooLarge", `${field} has over ${limits.tasksMax} tasks`));
    return [];
  }
  return value.map((task, index) => parseTask(errors, task, `${field}[${index}]`, newUuid, limits));
}

function parseTask(
  errors: FieldError[],
  value: unknown,
  field: string,
  newUuid: NewUuid,
  limits: WorkflowLimits,
): Task {
  if (!isJsonObject(value)) {
    errors.push(fieldError(field, "Invalid", `${field} must be an object`));
    return { uuid: newUuid<TaskUuid>(), body: "" };
  }
  if (value.name !== undefined && typeof value.name !== "string") {
    errors.push(fieldError(`${field}.name`, "Invalid", `${field}.name must be a text`));
  }
  if (value.modules !== undefined) {
    const message = `${field}.modules is refused: a task body has no modules, see docs/tasks.md`;
    errors.push(fieldError(`${field}.modules`, "Invalid", message));
  }
  if (value.body === undefined) {
    errors.push(fieldError(`${field}.body`, "Missing", `${field}.body is missing`));
  } else checkSource(errors, value.body, `${field}.body`, limits);
  if (value.fallback !== undefined) {
    checkSource(errors, value.fallback, `${field}.fallback`, limits);
  }
  checkInteger(errors, value.retry, `${field}.retry`, 0, limits.retryMax);
  checkInteger(errors, value.timeout, `${field}.timeout`, 1, limits.timeoutSecondsMax);
  checkInteger(errors, value.retry_delay, `${field}.retry_delay`, 0, limits.timeoutSecondsMax);
  // A uuid that was sent is kept, so that a workflow that is read and written back stays the same.
  const uuid = isUuid(value.uuid) ? (value.uuid as TaskUuid) : newUuid<TaskUuid>();
  // checkSource has reported every body that is no text.
  return { ...value, uuid, body: value.body as string };
}

function checkInteger(
  errors: FieldError[],
  value: unknown,
  field: string,
  min: number,
  max: number,
): void {
  if (value === undefined) return;
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max) {
    const message = `${field} must be an integer from ${min} to ${max}`;
    errors.push(fieldError(field, "Invalid", message));
  }
}

function checkSource(
  errors: FieldError[],
  source: unknown,
  field: string,
  limits: WorkflowLimits,
): void {
  if (typeof source !== "string") {
    errors.push(fieldError(field, "Invalid", `${field} must be the text of a function`));
    return;
  }
  if (source.length > limits.sourceCharsMax) {
    const message = `${field} is over ${limits.sourceCharsMax} characters`;
    errors.push(fieldError(field, "TooLarge", message));
    return;
  }
  const problem = functionProblem(source);
  if (problem !== undefined) errors.push(fieldError(field, "Invalid", `${field} ${problem}`));
}
