// Explains TOML syntax errors: what the line contains, and how to write it. The parser only names the
// character at which it gave up, which does not help somebody who writes such a file once a year.

import { TomlError } from "smol-toml";

/** `zonewright.toml:2:1: what is wrong there`, as compilers and editors write it. */
export function syntaxText(path: string, text: string, error: unknown): string {
  if (!(error instanceof TomlError)) throw error;
  const [first = ""] = error.message.split("\n");
  const why = first.replace(/^Invalid TOML document: /, "");
  const line = (text.split(/\r?\n/)[error.line - 1] ?? "").slice(0, LOOKED_CHARS_MAX);
  const known = MISTAKES.map((mistake) => mistake(line, why)).find((words) => words !== undefined);
  const example = VAGUE.test(why) ? ': expected a line such as slots = 2 or host = "local"' : "";
  return `${path}:${error.line}:${error.column}: ${known ?? why + example}`;
}

/** The parser's message for anything that it does not recognize. */
const VAGUE = /^(?:illegal|invalid|each|unexpected) /;
/** Characters of a line that are checked. */
const LOOKED_CHARS_MAX = 500;

/** The mistake in a line, or undefined when it is none of the known ones. */
type Mistake = (line: string, why: string) => string | undefined;

/** A key whose value is not quoted, not a list or table, and does not begin like a number. */
const BARE_TEXT = /^\s*([\w-]+)\s*=\s*([^"'[{#\s][^#"']*)/;

/** Values that need no quotes in TOML, or look as if they did not: numbers, booleans, dates. */
const TOML_BARE =
  /^(?:[-+]?(?:0[xob][\da-f_]+|[\d_.]+(?:e[-+]?\d+)?|inf|nan)|true|false|\d{4}-\d\d-\d\d.*)$/;

/** Words for true and false in other languages. */
const SWITCH_WORDS: Readonly<Record<string, string>> = {
  true: "true",
  yes: "true",
  on: "true",
  false: "false",
  no: "false",
  off: "false",
};

/** A value in TOML; a text gets quotes. */
function written(value: string): string {
  if (TOML_BARE.test(value) || /^(["']).*\1$/.test(value)) return value;
  return SWITCH_WORDS[value.toLowerCase()] ?? JSON.stringify(value);
}

/** The most common mistakes: a text without quotes, and words and quotes of other languages. */
const bareText: Mistake = (line) => {
  const [, key = "", rest = ""] = BARE_TEXT.exec(line) ?? [];
  const found = rest.trimEnd();
  const value = found.replace(/[;,]$/, "").trimEnd();
  if (value === "" || TOML_BARE.test(found)) return undefined;
  const expected = `found ${key} = ${found}, expected ${key} = ${written(value)}`;
  if (value !== found) return `a line ends without ${found.slice(-1)}: ${expected}`;
  // Several settings accept the text "off", so it is not corrected to false.
  const isSwitch = Object.hasOwn(SWITCH_WORDS, value.toLowerCase()) && value !== "off";
  if (isSwitch) return `a switch is true or false: ${expected}`;
  const text = `found ${key} = ${found}, expected ${key} = ${JSON.stringify(value)}`;
  return `a text needs quotes: ${text}`;
};

const bareItems: Mistake = (line) => {
  const [, key = "", items = ""] = /^\s*([\w-]+)\s*=\s*\[([^[\]#]*)\]\s*(?:#.*)?$/.exec(line) ?? [];
  const all = items.split(",").map((item) => item.trim()).filter((item) => item !== "");
  const expected = all.map(written).join(", ");
  if (all.length === 0 || expected === all.join(", ")) return undefined;
  return `every text of a list needs quotes: expected ${key} = [${expected}]`;
};

const openText: Mistake = (line, why) => {
  if (why.includes("comments")) return undefined;
  const [, key = "", quote = "", rest = ""] = /^\s*([\w-]+)\s*=\s*(["'])([^"']*)$/.exec(line) ?? [];
  if (quote === "") return undefined;
  const whole = `${key} = ${quote}${rest.trimEnd()}${quote}`;
  return `a text needs a quote at its end: expected ${whole}`;
};

const colon: Mistake = (line) => {
  const [, key = "", value = ""] = /^\s*"?([\w-]+)"?\s*:\s*([^\s#][^#]*)/.exec(line) ?? [];
  if (key === "") return undefined;
  const plain = value.trimEnd().replace(/[;,]$/, "");
  return `a setting is KEY = VALUE: expected ${key} = ${written(plain)}`;
};

const openTable: Mistake = (line) => {
  const [, name] = /^\s*\[\s*([\w-]+)\s*$/.exec(line) ?? [];
  return name === undefined ? undefined : `a table needs a bracket at its end: expected [${name}]`;
};

const keyAlone: Mistake = (line) => {
  const [, key] = /^\s*([\w-]+)(?:\s*=)?\s*(?:#.*)?$/.exec(line) ?? [];
  return key === undefined ? undefined : `a setting needs a value: expected ${key} = VALUE`;
};

const twice: Mistake = (_, why) =>
  why.includes("redefine") ? "this is set above already: expected it once" : undefined;

const otherLanguage: Mistake = (line) =>
  line.startsWith("{") || line.startsWith("<")
    ? 'this is not TOML: expected lines such as slots = 2 or host = "local"'
    : undefined;

const MISTAKES: readonly Mistake[] = [
  twice,
  otherLanguage,
  bareText,
  bareItems,
  openText,
  colon,
  openTable,
  keyAlone,
];
