// Every message of an error as the sources have it, with where it stands: what is thrown as an AgentError, and
// what the command line refuses. Found by reading the texts of calls, since no type lists them.

import { sources } from "../house/sources.ts";

/** One message of the sources. */
export interface ErrorText {
  /** `src/cli/token.ts:58`. */
  readonly place: string;
  /** Which function makes the error of it. */
  readonly maker: Maker;
  /** The code, where it is written out. */
  readonly code: string | undefined;
  /** The text, with `…` for every part that is known only at run time. */
  readonly text: string;
}

/** Functions that make an error, with the place of the message among their arguments. */
const MAKERS = {
  AgentError: 1,
  invalidArgument: 1,
  usageError: 0,
  cannot: 0,
  "findings.add": 2,
} as const;
type Maker = keyof typeof MAKERS;

const CALL = /\b(new AgentError|invalidArgument|usageError|cannot|findings\.add)\(/g;
/** Lines above a call in which its message may be made. */
const LINES_ABOVE = 24;
/** Rooms whose texts are no errors of the agent or the command line. */
const OTHER_ROOMS = /^src\/(?:ui|guest|simulator)\//;

/** Every message of the sources that is written out. */
export async function errorTexts(): Promise<ErrorText[]> {
  const found: ErrorText[] = [];
  for (const { path, text } of await sources("src")) {
    if (OTHER_ROOMS.test(path)) continue;
    for (const match of text.matchAll(CALL)) {
      const maker = match[1]?.replace("new ", "") as Maker;
      const begin = match.index + match[0].length;
      const args = argumentsAt(text, begin);
      const message = args[MAKERS[maker]];
      // A declaration, or a message that is made elsewhere.
      const words = message === undefined ? undefined : textOf(message, text.slice(0, begin));
      if (words === undefined) continue;
      const line = text.slice(0, begin).split("\n").length;
      const code = /^"(\w+)"$/.exec(args[0] ?? "")?.[1];
      found.push({ place: `${path}:${line}`, maker, code, text: words });
    }
  }
  return found;
}

/** The arguments of a call that begins there, as they are written. */
function argumentsAt(text: string, begin: number): string[] {
  const found: string[] = [];
  let from = begin;
  for (let at = begin, depth = 0; at < text.length; at++) {
    const char = text[at] ?? "";
    if (char === '"' || char === "`" || char === "'") at = endOfText(text, at);
    else if ("([{".includes(char)) depth += 1;
    else if (char === "," && depth === 0) {
      found.push(text.slice(from, at).trim());
      from = at + 1;
    } else if (")]}".includes(char)) {
      if (depth === 0) return [...found, text.slice(from, at).trim()];
      depth -= 1;
    }
  }
  return found;
}

/** Where a text ends that begins there; a template may hold others in its braces. */
function endOfText(text: string, begin: number): number {
  const quote = text[begin];
  for (let at = begin + 1; at < text.length; at++) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === quote) return at;
    else if (quote === "`" && text.startsWith("${", at)) at = endOfBraces(text, at + 2);
  }
  return text.length;
}

function endOfBraces(text: string, begin: number): number {
  for (let at = begin, depth = 0; at < text.length; at++) {
    const char = text[at] ?? "";
    if (char === '"' || char === "`" || char === "'") at = endOfText(text, at);
    else if (char === "{") depth += 1;
    else if (char === "}") {
      if (depth === 0) return at;
      depth -= 1;
    }
  }
  return text.length;
}

/** The text that an expression makes, or undefined where none is written out. */
function textOf(expression: string, before: string): string | undefined {
  if (/^\w+$/.test(expression)) {
    const above = before.split("\n").slice(-LINES_ABOVE).join("\n");
    const made = Array.from(
      above.matchAll(new RegExp(`const ${expression}(?:: string)? =\\s`, "g")),
    ).at(-1);
    if (made === undefined) return undefined;
    const from = made.index + made[0].length;
    const end = above.indexOf(";\n", from);
    return writtenIn(above.slice(from, end < 0 ? above.length : end));
  }
  return writtenIn(expression);
}

/** The texts of an expression one after the other. */
function writtenIn(expression: string): string | undefined {
  let words = "";
  for (let at = 0; at < expression.length; at++) {
    const char = expression[at] ?? "";
    if (char !== '"' && char !== "`") continue;
    const end = endOfText(expression, at);
    words += char === '"' ? expression.slice(at + 1, end) : plain(expression.slice(at + 1, end));
    at = end;
  }
  // One word is the name of a field.
  return words.includes(" ") ? words : undefined;
}

/** A template with `…` for its parts. */
function plain(template: string): string {
  let words = "";
  for (let at = 0; at < template.length; at++) {
    if (!template.startsWith("${", at)) {
      words += template[at];
      continue;
    }
    at = endOfBraces(template, at + 2);
    words += "…";
  }
  return words;
}
