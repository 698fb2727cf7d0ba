// Compiles the source of a task into a script that runs in any realm, and keeps the scripts used last.
// It also makes sure that nothing can be imported in a realm.
//
// It does not try to find out whether a source has an `import()`: parsers disagree about that.
// Instead, every `import` is rewritten with an escape, as `imp\u006frt`, before V8 sees it. Names,
// properties, strings, templates and regular expressions keep their meaning, and V8 refuses the
// escape as a keyword. The rewritten text is what runs, so no other reading of it matters.

import { type Context, Script } from "node:vm";
import { type Language, uncurried } from "../../wall/language.ts";
import { SCRIPTS_MAX } from "../../wall/protocol.ts";

/** Precedes the source in the script; columns are counted without it. */
const SCRIPT_HEAD = "(() => (";
/** Characters of a task's name that its file name keeps. */
const FILE_NAME_CHARS_MAX = 100;
const WORD = "import";
const ESCAPED = "imp\\u006frt";

/** Runs a script in a realm; anything it throws is an object of that realm. */
export const runScript: (script: Script, context: Context) => unknown = uncurried(
  Script.prototype.runInContext,
);

/** Compiles sources for realms. */
export interface Compiler {
  /** The script of a source under a file name, or V8's message about what is wrong with it. */
  compile(file: string, source: string): Script | string;
}

/** Opens a compiler; with `imports` it does not rewrite `import`. */
export function openCompiler(language: Language, imports = false): Compiler {
  const scripts = new Map<string, Script>();
  const { mapGet, mapSet, mapDelete, mapSize, firstKey } = language;
  return {
    compile(file, source) {
      const key = `${file}\n${source}`;
      let script = mapGet(scripts, key);
      if (script === undefined) {
        const compiled = compileText(language, file, imports ? source : escaped(language, source));
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

function compileText(language: Language, file: string, text: string): Script | string {
  // Without a prototype, so that node:vm finds a missing option nowhere else.
  const options = { __proto__: null, filename: file, columnOffset: -SCRIPT_HEAD.length };
  try {
    return new Script(`${SCRIPT_HEAD}${text}\n))`, options);
  } catch (error) {
    return `Cannot compile the source: ${wordsOf(language, error)}`;
  }
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
