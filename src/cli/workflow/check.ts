// Checks the text of a workflow for its author. Errors are those of POST /workflows, found by the same parser
// with an agent's default limits; warnings are likely mistakes.

import { type Expression, type Node, parse, type Pattern } from "acorn";
import { DEFAULT_LIMITS } from "../../config/limits.ts";
import { openDecoders } from "../../decoder/pool.ts";
import { openSourceChecks } from "../../decoder/source_checks.ts";
import { AgentError, type FieldError, messageOf } from "../../domain/error.ts";
import { jsonProblem } from "../../domain/json_problem.ts";
import { randomUuid, type WorkflowUuid } from "../../domain/id.ts";
import { DAY_SECONDS, HOUR_SECONDS, MS_PER_SECOND } from "../../domain/instant.ts";
import { linesOfSource } from "../../domain/job/import_word.ts";
import { PHASES } from "../../domain/job/state.ts";
import { type CheckSources, readWorkflow, type Workflow } from "../../domain/job/workflow.ts";
import { isFiniteJson, isJsonObject, jsonDepth, type JsonObject } from "../../domain/json.ts";
import { silentLog } from "../../metrics/log.ts";
import { selfCommand } from "../../runtime/executable.ts";

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

// Places in the source of a task, as its author counts: lines and columns from 1 within the text of the body,
// no matter how the JSON around it is broken into lines.

/** A place in a source; both count from 1. */
interface SourcePlace {
  readonly line: number;
  readonly column: number;
}

/** Characters shown of a line; bodies are often one long line. */
const EXCERPT_CHARS = 72;
/** How many of them are before the place. */
const BEFORE_CHARS = 40;
const CUT = "…";

/** The place at the end of a message about a source, if there is one. */
function placeIn(message: string): SourcePlace | undefined {
  const match = /in line (\d+), column (\d+)$/.exec(message);
  return match === null ? undefined : { line: Number(match[1]), column: Number(match[2]) };
}

/** The line of a source, cut around the place, and below it a mark at the place. */
function excerptOf(source: string, { line, column }: SourcePlace): readonly string[] {
  const text = linesOfSource(source)[line - 1] ?? "";
  const start = column - 1 > EXCERPT_CHARS - CUT.length ? column - 1 - BEFORE_CHARS : 0;
  const head = start > 0 ? CUT : "";
  const end = start + EXCERPT_CHARS;
  const tail = end < text.length ? CUT : "";
  // One cell per character, so that the mark is in the right place.
  const shown = text.slice(start, end).replace(/[\t\v\f]/g, " ");
  const before = " ".repeat(head.length + column - 1 - start);
  return [`${head}${shown}${tail}`, `${before}^`];
}

// Likely mistakes in the source of a task, found by parsing it, never by running it. Errors come from
// decoder/work/task_sources.ts.

/** A mistake, in words that continue the name of the field. */
interface SourceMistake {
  readonly words: string;
  readonly place?: SourcePlace;
}

type FunctionNode = Extract<
  Expression,
  { type: "FunctionExpression" | "ArrowFunctionExpression" }
>;

/** Number of arguments before the callback: job, and for a fallback the error too. */
const CALLBACK_AT = { body: 1, fallback: 2 } as const;

/** Likely mistakes of a source that is a function. */
function sourceMistakes(source: string, kind: keyof typeof CALLBACK_AT): SourceMistake[] {
  const task = functionOf(source);
  if (task === undefined) return [];
  return callbackMistakes(task, CALLBACK_AT[kind]);
}

function functionOf(source: string): FunctionNode | undefined {
  try {
    // As the agent parses it; the line break allows the source to end in a line comment.
    const [statement] = parse(`(${source}\n)`, { ecmaVersion: 2024, locations: true }).body;
    const expression = statement?.type === "ExpressionStatement" ? statement.expression : undefined;
    const isFunction = expression?.type === "FunctionExpression" ||
      expression?.type === "ArrowFunctionExpression";
    return isFunction ? expression : undefined;
  } catch {
    // The workflow's own parser reports it, or it nests too deeply for this one, which needs more stack.
    return undefined;
  }
}

/** An async function has to call it too: its return means nothing. */
function callbackMistakes(task: FunctionNode, at: number): SourceMistake[] {
  const { params, body } = task;
  const name = callbackName(params, at);
  if (name === undefined) return [];
  const ownArguments = task.type === "FunctionExpression";
  for (const node of nodesOf([body, ...params.slice(at + 1)])) {
    if (node.type !== "Identifier") continue;
    const { name: found } = node as Node & { name: string };
    if (found === name || (ownArguments && found === "arguments")) return [];
  }
  const what = name === "" ? "takes no callback" : `never mentions its callback ${name}`;
  return [{ words: `${what}: the task cannot succeed` }];
}

/** Its name; empty when the function takes none, undefined when that is unknown. */
function callbackName(params: readonly Pattern[], at: number): string | undefined {
  if (params.slice(0, at + 1).some((param) => param.type === "RestElement")) return undefined;
  const param = params[at];
  if (param === undefined) return "";
  const target = param.type === "AssignmentPattern" ? param.left : param;
  return target.type === "Identifier" ? target.name : undefined;
}

/** All nodes below these, and they themselves, without recursion. */
function* nodesOf(roots: readonly Node[]): Generator<Node> {
  const open: unknown[] = [...roots];
  while (open.length > 0) {
    const item = open.pop();
    if (Array.isArray(item)) open.push(...item);
    if (!isNode(item)) continue;
    yield item;
    open.push(...Object.values(item));
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

// Likely mistakes in a workflow that an agent would accept. The list is short on purpose: each is almost
// never intended, and makes a job fail or do something else.

/** A likely mistake at a field. */
interface LikelyMistake {
  /** Path of the field, such as `chain[0].timeout`. */
  readonly field: string;
  readonly code: "LikelyMistake";
  /** A sentence that begins with the field. */
  readonly message: string;
  /** Where in the source of the field. */
  readonly place?: SourcePlace;
}

/** Every likely mistake in the body of a workflow, even if the rest is wrong. */
export function mistakesOf(body: JsonObject): LikelyMistake[] {
  return [
    ...timeoutMistakes(body, "timeout"),
    // Each list has a second spelling.
    ...PHASES.flatMap((list) => listMistakes(list, body[list] ?? body[`${list}[]`])),
  ];
}

function listMistakes(list: string, tasks: unknown): LikelyMistake[] {
  if (!Array.isArray(tasks) || tasks.length === 0) {
    const empty = list === "chain" && (tasks === undefined || Array.isArray(tasks));
    return empty ? [mistake("chain", "has no tasks: it cannot be run")] : [];
  }
  const seen = new Map<string, number>();
  return tasks.flatMap((task, index) => {
    if (!isJsonObject(task)) return [];
    const field = `${list}[${index}]`;
    const name = typeof task.name === "string" ? task.name : undefined;
    const first = name === undefined ? undefined : seen.get(name);
    if (name !== undefined && first === undefined) seen.set(name, index);
    return [
      ...(first === undefined ? [] : [
        mistake(
          `${field}.name`,
          `is also that of ${list}[${first}]: results, logs and ` +
            "retries cannot tell them apart",
        ),
      ]),
      ...taskMistakes(task, field),
    ];
  });
}

function taskMistakes(task: JsonObject, field: string): LikelyMistake[] {
  const sources = (["body", "fallback"] as const).flatMap((kind) => {
    const source = task[kind];
    if (typeof source !== "string") return [];
    return sourceMistakes(source, kind).map(({ words, place }) => ({
      ...mistake(`${field}.${kind}`, words),
      ...(place === undefined ? {} : { place }),
    }));
  });
  return [
    ...timeoutMistakes(task, `${field}.timeout`),
    ...sources,
  ];
}

/** Thousands of seconds that are not a whole number of hours or days are usually meant as milliseconds. */
function timeoutMistakes({ timeout }: JsonObject, field: string): LikelyMistake[] {
  if (typeof timeout !== "number" || timeout < MS_PER_SECOND) return [];
  const roundSeconds = timeout % (timeout < 2 * DAY_SECONDS ? HOUR_SECONDS : DAY_SECONDS) === 0;
  if (roundSeconds || timeout % MS_PER_SECOND !== 0) return [];
  const meant = timeout / MS_PER_SECOND;
  const words = `is in seconds: if ${timeout} means milliseconds, write ${meant}`;
  return [mistake(field, words)];
}

function mistake(field: string, words: string): LikelyMistake {
  return { field, code: "LikelyMistake", message: `${field} ${words}` };
}

// Checks workflows with a decoder of one's own: the command line parses sources as an agent does, within the
// limits of a decoder.

/**
 * Runs a function that checks texts as checkWorkflow() does, and ends the decoder afterwards.
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
