// Compiles what tasks are: a source into a script that runs in any realm, kept while it is among the
// last ones used. In a realm nothing can be imported, and that is seen to here.
//
// Whether a source has an `import()` is not asked: parsers disagree about that. Every `import` in it
// is written with an escape, as `imp\u006frt`, before V8 sees it. A name, a property, a text, a
// template and a regular expression mean the same with it, and V8 refuses it as a keyword. What runs
// is that text, so there is no second one to agree with.

import { type Context, Script } from "node:vm";
import { type Language, uncurried } from "../language.ts";
import { SCRIPTS_MAX } from "../../protocol.ts";

/** The source stands behind this text in the script; columns are counted without it. */
const SCRIPT_HEAD = "(() => (";
/** Characters of the name of a task in its file name. */
const FILE_NAME_CHARS_MAX = 100;
const WORD = "import";
const ESCAPED = "imp\\u006frt";

/** Runs a script in a realm: what that throws is an object of the realm. */
export const runScript: (script: Script, context: Context) => unknown = uncurried(
  Script.prototype.runInContext,
);

/** Compiles sources for realms. */
export interface Compiler {
  /** The script of a source in the file of this name, or the words of V8 about what is wrong. */
  compile(file: string, source: string): Script | string;
}

/** Opens a compiler; `imports` leaves the word as it is. */
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
  // Without a prototype: what is missing here is looked for nowhere else.
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

/** Whether it is a letter, a digit, `_`, `-` or `.` of ASCII. */
function isWordCode(code: number): boolean {
  return code >= 97 && code <= 122 || code >= 65 && code <= 90 || code >= 48 && code <= 57 ||
    code === 95 || code === 45 || code === 46;
}
