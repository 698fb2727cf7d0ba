// The word `import` in the source of a task. Modules are no part of a task, and an import() that a
// parser of ours takes for something else is a way out of the realm. So nothing here decides what a
// slash is, on which parsers disagree: every reading of the text is followed at once, and
// the word is refused where one of them has it as code.
//
//   code --'/'--> code and regular expression     code --'<!--', '-->'--> code and comment
//
// A reading ends where its text would be an error: a string or a regular expression at a line break, a
// backslash in code that begins no \u. In a text with no slash there is one reading.

import { unreachable } from "../error.ts";

/** Readings of one text that are followed at the same time; an ordinary text has one or two. */
const READINGS_MAX = 8;
/** How deep templates may be nested in templates. */
const NESTING_MAX = 32;

/** The letters of the word, each as it is or as an escape, with no letter or digit around them. */
const WORD = new RegExp(
  `(?<![\\w$])${[..."import"].map(escapable).join("")}(?![\\w$])`,
  "g",
);
const LINE_BREAK = /[\n\r\u2028\u2029]/;
const SPACE = /\s/;
const COLON_NEXT = /\s*:/y;
/** What a number and a name may end with, before a dot. */
const NAME_CHAR = /[\w$]/;
const DIGIT = /\d/;
/** Characters examined before a dot; a longer word counts as a number. */
const NUMBER_CHARS_MAX = 64;

const ADVICE = "a task body has no modules, rename it or split the word in a text";

/** The state of a reading. Kinds that end in `_next` wait for the character they name. */
type ReadingKind =
  | "code"
  /** Code right after a dot: a name is that of a property. */
  | "dot"
  | "line_comment"
  | "comment"
  | "comment_star_next"
  | "comment_slash_next"
  | "single"
  | "single_escape"
  | "double"
  | "double_escape"
  | "template"
  | "template_escape"
  | "template_brace_next"
  | "regex"
  | "regex_escape"
  | "class"
  | "class_escape"
  /** Nested too deeply to be followed: it could be anything. */
  | "lost";

/**
 * One reading at one place in the text. For each template around the place, `braces` counts the open braces within
 * its `${`; outside of templates braces do not matter.
 */
interface SourceReading {
  readonly kind: ReadingKind;
  readonly braces: readonly number[];
}

/**
 * Why a source is refused that may contain the word `import` as code, in words that follow the name of its task;
 * undefined when it is accepted. Strings, comments, templates, `x.import` and `{import: 1}` may contain it. Takes
 * time in proportion to the text.
 */
export function importProblem(source: string): string | undefined {
  let readings: readonly SourceReading[] = [{ kind: "code", braces: [] }];
  let at = 0;
  for (const { index, 0: word } of source.matchAll(WORD)) {
    for (; at < index && isClear(readings); at++) readings = after(readings, source, at);
    if (!isClear(readings)) {
      return `cannot be read as far as the word import (${ADVICE}) ${placeOf(source, index)}`;
    }
    if (readings.some(({ kind }) => kind === "code") && !isKey(source, index + word.length)) {
      return `may use import as code (${ADVICE}) ${placeOf(source, index)}`;
    }
  }
  return undefined;
}

/** The lines of a source, as the language breaks them. */
export function linesOfSource(source: string): string[] {
  return source.split(/\r\n|[\n\r\u2028\u2029]/);
}

/** Line and column as an author counts them, both from 1. */
function placeOf(source: string, index: number): string {
  const lines = linesOfSource(source.slice(0, index));
  return `in line ${lines.length}, column ${(lines.at(-1) ?? "").length + 1}`;
}

function escapable(letter: string): string {
  const hex = letter.charCodeAt(0).toString(16);
  const either = hex.replace(/[a-f]/, (digit) => `[${digit}${digit.toUpperCase()}]`);
  return `(?:${letter}|\\\\u00${either}|\\\\u\\{0*${either}\\})`;
}

/** Whether a colon follows, as after the key of an object; the keyword is never followed by one. */
function isKey(source: string, end: number): boolean {
  COLON_NEXT.lastIndex = end;
  return COLON_NEXT.test(source);
}

function isClear(readings: readonly SourceReading[]): boolean {
  return readings.length > 0 && readings.length <= READINGS_MAX &&
    readings.every(({ kind }) => kind !== "lost");
}

/** All readings after the character, without duplicates. */
function after(
  readings: readonly SourceReading[],
  source: string,
  at: number,
): readonly SourceReading[] {
  const found: SourceReading[] = [];
  for (const reading of readings) {
    for (const next of step(reading, source, at)) {
      if (!found.some((known) => isSame(known, next))) found.push(next);
    }
  }
  return found;
}

function isSame(one: SourceReading, other: SourceReading): boolean {
  return one.kind === other.kind && one.braces.length === other.braces.length &&
    one.braces.every((count, index) => count === other.braces[index]);
}

/** The readings after one character; none where it would be a syntax error. */
function step(reading: SourceReading, source: string, at: number): SourceReading[] {
  const { kind, braces } = reading;
  const char = source[at] ?? "";
  const next = source[at + 1];
  const to = (kind: ReadingKind): SourceReading[] => [{ kind, braces }];
  const inQuotes = (quote: string, escape: ReadingKind): SourceReading[] => {
    if (char === quote) return to("code");
    if (char === "\\") return to(escape);
    return char === "\n" || char === "\r" ? [] : [reading];
  };
  const inRegex = (end: string, behind: ReadingKind, escape: ReadingKind): SourceReading[] => {
    if (char === end) return to(behind);
    if (char === "\\") return to(escape);
    return LINE_BREAK.test(char) ? [] : [reading];
  };
  switch (kind) {
    case "code":
    case "dot":
      return stepInCode(reading, source, at);
    case "line_comment":
      return LINE_BREAK.test(char) ? to("code") : [reading];
    case "comment":
      return char === "*" && next === "/" ? to("comment_slash_next") : [reading];
    case "comment_star_next":
      return to("comment");
    case "comment_slash_next":
      return to("code");
    case "single":
      return inQuotes("'", "single_escape");
    case "double":
      return inQuotes('"', "double_escape");
    // A line break of two characters is escaped as one.
    case "single_escape":
      return char === "\r" && next === "\n" ? [reading] : to("single");
    case "double_escape":
      return char === "\r" && next === "\n" ? [reading] : to("double");
    case "template":
      if (char === "`") return to("code");
      if (char === "\\") return to("template_escape");
      return char === "$" && next === "{" ? to("template_brace_next") : [reading];
    case "template_escape":
      return to("template");
    case "template_brace_next":
      return braces.length < NESTING_MAX ? [{ kind: "code", braces: [...braces, 0] }] : to("lost");
    case "regex":
      return char === "[" ? to("class") : inRegex("/", "code", "regex_escape");
    case "regex_escape":
      return LINE_BREAK.test(char) ? [] : to("regex");
    case "class":
      return inRegex("]", "regex", "class_escape");
    case "class_escape":
      return LINE_BREAK.test(char) ? [] : to("class");
    case "lost":
      return [reading];
    default:
      return unreachable(kind);
  }
}

function stepInCode(reading: SourceReading, source: string, at: number): SourceReading[] {
  const { kind, braces } = reading;
  const char = source[at] ?? "";
  const to = (...kinds: readonly ReadingKind[]): SourceReading[] =>
    kinds.map((kind) => ({ kind, braces }));
  const orComment = (mark: string) =>
    source.startsWith(mark, at) ? to("code", "line_comment") : code;
  // Most characters change nothing.
  const code = kind === "code" ? [reading] : to("code");
  switch (char) {
    case '"':
      return to("double");
    case "'":
      return to("single");
    case "`":
      return to("template");
    case "/":
      if (source[at + 1] === "/") return to("line_comment");
      return source[at + 1] === "*" ? to("comment_star_next") : to("code", "regex");
    case "\\":
      return source[at + 1] === "u" ? code : [];
    // Comments in a script, the second one only at the beginning of a line.
    case "<":
      return orComment("<!--");
    case "-":
      return orComment("-->");
    case "{":
    case "}":
      return braces.length === 0 ? code : [behindBrace(braces, char)];
    case ".":
      return isPropertyDot(source, at) ? to("dot") : code;
    default:
      return kind === "dot" && SPACE.test(char) ? [reading] : code;
  }
}

/** The reading after a brace within a template's `${`: still code, or the template's text again. */
function behindBrace(braces: readonly number[], char: "{" | "}"): SourceReading {
  const outer = braces.slice(0, -1);
  const open = braces.at(-1) ?? 0;
  if (char === "}" && open === 0) return { kind: "template", braces: outer };
  return { kind: "code", braces: [...outer, char === "{" ? open + 1 : open - 1] };
}

/** Whether a dot begins the name of a property: it is not part of a number, nor the last one of `...`. */
function isPropertyDot(source: string, at: number): boolean {
  if (source[at - 1] === ".") return false;
  let start = at;
  while (NAME_CHAR.test(source[start - 1] ?? " ")) {
    start -= 1;
    if (at - start > NUMBER_CHARS_MAX) return false;
  }
  return start === at || !DIGIT.test(source[start] ?? "");
}
