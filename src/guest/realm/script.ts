// Compiles the source of a task into a script that runs in any realm, and keeps the scripts used last.
// It also makes sure that nothing can be imported in a realm.
//
// It does not try to find out whether a source has an `import()`: parsers disagree about that.
// Instead, every `import` is rewritten with an escape, as `imp\u006frt`, before V8 sees it. Names,
// properties, strings, templates and regular expressions keep their meaning, and V8 refuses the
// escape as a keyword. The rewritten text is what runs, so no other reading of it matters.
//
// In a realm that tasks share, the language, the capabilities and the rest are arguments of the script,
// so each task has its own, whatever it assigns to them and however late it uses them.

import { type Context, Script, type ScriptOptions } from "node:vm";
import { type Language, uncurried } from "../../wall/language.ts";
import { SCRIPTS_MAX } from "../../wall/protocol.ts";

/** Characters of a task's name that its file name keeps. */
const FILE_NAME_CHARS_MAX = 100;
const WORD = "import";
const ESCAPED = "imp\\u006frt";

/** Runs a script in a realm; anything it throws is an object of that realm. */
export const runScript: (script: Script, context: Context) => unknown = uncurried(
  Script.prototype.runInContext,
);

/** A compiled source: an expression whose value is a function that returns the task's function. */
export interface TaskScript {
  readonly script: Script;
  /**
   * The names of its arguments, separated by spaces; undefined when it needs a realm of its own, whose
   * globals they are.
   */
  readonly names: string | undefined;
}

/** Compiles the sources of tasks, and keeps those used last. */
export interface Compiler {
  /** The script of a source under a file name, or V8's message about what is wrong with it. */
  compile(file: string, source: string): TaskScript | string;
}

interface CompilerOptions {
  /** Whether `import` stays as it is written. */
  readonly imports: boolean;
  /** The names of a shared realm; undefined when each task has a realm of its own. */
  readonly sharedNames: readonly string[] | undefined;
}

/** A compiler that keeps the scripts used last. */
export function openCompiler(
  language: Language,
  { imports, sharedNames }: CompilerOptions,
): Compiler {
  const scripts = new Map<string, TaskScript>();
  const { mapGet, mapSet, mapDelete, mapSize, firstKey } = language;
  return {
    compile(file, source) {
      const key = `${file}\n${source}`;
      let script = mapGet(scripts, key);
      if (script === undefined) {
        const text = imports ? source : escaped(language, source);
        const compiled = compileText(language, file, text, namesIn(language, source, sharedNames));
        if (typeof compiled === "string") return compiled;
        script = compiled;
      }
      mapDelete(scripts, key);
      mapSet(scripts, key, script);
      if (mapSize(scripts) > SCRIPTS_MAX) mapDelete(scripts, firstKey(scripts));
      return script;
    },
  };
}

/**
 * The names that a source may use; a name written with escapes may be any of them.
 * @returns undefined for a source that may name the global object, which needs a realm of its own
 */
function namesIn(
  { textIndexOf }: Language,
  source: string,
  sharedNames: readonly string[] | undefined,
): readonly string[] | undefined {
  if (sharedNames === undefined || textIndexOf(source, "globalThis") !== -1) return undefined;
  if (textIndexOf(source, "\\u") !== -1) return sharedNames;
  const names: string[] = [];
  for (let at = 0; at < sharedNames.length; at++) {
    const name = sharedNames[at];
    if (name !== undefined && textIndexOf(source, name) !== -1) names[names.length] = name;
  }
  return names;
}

function compileText(
  language: Language,
  file: string,
  text: string,
  names: readonly string[] | undefined,
): TaskScript | string {
  const joined = (separator: string) => {
    let all = "";
    for (let at = 0; names !== undefined && at < names.length; at++) {
      all += `${at === 0 ? "" : separator}${names[at]}`;
    }
    return all;
  };
  // An arrow function has no `arguments` and no `this` of its own, which the source could use.
  const head = `((${joined(",")}) => (`;
  try {
    const script = new Script(`${head}${text}\n))`, scriptOptions(file, -head.length));
    if (names === undefined) return { script, names };
    // A source that closes the parenthesis could declare what outlives its task. It cannot close a
    // bracket of the other kind as well.
    new Script(`[${text}\n]`, scriptOptions(file, -1));
    return { script, names: joined(" ") };
  } catch (error) {
    return `Cannot compile the source: ${wordsOf(language, error)}`;
  }
}

/** Without a prototype, so that node:vm finds a missing option nowhere else. */
function scriptOptions(filename: string, columnOffset: number): ScriptOptions {
  const options = { __proto__: null, filename, columnOffset };
  return options;
}

function wordsOf({ textIndexOf }: Language, error: unknown): string {
  if (!(error instanceof Error)) return "no reason";
  return textIndexOf(error.message, "escaped characters") === -1
    ? error.message
    : `${error.message}; a task body has no modules`;
}

function escaped({ textIndexOf, slice }: Language, source: string): string {
  let text = "";
  let from = 0;
  for (let at = textIndexOf(source, WORD); at !== -1; at = textIndexOf(source, WORD, from)) {
    text += slice(source, from, at) + ESCAPED;
    from = at + WORD.length;
  }
  return from === 0 ? source : text + slice(source, from);
}

/** The name of a task's source in stacks: no URL, so that nothing is imported relative to it. */
export function fileOf({ codeAt, slice }: Language, taskName: string): string {
  let name = "";
  const { length } = taskName;
  for (let at = 0; at < length && at < FILE_NAME_CHARS_MAX; at++) {
    name += isWordCode(codeAt(taskName, at)) ? slice(taskName, at, at + 1) : "_";
  }
  return `task://[${name}]`;
}

/** Whether a character is an ASCII letter or digit, `_`, `-` or `.`. */
function isWordCode(code: number): boolean {
  return code >= 97 && code <= 122 || code >= 65 && code <= 90 || code >= 48 && code <= 57 ||
    code === 95 || code === 45 || code === 46;
}
