// The last look at a source before it goes to a guest: that it is one function, and that it imports
// nothing. A parser decides, on the trusted side; code from strings cannot be made in a realm, so
// what is not in the source cannot come into being later.

import type { Node } from "acorn";
import { parseTask } from "../domain/task_parser.ts";
import { functionProblem } from "../domain/task_source.ts";

/** Sources whose answer is remembered; parsing is what costs. */
const REMEMBERED_MAX = 256;

/** A check of sources that remembers its answers. */
export type SourceCheck = (source: string) => string | undefined;

/**
 * Opens the check. It returns what keeps a source from being run, in words that follow the name of
 * the task, or undefined when nothing does.
 */
export function openSourceCheck(): SourceCheck {
  const remembered = new Map<string, string | undefined>();
  return (source) => {
    if (!remembered.has(source)) {
      if (remembered.size >= REMEMBERED_MAX) remembered.clear();
      remembered.set(source, functionProblem(source) ?? importProblem(source));
    }
    return remembered.get(source);
  };
}

/** What is wrong with a function that uses `import()`, or that this parse cannot see through. */
export function importProblem(source: string): string | undefined {
  let program: Node;
  try {
    program = parseTask(`(${source}\n)`, { ecmaVersion: 2024, locations: true });
  } catch {
    // It has parsed before, but with locations, or from here, the parser needs more stack.
    return "is nested too deeply";
  }
  const open: unknown[] = [program];
  while (open.length > 0) {
    const node = open.pop();
    if (Array.isArray(node)) open.push(...node);
    if (!isNode(node)) continue;
    if (node.type === "ImportExpression" || node.type === "MetaProperty" && isImportMeta(node)) {
      return `uses import() in line ${node.loc?.start.line}: a task body has no modules`;
    }
    open.push(...Object.values(node));
  }
  return undefined;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

function isImportMeta(node: Node): boolean {
  const { meta } = node as Node & { meta?: { name?: string } };
  return meta?.name === "import";
}
