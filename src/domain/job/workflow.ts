// Workflows and tasks: what document 2 says of their fields, and the parse that names every wrong
// one by its path. Unknown keys are kept as sent and returned as sent; a task gets a uuid and
// nothing else, so that clients may compare what they sent with what they read.

import { AgentError, type FieldError, invalidArgument } from "../error.ts";
import { isUuid, type NewUuid, type TaskUuid, type WorkflowUuid } from "../id.ts";
import type { Instant } from "../instant.ts";
import { isJsonObject, isWholeText } from "../json.ts";

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
  /** Names of fields whose values only administrators may see; an extension. */
  readonly secret_params?: readonly string[];
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
/** Names that `secret_params` may hold. */
export const SECRET_PARAMS_MAX = 64;

/**
 * What keeps each source from being the definition of one function, in words that follow the name of
 * its field; undefined where nothing does.
 * @throws {AgentError} `invalid_argument` when they take too much to be read; `aborted`, `overloaded`
 */
export type CheckSources = (
  sources: readonly string[],
  signal: AbortSignal,
) => Promise<readonly (string | undefined)[]>;

/** A workflow whose fields were looked at, but for its sources: these are no work for the agent. */
export interface ReadWorkflow {
  /** Each body and fallback that is a text within its limit, in the order of their fields. */
  readonly sources: readonly string[];
  /**
   * The workflow as sent, with `uuid`, and a uuid in every task.
   * @param problems what CheckSources says of `sources`; none for sources that are known to be sound
   * @throws {AgentError} `invalid_argument` naming every incorrect field
   */
  accept(problems: readonly (string | undefined)[]): Workflow;
}

/** What was found so far: errors, and between them the places of sources that are not read yet. */
interface Findings {
  readonly errors: FieldError[];
  readonly sources: { readonly field: string; readonly source: string; readonly before: number }[];
}

/**
 * Reads the body of POST or PUT /workflows, but for its sources.
 * @throws {AgentError} `invalid_argument` for a body that is no object
 * @see document 2, Endpoints
 */
export function readWorkflow(
  body: unknown,
  uuid: WorkflowUuid,
  newUuid: NewUuid,
  limits: WorkflowLimits,
): ReadWorkflow {
  if (!isJsonObject(body)) {
    throw invalidArgument(
      "body",
      "Cannot read the workflow: expected the body to be a JSON object",
    );
  }
  // Document 2 writes the lists as `chain[]`. `wf_uuid` is what GET adds; a client that sends back
  // what it read must not make it part of the workflow.
  const { wf_uuid: _, "chain[]": chainList, "onerror[]": onerrorList, ...sent } = body;
  const found: Findings = { errors: [], sources: [] };
  checkName(found.errors, sent.name);
  checkInteger(found.errors, sent.timeout, "timeout", 1, limits.timeoutSecondsMax);
  checkSecretParams(found.errors, sent.secret_params);
  const chain = parseChain(found, sent.chain ?? chainList, "chain", newUuid, limits);
  const onerror = parseChain(found, sent.onerror ?? onerrorList, "onerror", newUuid, limits);
  const oncancel = sent.oncancel === undefined
    ? undefined
    : parseChain(found, sent.oncancel, "oncancel", newUuid, limits);
  return {
    sources: found.sources.map(({ source }) => source),
    accept(problems) {
      const errors = allErrors(found, problems);
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
    },
  };
}

/** The errors in the order of their fields, those of sources among them. */
function allErrors(found: Findings, problems: readonly (string | undefined)[]): FieldError[] {
  const all: FieldError[] = [];
  let at = 0;
  for (const [index, { field, before }] of found.sources.entries()) {
    const problem = problems[index];
    if (problem === undefined) continue;
    for (; at < before; at++) all.push(...found.errors.slice(at, at + 1));
    all.push(fieldError(field, "Invalid", `${field} ${problem}`));
  }
  return [...all, ...found.errors.slice(at)];
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

function checkSecretParams(errors: FieldError[], names: unknown): void {
  if (names === undefined) return;
  const field = "secret_params";
  const isName = (name: unknown) =>
    typeof name === "string" && name !== "" && name.length <= NAME_CHARS_MAX && isWholeText(name);
  if (!Array.isArray(names) || !names.every(isName)) {
    const message = `${field} must be a list of names of 1 to ${NAME_CHARS_MAX} characters`;
    errors.push(fieldError(field, "Invalid", message));
  } else if (names.length > SECRET_PARAMS_MAX) {
    errors.push(fieldError(field, "TooLarge", `${field} has over ${SECRET_PARAMS_MAX} names`));
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
  found: Findings,
  value: unknown,
  field: string,
  newUuid: NewUuid,
  limits: WorkflowLimits,
): Task[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) {
    found.errors.push(fieldError(field, "Invalid", `${field} must be a list of tasks`));
    return [];
  }
  if (value.length > limits.tasksMax) {
    found.errors.push(fieldError(field, "TooLarge", `${field} has over ${limits.tasksMax} tasks`));
    return [];
  }
  return value.map((task, index) => parseTask(found, task, `${field}[${index}]`, newUuid, limits));
}

function parseTask(
  found: Findings,
  value: unknown,
  field: string,
  newUuid: NewUuid,
  limits: WorkflowLimits,
): Task {
  if (!isJsonObject(value)) {
    found.errors.push(fieldError(field, "Invalid", `${field} must be an object`));
    return { uuid: newUuid<TaskUuid>(), body: "" };
  }
  if (value.name !== undefined && typeof value.name !== "string") {
    found.errors.push(fieldError(`${field}.name`, "Invalid", `${field}.name must be a text`));
  }
  if (value.modules !== undefined) {
    const message = `${field}.modules is refused: a task body has no modules, see docs/tasks.md`;
    found.errors.push(fieldError(`${field}.modules`, "Invalid", message));
  }
  if (value.body === undefined) {
    found.errors.push(fieldError(`${field}.body`, "Missing", `${field}.body is missing`));
  } else checkSource(found, value.body, `${field}.body`, limits);
  if (value.fallback !== undefined) {
    checkSource(found, value.fallback, `${field}.fallback`, limits);
  }
  checkInteger(found.errors, value.retry, `${field}.retry`, 0, limits.retryMax);
  checkInteger(found.errors, value.timeout, `${field}.timeout`, 1, limits.timeoutSecondsMax);
  checkInteger(
    found.errors,
    value.retry_delay,
    `${field}.retry_delay`,
    0,
    limits.timeoutSecondsMax,
  );
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
  found: Findings,
  source: unknown,
  field: string,
  limits: WorkflowLimits,
): void {
  if (typeof source !== "string") {
    found.errors.push(fieldError(field, "Invalid", `${field} must be the text of a function`));
    return;
  }
  if (source.length > limits.sourceCharsMax) {
    const message = `${field} is over ${limits.sourceCharsMax} characters`;
    found.errors.push(fieldError(field, "TooLarge", message));
    return;
  }
  found.sources.push({ field, source, before: found.errors.length });
}
