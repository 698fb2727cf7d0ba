// Says where a text stops being JSON. The words of JSON.parse differ between runtimes, name no expectation, and on some
// quote the text around the mistake, which may hold a secret. This is read only after JSON.parse has refused the text.

/** What may come next: a value, the name of a member, or what stands between two of them. */
type NextToken = "value" | "first_item" | "name" | "first_name" | "colon" | "separator";

interface JsonBreak {
  /** Characters before it. */
  readonly at: number;
  /** What JSON has there. */
  readonly expected: string;
}

const SPACE = /[ \t\n\r]*/y;
const WORD = /true|false|null/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})/y;
/** A character that a message can show as it is. */
const SHOWN = /^[\p{L}\p{N}\p{P}\p{S}]$/u;

const EXPECTED: Readonly<Record<Exclude<NextToken, "separator">, string>> = {
  value: "a value",
  first_item: "a value or ]",
  name: "a name in double quotes",
  first_name: "a name in double quotes or }",
  colon: "a colon",
};

/** The first mistake of a text that is not JSON. */
interface JsonMistake extends JsonBreak {
  /** Of `at`, from 1. */
  readonly line: number;
  readonly column: number;
  /** One character, quoted or as its code point, or `the end`. */
  readonly found: string;
}

/** Where a text stops being JSON; undefined when it is JSON. */
export function jsonMistake(text: string): JsonMistake | undefined {
  const mistake = mistakeIn(text);
  if (mistake === undefined) return undefined;
  return { ...mistake, ...placeIn(text, mistake.at), found: foundAt(text, mistake.at) };
}

/** Counts instead of splitting: millions of line breaks would become as many texts. */
function placeIn(text: string, at: number): { line: number; column: number } {
  let line = 1;
  let lineAt = 0;
  for (let n = 0; n < at; n++) {
    const char = text[n];
    if (char !== "\n" && (char !== "\r" || text[n + 1] === "\n")) continue;
    line += 1;
    lineAt = n + 1;
  }
  return { line, column: at - lineAt + 1 };
}

/** The same in words for an error: `found "}" in line 1, column 10, expected a value`. */
export function jsonProblem(text: string): string | undefined {
  const mistake = jsonMistake(text);
  if (mistake === undefined) return undefined;
  const { line, column, found, expected } = mistake;
  return `found ${found} in line ${line}, column ${column}, expected ${expected}`;
}

function foundAt(text: string, at: number): string {
  const code = text.codePointAt(at);
  if (code === undefined) return "the end";
  const char = String.fromCodePoint(code);
  if (SHOWN.test(char)) return JSON.stringify(char);
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

function mistakeIn(text: string): JsonBreak | undefined {
  /** Ends of the lists and objects that are open, the innermost last. */
  const open: string[] = [];
  let next: NextToken = "value";
  for (let at = endOf(SPACE, text, 0);; at = endOf(SPACE, text, at)) {
    const char = text[at] ?? "";
    const end = open.at(-1);
    const wantsName: boolean = next === "name" || next === "first_name";
    if (next === "separator") {
      if (end === undefined) return char === "" ? undefined : { at, expected: "the end" };
      if (char === ",") next = end === "}" ? "name" : "value";
      else if (char === end) open.pop();
      else return { at, expected: `a comma or ${end}` };
      at += 1;
    } else if (next === "colon") {
      if (char !== ":") return { at, expected: EXPECTED.colon };
      next = "value";
      at += 1;
    } else if ((next === "first_item" || next === "first_name") && char === end) {
      open.pop();
      next = "separator";
      at += 1;
    } else if (char === '"') {
      const read = endOfText(text, at);
      if (typeof read !== "number") return read;
      next = wantsName ? "colon" : "separator";
      at = read;
    } else if (wantsName) {
      return { at, expected: EXPECTED[next] };
    } else if (char === "[" || char === "{") {
      open.push(char === "[" ? "]" : "}");
      next = char === "[" ? "first_item" : "first_name";
      at += 1;
    } else {
      const after = Math.max(endOf(WORD, text, at), endOf(NUMBER, text, at));
      if (after === at) return { at, expected: EXPECTED[next] };
      next = "separator";
      at = after;
    }
  }
}

/** Place behind what a pattern matches there; the place itself when it does not match. */
function endOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

/** Place behind a text in double quotes, or what is wrong in it. */
function endOfText(text: string, start: number): number | JsonBreak {
  for (let at = start + 1;; at++) {
    const char = text[at] ?? "";
    if (char === '"') return at + 1;
    if (char === "") return { at, expected: "a double quote, which ends the text" };
    if (char < " ") return { at, expected: "control characters as escapes, such as \\n" };
    if (char !== "\\") continue;
    const after = endOf(ESCAPE, text, at);
    if (after === at) return { at: at + 1, expected: "an escape such as \\n, \\\\ or \\u0041" };
    at = after - 1;
  }
}
