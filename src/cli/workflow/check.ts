// What is wrong with the text of a workflow, told to the one who wrote it. The errors are those of
// POST /workflows, by the same parse and with the limits that an agent has unless it is configured
// otherwise; the warnings are likely slips, see workflow_slips.ts.

import type { Definition } from "../../config/definition.ts";
import { LIMITS } from "../../config/limits.ts";
import { AgentError, type FieldError, messageOf } from "../../domain/error.ts";
import { randomUuid, type WorkflowUuid } from "../../domain/id.ts";
import { isFiniteJson, isJsonObject, jsonDepth, type JsonObject } from "../../domain/json.ts";
import { type CheckSources, readWorkflow, type Workflow } from "../../domain/job/workflow.ts";
import { excerptOf, type Place, placeIn } from "./workflow_place.ts";
import { slipsOf } from "./workflow_slips.ts";

/** Something wrong with a workflow, or likely to be. */
export interface Finding {
  /** Path of the field, such as `chain[0].body`; `body` for the workflow as a whole. */
  readonly field: string;
  readonly code: FieldError["code"] | "LikelySlip";
  /** A sentence that begins with the field. */
  readonly message: string;
  /** Name of the task. */
  readonly task?: string;
  /** Where in the source of a body or fallback; both count from 1. */
  readonly line?: number;
  readonly column?: number;
  /** The line of the source, and below it a mark; only for people. */
  readonly excerpt?: readonly string[];
}

/** What came of the check: the workflow when an agent would accept it. */
export interface CheckedWorkflow {
  readonly errors: readonly Finding[];
  readonly warnings: readonly Finding[];
  readonly workflow: Workflow | undefined;
}

/**
 * Checks the text of a body of POST /workflows.
 * @throws {AgentError} `aborted`, `internal` when its sources cannot be read at all
 */
export async function checkWorkflow(
  text: string,
  checkSources: CheckSources,
  signal: AbortSignal,
): Promise<CheckedWorkflow> {
  let body: unknown;
  try {
    body = readBody(text);
  } catch (error) {
    const errors = [wholeError(`the workflow ${messageOf(error)}`)];
    return { errors, warnings: [], workflow: undefined };
  }
  const slips = isJsonObject(body) ? slipsOf(body).map((slip) => completed(slip, body)) : [];
  try {
    const read = readWorkflow(body, randomUuid<WorkflowUuid>(), randomUuid, {
      tasksMax: usualValue(LIMITS.tasks_max),
      sourceCharsMax: usualValue(LIMITS.source_chars_max),
      retryMax: usualValue(LIMITS.retry_max),
      timeoutSecondsMax: usualValue(LIMITS.timeout_seconds_max),
    });
    const workflow = read.accept(await checkSources(read.sources, signal));
    return { errors: [], warnings: slips, workflow };
  } catch (error) {
    if (!(error instanceof AgentError) || error.code !== "invalid_argument") throw error;
    const errors = error.errors.map((one) =>
      isJsonObject(body) ? completed(one, body) : wholeError(error.message)
    );
    // What is wrong anyway need not be called a slip too.
    const warnings = slips.filter(({ field }) => !errors.some((one) => one.field === field));
    return { errors, warnings, workflow: undefined };
  }
}

/** As a request would be read; throws in words that follow "the workflow". */
function readBody(text: string): unknown {
  const bytesMax = usualValue(LIMITS.body_bytes_max);
  const depthMax = usualValue(LIMITS.json_depth_max);
  if (new TextEncoder().encode(text).length > bytesMax) {
    throw new Error(`is over ${bytesMax} bytes`);
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new Error(`is not JSON: ${messageOf(error)}`, { cause: error });
  }
  if (jsonDepth(body, depthMax) > depthMax) {
    throw new Error(`is nested deeper than ${depthMax} levels`);
  }
  if (!isFiniteJson(body)) throw new Error("holds a number beyond the range of a double");
  return body;
}

function wholeError(message: string): Finding {
  return { field: "body", code: "Invalid", message };
}

/** A finding with what its field tells: the task, and the place in its source. */
function completed(
  { field, code, message, place }: FindingStart,
  body: JsonObject,
): Finding {
  const task = taskAt(field, body);
  const name = typeof task?.name === "string" ? task.name : undefined;
  const source = task?.[/\.(body|fallback)$/.exec(field)?.[1] ?? ""];
  const at = place ?? placeIn(message);
  return {
    field,
    code,
    message,
    ...(name === undefined ? {} : { task: name }),
    ...(at === undefined || typeof source !== "string"
      ? {}
      : { ...at, excerpt: excerptOf(source, at) }),
  };
}

interface FindingStart extends Pick<Finding, "field" | "code" | "message"> {
  readonly place?: Place;
}

/** The task that a path such as `onerror[1].body` goes through. */
function taskAt(field: string, body: JsonObject): JsonObject | undefined {
  const [, list = "", index = ""] = /^(chain|onerror|oncancel)\[(\d+)\]/.exec(field) ?? [];
  const tasks = body[list] ?? body[`${list}[]`];
  const task = Array.isArray(tasks) ? tasks[Number(index)] : undefined;
  return isJsonObject(task) ? task : undefined;
}

/** The value of a setting that nobody has set. */
function usualValue<T>({ fallback }: Definition<T>): T {
  return fallback({ dev: false, cwd: "/", os: Deno.build.os });
}
