// The parser of task sources. acorn keeps the names of a scope in lists and looks through them at
// each declaration: a source that declares 40,000 names would take seconds. Lists that also keep a
// set take the time of one pass.

import { type Options, Parser, type Program } from "acorn";

/** A list of names that finds one without looking through all. */
class Names extends Array<string> {
  readonly #places = new Map<string, number>();

  override push(...names: string[]): number {
    for (const name of names) {
      if (!this.#places.has(name)) this.#places.set(name, this.length);
      super.push(name);
    }
    return this.length;
  }

  override indexOf(name: string): number {
    return this.#places.get(name) ?? -1;
  }
}

/** What acorn keeps of a scope, which its types leave out; its version is pinned. */
declare module "acorn" {
  interface Parser {
    enterScope(flags: number): void;
    currentScope(): { var: string[]; lexical: string[]; functions: string[] };
  }
}

class TaskParser extends Parser {
  override enterScope(flags: number): void {
    super.enterScope(flags);
    const scope = this.currentScope();
    scope.var = new Names();
    scope.lexical = new Names();
    scope.functions = new Names();
  }
}

/**
 * Parses a source as acorn does.
 * @throws {SyntaxError} with the place in its message; {RangeError} when it is nested too deeply
 */
export function parseTask(source: string, options: Options): Program {
  return TaskParser.parse(source, options);
}
