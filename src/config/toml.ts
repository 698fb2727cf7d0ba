// The configuration file as text: writes a new one with every setting as a comment, changes one setting and keeps all
// comments, and explains syntax errors. The parser only names the character at which it gave up, which does not help
// somebody who writes such a file once a year.

import { parse as parseToml, TomlError } from "smol-toml";
import { fileLine, nameOf, SETTING_ROWS, SETTING_TABLES, type SettingRow } from "./settings.ts";
import { AgentError } from "../domain/error.ts";
import { isJsonObject } from "../domain/json.ts";
import { withMaskedAddress } from "../domain/masking.ts";

/** Lines of one value; longer lists have to be edited by hand. */
const VALUE_LINES_MAX = 1000;

/** All settings except the named ones, as comments with default and meaning, table by table. */
export function commentedSettings(named: readonly string[]): string {
  const lines = (table: SettingRow["table"]) =>
    SETTING_ROWS.filter((row) => row.table === table && !named.includes(row.key)).map(fileLine);
  return [
    ...lines(null),
    ...SETTING_TABLES.flatMap((table) => ["", `[${table}]`, ...lines(table)]),
    "",
  ].join("\n");
}

/**
 * A value as written in the file.
 * @param raws the text from the command line; several for a list
 * @param folder against which relative paths are resolved
 * @throws {Error} whose message says what was expected
 */
export function tomlValue({ kind }: SettingRow, raws: readonly string[], folder: string): string {
  const [raw = ""] = raws;
  if (kind.repeatable === true) {
    const items = kind.read(raws.length === 1 ? raw : raws, { folder });
    return JSON.stringify(items);
  }
  const value = kind.read(raw, { folder });
  // Sizes and times stay as they were typed.
  if (kind.text !== undefined) return JSON.stringify(raw);
  return JSON.stringify(value);
}

/**
 * Changes one setting in the text of a file: its line, or a new line after the comment with its default, or
 * at the end of its table. The result is parsed and compared, to be sure that nothing else has changed.
 * @param value as tomlValue() makes it
 * @throws {AgentError} `invalid_argument` for a file that is not TOML, `conflict` where its layout does not
 * let the setting be found
 */
export function withSetting(
  { path, text }: { readonly path: string; readonly text: string },
  row: SettingRow,
  value: string,
): string {
  const before = flatValues(path, text);
  const eol = text.includes("\r\n") ? "\r\n" : "\n";
  const lines = text.split(/\r?\n/);
  const changed = changedLines(lines, row, value).join(eol);
  const name = nameOf(row);
  const after = parsed(changed) === undefined
    ? new Map<string, string>()
    : flatValues(path, changed);
  const wanted = JSON.stringify(parseToml(`it = ${value}`).it);
  const others = [...before, ...after].filter(([key]) => key !== name);
  if (
    after.get(name) === wanted &&
    others.every(([key, one]) => before.get(key) === one && after.get(key) === one)
  ) return changed;
  const place = row.table === null ? "above the first table" : `below [${row.table}]`;
  throw new AgentError(
    "conflict",
    `Cannot change ${name}: it is not on a line of its own, expected ` +
      `${row.key} = ${value} ${place}; change the file by hand`,
  );
}

function changedLines(lines: readonly string[], row: SettingRow, value: string): string[] {
  const begin = row.table === null ? 0 : 1 + lines.findIndex((line) => headOf(line) === row.table);
  const written = `${row.key} = ${value}`;
  if (row.table !== null && begin === 0) {
    const kept = lines.at(-1) === "" ? lines.slice(0, -1) : lines;
    return [...kept, "", `[${row.table}]`, written, ""];
  }
  const next = lines.findIndex((line, at) => at >= begin && headOf(line) !== undefined);
  const end = next < 0 ? lines.length : next;
  const find = (pattern: RegExp) =>
    lines.findIndex((line, at) => at >= begin && at < end && pattern.test(line));
  const active = find(new RegExp(`^\\s*(?:${row.key}|"${row.key}"|'${row.key}')\\s*=`));
  if (active >= 0) {
    const { last, comment } = valueEnd(lines, active);
    return [...lines.slice(0, active), written + comment, ...lines.slice(last + 1)];
  }
  const shown = find(new RegExp(`^#\\s*${row.key}(?: =|:)`));
  const at = shown >= 0 ? shown + 1 : lastUsed(lines, begin, end);
  return [...lines.slice(0, at), written, ...lines.slice(at)];
}

/** The table that a line opens, or undefined. */
function headOf(line: string): string | undefined {
  return /^\s*\[\s*["']?([\w-]+)["']?\s*\]\s*(?:#.*)?$/.exec(line)?.[1];
}

/** The index after the last non-blank line of a section. */
function lastUsed(lines: readonly string[], begin: number, end: number): number {
  let at = end;
  while (at > begin && (lines[at - 1] ?? "").trim() === "") at -= 1;
  return at;
}

/** The last line of the value that begins on a line, and the comment after it with its blanks. */
function valueEnd(lines: readonly string[], first: number): { last: number; comment: string } {
  for (let last = first; last < Math.min(lines.length, first + VALUE_LINES_MAX); last++) {
    const whole = lines.slice(first, last + 1).join("\n");
    if (parsed(whole) === undefined) continue;
    const line = lines[last] ?? "";
    const before = lines.slice(first, last).map((one) => `${one}\n`).join("");
    for (let at = line.indexOf("#"); at >= 0; at = line.indexOf("#", at + 1)) {
      // A `#` inside a string starts no comment: cut there, the text does not parse.
      if (parsed(before + line.slice(0, at)) === undefined) continue;
      return { last, comment: line.slice(line.slice(0, at).trimEnd().length) };
    }
    return { last, comment: "" };
  }
  return { last: first, comment: "" };
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    return parseToml(text);
  } catch {
    // The value is not complete yet.
    return undefined;
  }
}

/** Every value of a file by its name, as JSON. @throws {AgentError} `invalid_argument` */
function flatValues(path: string, text: string): ReadonlyMap<string, string> {
  let values: Record<string, unknown>;
  try {
    values = parseToml(text);
  } catch (error) {
    const message = `Cannot change the configuration: ${syntaxText(path, text, error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
  return new Map(
    Object.entries(values).flatMap(([name, value]): [string, string][] =>
      isJsonObject(value) && !(value instanceof Date)
        ? Object.entries(value).map(([key, one]) => [`${name}.${key}`, JSON.stringify(one)])
        : [[name, JSON.stringify(value)]]
    ),
  );
}

/**
 * `zonewright.toml:2:1: what is wrong there`, as compilers and editors write it.
 * @throws the error itself, if it is not one of the syntax
 */
export function syntaxText(path: string, text: string, error: unknown): string {
  if (!(error instanceof TomlError)) throw error;
  const [first = ""] = error.message.split("\n");
  const why = first.replace(/^Invalid TOML document: /, "");
  const found = text.split(/\r?\n/)[error.line - 1] ?? "";
  const line = withMaskedAddress(found).slice(0, LOOKED_CHARS_MAX);
  const known = MISTAKES.map((mistake) => mistake(line, why)).find((words) => words !== undefined);
  const example = VAGUE.test(why) ? ', expected a line such as slots = 2 or host = "local"' : "";
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

/** Values that TOML allows without quotes: numbers, booleans, dates. */
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
  // "off" is a valid text for several settings, so it is not corrected to false.
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
  return `every text of a list needs quotes, expected ${key} = [${expected}]`;
};

const openText: Mistake = (line, why) => {
  if (why.includes("comments")) return undefined;
  const [, key = "", quote = "", rest = ""] = /^\s*([\w-]+)\s*=\s*(["'])([^"']*)$/.exec(line) ?? [];
  if (quote === "") return undefined;
  const whole = `${key} = ${quote}${rest.trimEnd()}${quote}`;
  return `a text needs a quote at its end, expected ${whole}`;
};

const colon: Mistake = (line) => {
  const [, key = "", value = ""] = /^\s*"?([\w-]+)"?\s*:\s*([^\s#][^#]*)/.exec(line) ?? [];
  if (key === "") return undefined;
  const plain = value.trimEnd().replace(/[;,]$/, "");
  return `a setting is KEY = VALUE, expected ${key} = ${written(plain)}`;
};

const openTable: Mistake = (line) => {
  const [, name] = /^\s*\[\s*([\w-]+)\s*$/.exec(line) ?? [];
  return name === undefined ? undefined : `a table needs a bracket at its end, expected [${name}]`;
};

const keyAlone: Mistake = (line) => {
  const [, key] = /^\s*([\w-]+)(?:\s*=)?\s*(?:#.*)?$/.exec(line) ?? [];
  return key === undefined ? undefined : `a setting needs a value, expected ${key} = VALUE`;
};

const twice: Mistake = (_, why) =>
  why.includes("redefine") ? "this is set above already, expected it once" : undefined;

const otherLanguage: Mistake = (line) =>
  line.startsWith("{") || line.startsWith("<")
    ? 'this is not TOML, expected lines such as slots = 2 or host = "local"'
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
