// Checks the sources of tasks: each is one function definition and nothing else, and it imports nothing. The agent decides
// this by parsing, never by running. Tasks run only behind the sandbox's walls, where code cannot be made from strings:
// what is not in the source cannot appear later. The parser recurses, and the text decides its time and memory.

import { AgentError } from "../../domain/error.ts";
import type { DecoderWork } from "../decoder_message.ts";
import { type Expression, type Options, Parser, type Program } from "acorn";
import { importProblem, linesOfSource } from "../../domain/job/import_word.ts";

/** Characters of one problem; it may quote names from the source. */
const PROBLEM_CHARS_MAX = 500;

/**
 * Checks a JSON list of sources. Returns for each the reason why it cannot be a task, worded to follow the
 * name of its field, or null.
 */
export const taskSourcesWork: DecoderWork = async (_, input) => {
  const sources: unknown = JSON.parse(await textOf(input));
  if (!Array.isArray(sources)) throw new AgentError("malformed", "Cannot parse, expected a list");
  return sources.map((source: unknown) => cut(functionProblem(String(source))));
};

async function textOf(input: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of input) text += decoder.decode(part, { stream: true });
  return text + decoder.decode();
}

function cut(problem: string | undefined): string | null {
  if (problem === undefined) return null;
  return problem.length <= PROBLEM_CHARS_MAX ? problem : `${problem.slice(0, PROBLEM_CHARS_MAX)}…`;
}

const SOURCE_OPTIONS = {
  ecmaVersion: 2024,
  sourceType: "script",
  allowAwaitOutsideFunction: false,
} as const;

/**
 * Why a text is not the definition of one function that imports nothing; undefined if it is. The text is read
 * as an expression in parentheses, as when the task runs; named, anonymous, arrow and async functions are all
 * definitions.
 */
export function functionProblem(source: string): string | undefined {
  return importProblem(source) ?? definitionProblem(source);
}

const FUNCTION = "one function such as (job, cb) => { cb(null); }";

/** Expressions that are sent instead of a function, as errors name them. */
const KINDS: Readonly<Record<string, string>> = {
  ArrayExpression: "a list",
  AssignmentExpression: "an assignment",
  CallExpression: "a call",
  ClassExpression: "a class",
  Identifier: "a name",
  Literal: "a text or a number",
  NewExpression: "a new object",
  ObjectExpression: "an object",
  TemplateLiteral: "a template",
};

function refusal(why: string): string {
  return `is not a function definition: ${why}`;
}

function definitionProblem(source: string): string | undefined {
  let program;
  try {
    // The line break lets the source end in a line comment.
    program = parseTask(`(${source}\n)`, SOURCE_OPTIONS);
  } catch (error) {
    return refusal(endProblem(source, error) ?? parseProblem(source, error));
  }
  const [statement] = program.body;
  if (program.body.length !== 1 || statement?.type !== "ExpressionStatement") {
    return refusal(`found more than one expression, expected ${FUNCTION}`);
  }
  return expressionProblem(statement.expression);
}

function expressionProblem(expression: Expression): string | undefined {
  switch (expression.type) {
    case "FunctionExpression":
      return expression.generator ? `is a generator, expected ${FUNCTION}` : undefined;
    case "ArrowFunctionExpression":
      return undefined;
    default:
      return refusal(`found ${KINDS[expression.type] ?? "another value"}, expected ${FUNCTION}`);
  }
}

/** What is wrong where the text ends; undefined for a mistake within it. */
function endProblem(source: string, error: unknown): string | undefined {
  // The parser stumbles over the parenthesis that stands behind the text, which its author has not written.
  if (!(error instanceof SyntaxError && Number(Reflect.get(error, "pos")) > source.length)) {
    return undefined;
  }
  try {
    parseTask(`(${source}\n`, SOURCE_OPTIONS);
    return "found one closing parenthesis too many, expected none at the end";
  } catch {
    const lines = linesOfSource(source);
    const column = (lines.at(-1) ?? "").length + 1;
    return `expected the rest of the function, found the end in line ${lines.length}, column ${column}`;
  }
}

/** acorn appends `(line:column)`, counted in a text with our parenthesis in front of it. */
function parseProblem(source: string, error: unknown): string {
  // acorn descends by recursion and runs out of stack long before a source is too long.
  if (error instanceof RangeError) return "found more nesting than the parser takes";
  if (!(error instanceof SyntaxError)) throw error;
  const place = /^(.*) \((\d+):(\d+)\)$/s.exec(error.message);
  if (place === null) return error.message;
  const [, what = "", line, column] = place;
  const shift = line === "1" ? 0 : 1;
  const where = `in line ${line}, column ${Number(column) + shift}`;
  // Its offset counts our parenthesis too.
  const found = source.codePointAt(Number(Reflect.get(error, "pos")) - 1);
  if (what !== "Unexpected token" || found === undefined) return `${lowerFirst(what)} ${where}`;
  return `found an unexpected ${JSON.stringify(String.fromCodePoint(found))} ${where}`;
}

function lowerFirst(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1);
}

/** How a name is declared, as acorn numbers it; a parameter counts as `var`. */
const BIND_LEXICAL = 2;
const BIND_FUNCTION = 3;
const BIND_SIMPLE_CATCH = 4;

/** Scopes that hold what `var` declares: program, function, static block of a class. */
const SCOPE_VAR = 1 | 2 | 256;

/** One scope as acorn hands it about. */
interface AcornScope {
  readonly flags: number;
}

/** Members of acorn's parser that its published types omit; the version is pinned, so they stay. */
declare module "acorn" {
  interface Parser {
    enterScope(flags: number): void;
    exitScope(): void;
    currentScope(): AcornScope;
    treatFunctionsAsVarInScope(scope: AcornScope): boolean;
    declareName(name: string, bindingType: number, pos: number): void;
    raiseRecoverable(pos: number, message: string): void;
  }
}

/** The names of a function, its blocks included. */
interface VarNames {
  /** When each name was last declared by `var`, in declarations and scopes counted since the start. */
  readonly declared: Map<string, number>;
  /** Open scopes that have a name which `var` may not repeat. */
  readonly taken: Map<string, number>;
}

/** The names of one scope, most often a block. */
interface ScopeNames {
  readonly entered: number;
  readonly lexical: Set<string>;
  readonly functions: Set<string>;
  /** Those that count in `taken` of its function. */
  readonly taken: string[];
  readonly vars: VarNames;
}

/**
 * acorn, with another record of the names in scope. acorn adds each `var` to every block around it and searches lists at
 * each declaration: 60,000 names in 100 blocks take all memory, and 40,000 in one block take seconds. Here every
 * declaration costs the same: a function keeps the last place at which each name was declared by `var`, and how many of
 * its open blocks declare the name in a way that `var` may not repeat.
 */
class TaskParser extends Parser {
  // Declared, not set: acorn enters the first scope before the fields of this class are set.
  declare private scopeNames: ScopeNames[];
  declare private serial: number;

  override enterScope(flags: number): void {
    super.enterScope(flags);
    this.scopeNames ??= [];
    this.serial ??= 0;
    const own = (flags & SCOPE_VAR) !== 0;
    const vars = own ? undefined : this.scopeNames.at(-1)?.vars;
    this.scopeNames.push({
      entered: ++this.serial,
      lexical: new Set(),
      functions: new Set(),
      taken: [],
      vars: vars ?? { declared: new Map(), taken: new Map() },
    });
  }

  override exitScope(): void {
    super.exitScope();
    const left = this.scopeNames.pop();
    for (const name of left?.taken ?? []) {
      left?.vars.taken.set(name, (left.vars.taken.get(name) ?? 0) - 1);
    }
  }

  /** As acorn does, in constant time. */
  override declareName(name: string, bindingType: number, pos: number): void {
    const scope = this.scopeNames.at(-1);
    if (scope === undefined) return super.declareName(name, bindingType, pos);
    if (this.isTaken(scope, name, bindingType)) {
      this.raiseRecoverable(pos, `Identifier '${name}' has already been declared`);
    }
    switch (bindingType) {
      case BIND_LEXICAL:
        if (!scope.lexical.has(name)) take(scope, name);
        scope.lexical.add(name);
        break;
      case BIND_SIMPLE_CATCH:
        // The one name that `var` may repeat: `catch (e) { var e; }`.
        scope.lexical.add(name);
        break;
      case BIND_FUNCTION:
        if (!this.functionsAreVars() && !scope.functions.has(name)) take(scope, name);
        scope.functions.add(name);
        break;
      default:
        scope.vars.declared.set(name, ++this.serial);
    }
  }

  private isTaken(scope: ScopeNames, name: string, bindingType: number): boolean {
    // Declared since the scope was entered and not yet left: so in that scope, or in a block inside it.
    const hasVar = (scope.vars.declared.get(name) ?? 0) > scope.entered;
    switch (bindingType) {
      case BIND_LEXICAL:
        return scope.lexical.has(name) || scope.functions.has(name) || hasVar;
      case BIND_SIMPLE_CATCH:
        return false;
      case BIND_FUNCTION:
        return scope.lexical.has(name) || !this.functionsAreVars() && hasVar;
      default:
        return (scope.vars.taken.get(name) ?? 0) > 0;
    }
  }

  private functionsAreVars(): boolean {
    return this.treatFunctionsAsVarInScope(this.currentScope());
  }
}

function take({ vars, taken }: ScopeNames, name: string): void {
  vars.taken.set(name, (vars.taken.get(name) ?? 0) + 1);
  taken.push(name);
}

/**
 * Parses a source as acorn does.
 * @throws {SyntaxError} with the place in its message; {RangeError} when it is nested too deeply
 */
export function parseTask(source: string, options: Options): Program {
  return TaskParser.parse(source, options);
}
