// Plain English: words that a native operator would not use, and comments that repeat a name or that
// name a file that is gone.

import { assertEquals } from "@std/assert";
import { pages, placeOf, type Source, sources } from "./sources.ts";

/** Words and what to write instead; in names of things and files as well as in sentences. */
const WORDS: Readonly<Record<string, string>> = {
  anew: "again",
  "wish(?:es|ed)?": "request",
  whoever: "anyone who, or the caller",
  "slips?": "mistakes",
  "no good": "the reason",
  told: "reported",
  "is wanted": "is required",
  "doors?": "listener",
  "bells?": "notifier",
  "grounds?": "context",
  owed: "pending",
  figures: "metrics",
  "as it stands": "unchanged",
  "the most there may be": "the maximum",
  tells: "reports, shows or distinguishes",
  "those who": "callers, readers, or whom it concerns",
  "bytes? came": "data arrived",
};
/** What uses such a word with its own meaning: names on the wire and words of others. */
const MEANT = /\b(background|figures \d)/i;

/** Words of a comment that may say more than the name below it. */
const SHORT_COMMENT_WORDS = 6;
/** Words that carry no meaning of their own. */
const FILLERS = new Set([
  "a",
  "an",
  "the",
  "of",
  "one",
  "its",
  "this",
  "is",
  "are",
  "to",
  "in",
  "how",
  "many",
  "what",
  "gives",
]);
const SHORT_COMMENT =
  /^ *(?:\/\*\* (.*) \*\/|\/\/ (.*))\n *(?:export |async |readonly |static |private |get |const |let |function\*? |interface |type |class )*([#\w]+)/gm;

/** The head of a test or a step, by Deno or by a helper, with its name. */
const TEST_NAME =
  /^\s*(?:await )?(?:\w*(?:\.test|\.step|[tT]est|Rows|eachProgram))\(\s*(?:\{\s*name: )?(?:"[^"\n]*"|`[^`\n]*`)/gm;

/** One line of a comment; two slashes after a colon belong to an address. */
const COMMENT = /^ *\/?\*.*$|(?<!:)\/\/ .*$/gm;
/** The line that gives a name to others; the further heads of an overloaded function have none. */
const EXPORT =
  /^export (?:abstract |async |declare )*(?:function\*?|const|let|class|interface|type) (\w+)/gm;
/** An exported function with the description above it. */
const EXPORTED_FUNCTION =
  /^(\/\*\*(?:[^*]|\*(?!\/))*\*\/\n)?(export (?:async )?function\*? (\w+)[\s\S]*?^\})$/gm;
/** A closure, a method or the first part of a `try`, down to the line that closes it. */
const INNER_BLOCK =
  /^( +)(?:try|.*=>|(?!if|for|while|switch|return)(?:async )?\*?#?\w+\(.*\).*|.*\bfunction\b.*) [{(]\n(?:(?!\1\S).*\n)*/gm;
const OWN_THROW = /^ (?!.*=>).*\bthrow /m;
/** What an error shows is parted from what it expects by a comma, after a clause with a colon too. */
const OTHER_SEPARATOR = /[:;] (?:["'`] \+\s+["'`])?expected (?=[\w"'`$/<[])/g;
const FILE_NAME = /\w[\w./-]*\.ts\b/g;

function plainWords(file: Source): string[] {
  return Object.entries(WORDS).flatMap(([word, instead]) => {
    const inName = word[0]?.toUpperCase() + word.slice(1);
    const pattern = new RegExp(
      `(?<![A-Za-z])(?:${word}|${inName})(?![a-z])|${inName}(?![a-z])`,
      "g",
    );
    const found = Array.from(file.text.matchAll(pattern))
      .filter((match) => !MEANT.test(file.text.slice(match.index - 10, match.index + 20)))
      .map((match) => `${placeOf(file, match.index)} has "${match[0]}": write ${instead}`);
    return new RegExp(`(?<![a-z])${word}(?![a-z])`).test(file.path)
      ? [`${file.path} is named "${word}": write ${instead}`, ...found]
      : found;
  });
}

/** Errors that part the state found from the one expected by anything but a comma. */
function otherSeparators(file: Source): string[] {
  return Array.from(file.text.matchAll(OTHER_SEPARATOR))
    .map((match) => `${placeOf(file, match.index)} has "${match[0]}": write ", expected"`);
}

/** The file with nothing in it but the names of its tests, each in its line. */
function testNames({ path, text }: Source): Source {
  const lines = text.split("\n").map(() => "");
  for (const match of text.matchAll(TEST_NAME)) {
    lines[text.slice(0, match.index + match[0].length).split("\n").length - 1] = match[0]
      .replaceAll("\n", " ");
  }
  return { path: `${path} (names of tests)`, text: lines.join("\n") };
}

function repeatedNames(file: Source): string[] {
  return Array.from(file.text.matchAll(SHORT_COMMENT)).flatMap((match) => {
    const [, doc, line, name = ""] = match;
    const comment = doc ?? line ?? "";
    const words = comment.toLowerCase().match(/[a-z]+/g) ?? [];
    const stems = (name.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g) ?? []).map(stemOf);
    const says = words.filter((word) => !FILLERS.has(word));
    if (words.length > SHORT_COMMENT_WORDS || says.length === 0) return [];
    if (!says.every((word) => stems.includes(stemOf(word)))) return [];
    return [`${placeOf(file, match.index)}: "${comment}" says what ${name} says`];
  });
}

/** A word without the ending that differs between a comment and a name. */
function stemOf(word: string): string {
  return word.toLowerCase().replace(/(?:es|s|ed|d|ing)$/, "");
}

/** Files named by comments that end no path of the repository: the reader cannot open them. */
function missingFiles(file: Source, paths: readonly string[]): string[] {
  return Array.from(file.text.matchAll(COMMENT)).flatMap((comment) =>
    Array.from(comment[0].matchAll(FILE_NAME))
      .filter(([name]) => !paths.some((path) => `/${path}`.endsWith(`/${name}`)))
      .map((match) => {
        const place = placeOf(file, comment.index + match.index);
        return `${place}: a comment names ${match[0]}, which does not exist`;
      })
  );
}

/** Names that a file offers to others without a description above them. */
function undescribedExports(file: Source): string[] {
  return Array.from(file.text.matchAll(EXPORT))
    .filter(({ index }) => !file.text.slice(0, index).endsWith("*/\n"))
    .map((match) => `${placeOf(file, match.index)}: ${match[1]} has no description`);
}

/**
 * Exported functions that throw and do not say so. Left out are what a closure throws, what a `try` may catch, and
 * errors of calls outside of a `try`.
 */
function unsaidThrows(file: Source): string[] {
  return Array.from(file.text.matchAll(EXPORTED_FUNCTION))
    .filter(([, doc = "", body = ""]) =>
      !doc.includes("@throws") && OWN_THROW.test(body.replaceAll(INNER_BLOCK, ""))
    )
    .map(({ index, 1: doc = "", 3: name }) =>
      `${placeOf(file, index + doc.length)}: ${name} throws, and has no @throws`
    );
}

/** Every file of TypeScript that a comment may name. */
async function namedPaths(): Promise<string[]> {
  const files = await Promise.all(["src", "tests", "vendors", "bench"].map(sources));
  return ["main.ts", "docs/zonewright.d.ts", ...files.flat().map(({ path }) => path)];
}

Deno.test("sources, docs, README and the names of tests are written in plain English", async () => {
  const tests = (await sources("tests")).map(testNames);
  const files = [...await sources("src"), ...await pages(), ...tests];
  assertEquals(files.flatMap(plainWords), []);
});

Deno.test("errors part what they found from what they expected by a comma", async () => {
  const files = [...await sources("src"), ...await sources("vendors"), ...await pages()];
  assertEquals(files.flatMap(otherSeparators), []);
});

Deno.test("no comment only repeats the name that it stands on", async () => {
  assertEquals((await sources("src")).flatMap(repeatedNames), []);
});

Deno.test("every file that a comment names exists", async () => {
  const paths = await namedPaths();
  const found = (await sources("src")).flatMap((file) => missingFiles(file, paths));
  assertEquals(found, []);
});

Deno.test("everything that a file offers to others is described", async () => {
  assertEquals((await sources("src")).flatMap(undescribedExports), []);
});

Deno.test("a function that others call says what it throws", async () => {
  assertEquals((await sources("src")).flatMap(unsaidThrows), []);
});

Deno.test("the rule of errors finds what breaks it", () => {
  const text = `/** Reads. */
export function read(at: number): void {
  const later = () => {
    throw new Error("later");
  };
  if (at < 0) throw new RangeError("before the first");
}
/** @throws {Error} when asked to */
export async function say(): Promise<void> {
  throw new Error("said");
}
export function pass(): unknown {
  try {
    throw new Error("caught");
  } catch (error) {
    if (isOurs(error)) throw error;
  }
  return {
    go() {
      throw new Error("a method");
    },
  };
}
export function refuse(): never {
  try {
    work();
  } catch {
    throw new Error("not caught");
  }
}
`;
  assertEquals(unsaidThrows({ path: "src/a.ts", text }), [
    "src/a.ts:2: read throws, and has no @throws",
    "src/a.ts:12: pass throws, and has no @throws",
    "src/a.ts:24: refuse throws, and has no @throws",
  ]);
});

Deno.test("the rules of English find what breaks them", () => {
  const file = {
    path: "src/door.ts",
    text: `/** The file names. */
const fileNames = [];
/** Names that the caller may use. */
const names = [];
// The runner is told anew.
openGuestDoor();
`,
  };
  assertEquals(repeatedNames(file), ['src/door.ts:1: "The file names." says what fileNames says']);
  assertEquals(plainWords(file), [
    'src/door.ts:5 has "anew": write again',
    'src/door.ts:5 has "told": write reported',
    'src/door.ts is named "doors?": write listener',
    'src/door.ts:6 has "Door": write listener',
  ]);
  const test = 'const told = 1;\nDeno.test("a caller is told why", () => told);\n';
  assertEquals(plainWords(testNames({ path: "tests/a_test.ts", text: test })), [
    'tests/a_test.ts (names of tests):2 has "told": write reported',
  ]);
  const errors =
    'it is 1: expected 2";\n`it is ${one}; ` +\n  `expected 2`;\nit is 1, expected 2\n';
  assertEquals(otherSeparators({ path: "src/a.ts", text: errors }), [
    'src/a.ts:1 has ": expected ": write ", expected"',
    'src/a.ts:2 has "; ` +\n  `expected ": write ", expected"',
  ]);
  const exported = `/** What it is. */
export const one = 1;
export const two = 2;
// Not for the reader of an editor.
export async function three() {}
const four = 4;
export type One = typeof one[number];
export const SHAPE = whole("What it is.", {});
`;
  assertEquals(undescribedExports({ path: "src/a.ts", text: exported }), [
    "src/a.ts:3: two has no description",
    "src/a.ts:5: three has no description",
    "src/a.ts:7: One has no description",
    "src/a.ts:8: SHAPE has no description",
  ]);
  const comments = `// See domain/job/gone.ts and job.ts.
const one = "gone.ts"; // not ob.ts
/**
 * As wire.ts of http/job/job.ts.
 */
`;
  assertEquals(missingFiles({ path: "src/a.ts", text: comments }, ["src/domain/job/job.ts"]), [
    "src/a.ts:1: a comment names domain/job/gone.ts, which does not exist",
    "src/a.ts:2: a comment names ob.ts, which does not exist",
    "src/a.ts:4: a comment names wire.ts, which does not exist",
    "src/a.ts:4: a comment names http/job/job.ts, which does not exist",
  ]);
});
