// Likely slips in the source of a task, found by parsing it, never by running it. What keeps a
// source from being accepted at all is told by domain/task_source.ts.

import { type Expression, type Node, parse, type Pattern } from "acorn";
import type { Place } from "./workflow_place.ts";

/** A slip in words that follow the name of the field. */
export interface SourceSlip {
  readonly words: string;
  readonly place?: Place;
}

type FunctionNode = Extract<
  Expression,
  { type: "FunctionExpression" | "ArrowFunctionExpression" }
>;

/** Before the callback: job, and for a fallback the error. */
const CALLBACK_AT = { body: 1, fallback: 2 } as const;

/** The likely slips of a source; none of one that is not a function. */
export function sourceSlips(source: string, kind: keyof typeof CALLBACK_AT): SourceSlip[] {
  const task = functionOf(source);
  if (task === undefined) return [];
  return callbackSlips(task, CALLBACK_AT[kind]);
}

function functionOf(source: string): FunctionNode | undefined {
  try {
    // As the agent reads it; the line break lets the source end in a line comment.
    const [statement] = parse(`(${source}\n)`, { ecmaVersion: 2024, locations: true }).body;
    const expression = statement?.type === "ExpressionStatement" ? statement.expression : undefined;
    const isFunction = expression?.type === "FunctionExpression" ||
      expression?.type === "ArrowFunctionExpression";
    return isFunction ? expression : undefined;
  } catch {
    // Told as an error by the parse of the workflow, or too deep for this one, which needs more stack.
    return undefined;
  }
}

/** An async function has to call it too: that it returns means nothing. */
function callbackSlips(task: FunctionNode, at: number): SourceSlip[] {
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

/** Its name; empty when the function takes none, undefined when that cannot be told. */
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
