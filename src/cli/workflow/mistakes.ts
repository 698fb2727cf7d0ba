// Likely mistakes in a workflow that an agent would accept, and in the sources of its tasks, found by parsing them,
// never by running them. Errors come from decoder/work/task_sources.ts. The list is short on purpose: each is almost
// never intended, and makes a job fail or do something else. Places in a source are as its author counts: lines and
// columns from 1 within the text of the body, no matter how the JSON around it is broken into lines.

import { type Expression, type Node, parse, type Pattern } from "acorn";
import { DAY_SECONDS, HOUR_SECONDS, MS_PER_SECOND } from "../../domain/instant.ts";
import { linesOfSource } from "../../domain/job/import_word.ts";
import { PHASES } from "../../domain/job/state.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";

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

/** A place in a source; both count from 1. */
export interface SourcePlace {
  readonly line: number;
  readonly column: number;
}

/** Characters shown of a line; bodies are often one long line. */
const EXCERPT_CHARS = 72;
/** How many of them are before the place. */
const BEFORE_CHARS = 40;
const CUT = "…";

/** The place at the end of a message about a source, if there is one. */
export function placeIn(message: string): SourcePlace | undefined {
  const match = /in line (\d+), column (\d+)$/.exec(message);
  return match === null ? undefined : { line: Number(match[1]), column: Number(match[2]) };
}

/** The line of a source, cut around the place, and below it a mark at the place. */
export function excerptOf(source: string, { line, column }: SourcePlace): readonly string[] {
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
