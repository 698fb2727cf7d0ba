// Each fact once: names of types, patterns, lists of words and limits, compared as literals.

import { assertEquals } from "@std/assert";
import { codeOf, DERIVED, type Source, sources } from "./sources.ts";

/** Characters of a pattern that may stand twice. */
const PATTERN_CHARS_MAX = 12;
/** Words of a list that may stand twice. */
const LIST_WORDS_MAX = 3;

const TYPE = /^(?:export )?(?:interface|type|class) (\w+)/gm;
/** A regular expression behind what cannot end an operand. */
const PATTERN =
  /(?:[=(,[!&|?;]\s*|[:{]\s+|return\s+)(\/(?![*/])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*)/g;
const WORDS = /\[\s*((?:"[^"\n]*",?\s*)+)\]|((?:"[^"\n]*"\s*\|\s*)+"[^"\n]*")/g;
const LIMIT = /^(?:export )?const ([A-Z0-9_]+)(?:: \w+)? = (\d[\d_]*(?: \* \d[\d_]*)*);/gm;

/** The console is a program of its own. */
const CONSOLE_FILES = /^src\/ui\//;

/** The files that have each fact once: those of the agent, and those of the console. */
async function programs(): Promise<Source[][]> {
  const all = (await sources("src")).filter(({ path }) => path !== DERIVED);
  const isConsole = ({ path }: Source) => CONSOLE_FILES.test(path);
  return [all.filter((file) => !isConsole(file)), all.filter(isConsole)];
}

/** What stands in more than one file, with those files. */
function repeated(files: readonly Source[], keysOf: (file: Source) => string[]): string[] {
  const places = new Map<string, Set<string>>();
  for (const file of files) {
    for (const key of keysOf(file)) places.set(key, (places.get(key) ?? new Set()).add(file.path));
  }
  return [...places].filter(([, paths]) => paths.size > 1)
    .map(([key, paths]) => `${key} in ${[...paths].join(", ")}`).sort();
}

function typeNames(file: Source): string[] {
  return Array.from(file.text.matchAll(TYPE), ([, name = ""]) => name);
}

function patterns(file: Source): string[] {
  return Array.from(codeOf(file).matchAll(PATTERN), ([, pattern = ""]) => pattern)
    .filter((pattern) => pattern.length > PATTERN_CHARS_MAX);
}

/** Lists and unions of words, whatever their order. */
function wordLists(file: Source): string[] {
  return Array.from(
    codeOf(file).matchAll(WORDS),
    ([, list, union]) =>
      Array.from((list ?? union ?? "").matchAll(/"([^"]*)"/g), ([, word = ""]) => word),
  )
    .filter((words) => words.length > LIST_WORDS_MAX)
    .map((words) => words.sort().join(" "));
}

/** Numbers with a name; the same number under another name is another fact. */
function limits(file: Source): string[] {
  return Array.from(file.text.matchAll(LIMIT), ([, name, value = ""]) => {
    const factors = value.replaceAll("_", "").split(" * ").map(Number);
    return `${name} = ${factors.reduce((product, factor) => product * factor)}`;
  });
}

Deno.test("the name of a type is unique in a program", async () => {
  for (const files of await programs()) assertEquals(repeated(files, typeNames), []);
});

Deno.test("a pattern stands once", async () => {
  for (const files of await programs()) assertEquals(repeated(files, patterns), []);
});

Deno.test("a list of words stands once", async () => {
  for (const files of await programs()) assertEquals(repeated(files, wordLists), []);
});

Deno.test("a limit stands once", async () => {
  for (const files of await programs()) assertEquals(repeated(files, limits), []);
});

Deno.test("the rules of repeats find what breaks them", () => {
  const files = [
    {
      path: "src/a.ts",
      text: `interface Job {}
const NAME = /^[a-z0-9-]{1,64}$/;
const WORDS = ["one", "two", "three", "four"];
const WAIT_MS = 5_000;
// /^[a-z]{1,99} in a comment$/
`,
    },
    {
      path: "src/b.ts",
      text: `export class Job {}
if (/^[a-z0-9-]{1,64}$/.test(name)) return;
type Word = "four" | "three" | "two" | "one";
export const WAIT_MS = 5 * 1000;
// /^[a-z]{1,99} in a comment$/
`,
    },
  ];
  const both = "in src/a.ts, src/b.ts";
  assertEquals(repeated(files, typeNames), [`Job ${both}`]);
  assertEquals(repeated(files, patterns), [`/^[a-z0-9-]{1,64}$/ ${both}`]);
  assertEquals(repeated(files, wordLists), [`four one three two ${both}`]);
  assertEquals(repeated(files, limits), [`WAIT_MS = 5000 ${both}`]);
});
