// Checks the text of a workflow for its author. Errors are those of POST /workflows, found by the same parser
// with an agent's default limits; warnings are likely mistakes.

import { DEFAULT_LIMITS } from "../../config/limits.ts";
import { openDecoders } from "../../decoder/pool.ts";
import { openSourceChecks } from "../../decoder/source_checks.ts";
import { AgentError, type FieldError, messageOf } from "../../domain/error.ts";
import { jsonProblem } from "../../domain/json_problem.ts";
import { randomUuid, type WorkflowUuid } from "../../domain/id.ts";
import { type CheckSources, readWorkflow, type Workflow } from "../../domain/job/workflow.ts";
import { isFiniteJson, isJsonObject, jsonDepth, type JsonObject } from "../../domain/json.ts";
import { silentLog } from "../../metrics/log.ts";
import { selfCommand } from "../../runtime/executable.ts";
import { excerptOf, mistakesOf, placeIn, type SourcePlace } from "./mistakes.ts";

/** Something wrong with a workflow, or likely to be. */
export interface WorkflowFinding {
  /** Path of the field, such as `chain[0].body`; `body` for the workflow as a whole. */
  readonly field: string;
  readonly code: FieldError["code"] | "LikelyMistake";
  /** A sentence that begins with the field. */
  readonly message: string;
  readonly task?: string;
  /** Position in the source of a body or fallback; both count from 1. */
  readonly line?: number;
  readonly column?: number;
  /** The line of the source, with a mark below it; only for people. */
  readonly excerpt?: readonly string[];
}

/** The result of a check: the workflow, if an agent would accept it. */
export interface CheckedWorkflow {
  readonly errors: readonly WorkflowFinding[];
  readonly warnings: readonly WorkflowFinding[];
  readonly workflow: Workflow | undefined;
}

/**
 * Runs a function that checks texts of workflows, with a decoder of its own: the command line
 * parses sources as an agent does, within the limits of a decoder, which ends afterwards.
 * @throws {AgentError} `internal` when no decoder can be started; whatever the function throws
 */
export async function withWorkflowCheck<T>(
  run: (check: (text: string) => Promise<CheckedWorkflow>) => Promise<T>,
): Promise<T> {
  const decoders = openDecoders({ self: selfCommand(), log: silentLog });
  const { acceptable } = openSourceChecks(decoders);
  const { signal } = new AbortController();
  try {
    return await run((text) => checkWorkflow(text, acceptable, signal));
  } finally {
    await decoders.close();
  }
}

/**
 * Checks the text of a body of POST /workflows.
 * @throws {AgentError} `aborted`, `internal` when its sources cannot be parsed at all
 */
async function checkWorkflow(
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
  const likely = isJsonObject(body) ? mistakesOf(body).map((one) => completed(one, body)) : [];
  try {
    const read = readWorkflow(body, randomUuid<WorkflowUuid>(), randomUuid, DEFAULT_LIMITS);
    const workflow = read.accept(await checkSources(read.sources, signal));
    return { errors: [], warnings: likely, workflow };
  } catch (error) {
    if (!(error instanceof AgentError) || error.code !== "invalid_argument") throw error;
    const errors = error.errors.map((one) =>
      isJsonObject(body) ? completed(one, body) : wholeError(error.message)
    );
    // A field with an error needs no warning.
    const warnings = likely.filter(({ field }) => !errors.some((one) => one.field === field));
    return { errors, warnings, workflow: undefined };
  }
}

/** Reads it as a request would be; throws messages that continue "the workflow". */
function readBody(text: string): unknown {
  const { bodyBytesMax: bytesMax, jsonDepthMax: depthMax } = DEFAULT_LIMITS;
  const bytes = new TextEncoder().encode(text).length;
  if (bytes > bytesMax) {
    throw new Error(`has ${bytes} bytes, expected at most ${bytesMax}`);
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new Error(`is not JSON: ${jsonProblem(text)}`, { cause: error });
  }
  if (jsonDepth(body, depthMax) > depthMax) {
    throw new Error(`is nested deeper than ${depthMax} levels`);
  }
  if (!isFiniteJson(body)) throw new Error("holds a number beyond the range of a double");
  return body;
}

function wholeError(message: string): WorkflowFinding {
  return { field: "body", code: "Invalid", message };
}

/** Adds what the field shows: the task, and the place in its source. */
function completed(
  { field, code, message, place }: WorkflowFindingStart,
  body: JsonObject,
): WorkflowFinding {
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

interface WorkflowFindingStart extends Pick<WorkflowFinding, "field" | "code" | "message"> {
  readonly place?: SourcePlace;
}

/** The task that a path such as `onerror[1].body` goes through. */
function taskAt(field: string, body: JsonObject): JsonObject | undefined {
  const [, list = "", index = ""] = /^(chain|onerror|oncancel)\[(\d+)\]/.exec(field) ?? [];
  const tasks = body[list] ?? body[`${list}[]`];
  const task = Array.isArray(tasks) ? tasks[Number(index)] : undefined;
  return isJsonObject(task) ? task : undefined;
}
