// The source of a task: that it is one function definition and nothing else, and that it imports
// nothing. This is found out by reading it, never by running it. Running happens only behind the
// sandbox's walls, where code cannot be made from strings: what is not in the source cannot come into
// being later.

import type { Expression } from "acorn";
import { importProblem } from "./import_word.ts";
import { parseTask } from "./task_parser.ts";

const SOURCE_OPTIONS = {
  ecmaVersion: 2024,
  sourceType: "script",
  allowAwaitOutsideFunction: false,
} as const;

/**
 * What keeps a text from being the definition of one function that imports nothing, or undefined when
 * nothing does. The text is read as an expression in parentheses, as it is when the task runs; named, anonymous,
 * arrow and async functions all are definitions.
 */
export function functionProblem(source: string): string | undefined {
  return importProblem(source) ?? definitionProblem(source);
}

function definitionProblem(source: string): string | undefined {
  let program;
  try {
    // The line break lets the source end in a line comment.
    program = parseTask(`(${source}\n)`, SOURCE_OPTIONS);
  } catch (error) {
    return `is not a function definition: ${parseMessage(error)}`;
  }
  const [statement] = program.body;
  if (program.body.length !== 1 || statement?.type !== "ExpressionStatement") {
    return "is not a function definition: it holds more than one expression";
  }
  return expressionProblem(statement.expression);
}

function expressionProblem(expression: Expression): string | undefined {
  switch (expression.type) {
    case "FunctionExpression":
      return expression.generator ? "is a generator: expected a plain function" : undefined;
    case "ArrowFunctionExpression":
      return undefined;
    default:
      return "is not a function definition";
  }
}

/** acorn appends `(line:column)`, counted in a text with our parenthesis in front of it. */
function parseMessage(error: unknown): string {
  // acorn descends by recursion and runs out of stack long before a source is too long.
  if (error instanceof RangeError) return "it is nested too deeply";
  if (!(error instanceof SyntaxError)) throw error;
  const place = /^(.*) \((\d+):(\d+)\)$/s.exec(error.message);
  if (place === null) return error.message;
  const [, what, line, column] = place;
  const shift = line === "1" ? 0 : 1;
  return `${what} in line ${line}, column ${Number(column) + shift}`;
}
