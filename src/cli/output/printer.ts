// The output of commands: data on standard output, messages on standard error. With --json, standard output
// is one JSON document and nothing else. Every line is escaped here, since an answer may contain control
// characters meant for the terminal.

import {
  isJsonObject,
  jsonLines,
  type JsonObject,
  type JsonValue,
  kindOf,
  withoutOrders,
} from "../../domain/json.ts";
import { canMove, type Paint, paintFor, printable, type Style, type Terminal } from "./terminal.ts";
import { resolve } from "@std/path";
import { DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS } from "../../domain/instant.ts";
import { AgentError, systemReason } from "../../domain/error.ts";
import { jsonProblem } from "../../domain/json_problem.ts";
import { cannot } from "../command/arguments.ts";
import { format as formatBytes } from "@std/fmt/bytes";

/** A word or sign of the program's own at the start of a line. */
interface Mark {
  readonly text: string;
  /** Undefined for one that does not stand out. */
  readonly style: Style | undefined;
}

/** Writes the output of a command, as text or as one JSON document. */
export interface Printer {
  /** Whether to print a JSON document instead of text. */
  readonly json: boolean;
  /** Prints one JSON object of a stream, on one line. */
  line(value: object): void;
  data(line: string): void;
  /** One line of data after a mark. */
  marked(mark: Mark, line: string): void;
  /** The JSON document; in a stream, the last line, as `result` of the kind `end`. */
  document(value: unknown): void;
  /** The JSON document, or one line that says the same to people. */
  result(document: unknown, line: string): void;
  /** One row for each item. */
  table<Item>(columns: readonly ItemColumn<Item>[], items: readonly Item[]): void;
  /** Names and values, one pair per line. */
  pairs(pairs: readonly (readonly [name: string, value: string])[]): void;
  /** One line about what happened, for people; with JSON it is held until end(). */
  note(line: string): void;
  /** Prints the notes held so far. A command that fails leaves standard error to its one error object. */
  end(): void;
  /** A question; the cursor stays after it. */
  ask(question: string): void;
  /** The next useful command; only on a terminal. */
  next(command: string, does: string): void;
}

interface PrinterOptions {
  /** Whether it prints JSON for programs instead of text. */
  readonly json: boolean;
  /** Whether its JSON is a stream, one object per line. */
  readonly streams: boolean;
}

/** Opens the printer of one command. */
export function openPrinter(terminal: Terminal, { json, streams }: PrinterOptions): Printer {
  const line = (value: object) => terminal.out(`${withoutOrders(JSON.stringify(value))}\n`);
  const paint = paintFor(terminal, "out");
  const data = (line: string) => {
    terminal.out(`${printable(line)}\n`);
  };
  const say = (line: string) => terminal.err(`${printable(line)}\n`);
  const held: string[] = [];
  const document = (value: unknown) => {
    if (streams) line({ kind: "end", result: value });
    else terminal.out(`${jsonLines(value)}\n`);
  };
  return {
    json,
    data,
    document,
    result: (value, words) => json ? document(value) : data(words),
    marked({ text, style }, line) {
      terminal.out(`${style === undefined ? text : paint(style, text)}${printable(line)}\n`);
    },
    line,
    table(columns, items) {
      const rows = items.map((item, at) => columns.map(({ cell }) => cell(item, at)));
      const width = terminal.outIsTerminal ? terminal.columns() : undefined;
      const [head, ...lines] = tableLines(columns, rows, width, paint);
      terminal.out(`${paint("bold", head ?? "")}\n`);
      for (const line of lines) terminal.out(`${line}\n`);
    },
    pairs(pairs) {
      const width = Math.max(...pairs.map(([name]) => name.length));
      for (const [name, value] of pairs) data(`${name.padEnd(width)}  ${value}`);
    },
    note: (line) => json ? void held.push(line) : say(line),
    end: () => held.splice(0).forEach(say),
    ask: (question) => terminal.err(printable(question)),
    next(command, does) {
      if (!canMove(terminal)) return;
      terminal.err(`${printable(`next: zonewright ${command}  (${does})`)}\n`);
    },
  };
}

// JSON that was typed: in a flag, in a file, on standard input.

/** @throws {AgentError} `invalid_argument` naming where the text came from */
export function parseJsonText(text: string, where: string): JsonValue {
  try {
    return JSON.parse(text);
  } catch {
    throw cannot(`read ${where}: it is not JSON: ${jsonProblem(text)}`);
  }
}

/**
 * The JSON object in a file; `-` is standard input.
 * @throws {AgentError} `invalid_argument`; `not_found` when it does not exist
 */
export async function readJsonFile(path: string, terminal: Terminal): Promise<JsonObject> {
  const where = path === "-" ? "standard input" : path;
  const value = parseJsonText(await readText(path, terminal), where);
  if (!isJsonObject(value)) {
    throw cannot(`read ${where}: it is JSON, but ${kindOf(value)}: expected an object {...}`);
  }
  return value;
}

/** The text of a file that was named; `-` is standard input. @throws {AgentError} as above */
export async function readText(path: string, terminal: Terminal): Promise<string> {
  // The runtime opens few files of /dev by their names.
  if (path === "-" || path === "/dev/stdin") return await terminal.readIn();
  try {
    const text = await Deno.readTextFile(resolve(terminal.cwd, path));
    // Some editors write a byte order mark; the agent and standard input pass over it too.
    return text.replace(/^\uFEFF/, "");
  } catch (error) {
    const missing = error instanceof Deno.errors.NotFound;
    const why = missing ? "it does not exist" : systemReason(error);
    throw new AgentError(
      missing ? "not_found" : "invalid_argument",
      `Cannot read ${JSON.stringify(path)}: ${why}`,
      { cause: error, about: { kind: "file", name: path } },
    );
  }
}

/**
 * The JSON value that `-d` names: JSON itself, `@FILE`, or `-` for standard input.
 * @throws {AgentError} as above
 */
export async function readJsonArgument(text: string, terminal: Terminal): Promise<JsonValue> {
  if (text === "-") return parseJsonText(await terminal.readIn(), "standard input");
  if (!text.startsWith("@")) return parseJsonText(text, "--data");
  const path = text.slice(1);
  return parseJsonText(await readText(path, terminal), path);
}

// Tables for people: aligned columns, two spaces apart, and no line wider than the window, if there is one.
// Also the words for ages, durations and sizes in them.

/** One column: its head, and how its cells are laid out. */
interface Column {
  readonly head: string;
  /** May be cut when the window is too narrow. */
  readonly flexible?: true;
  readonly right?: true;
  /** Left out if the window is narrower than WIDE_COLUMNS. */
  readonly wide?: true;
  /** The style of a cell on a terminal. */
  readonly styleOf?: (cell: string) => Style | undefined;
}

/** A column of a table of things of one kind, with what it says of each. */
export interface ItemColumn<Item> extends Column {
  /** @param at the place of the item among the others, from 0 */
  cell(item: Item, at: number): string;
}

const GAP = "  ";
const FLEXIBLE_CHARS_MIN = 8;
/** Words up to this many characters are kept whole while another column can give way. */
const WHOLE_CHARS_MAX = 24;
/** Width of a window from which a table shows all columns. */
const WIDE_COLUMNS = 100;

/**
 * The lines of a table. Cells are made printable; the last column is not padded.
 * @param columnsMax width of the window; undefined to cut nothing
 * @param paint puts cells in the style of their column
 */
export function tableLines(
  all: readonly Column[],
  rows: readonly (readonly string[])[],
  columnsMax: number | undefined,
  paint: Paint = (_, text) => text,
): string[] {
  const isShown = ({ wide }: Column) => wide !== true || (columnsMax ?? Infinity) >= WIDE_COLUMNS;
  const columns = all.filter(isShown);
  const cells = rows.map((row) =>
    all.flatMap((column, index) => isShown(column) ? [printable(row[index] ?? "")] : [])
  );
  const widths = columns.map((column, index) =>
    Math.max(lengthOf(column.head), ...cells.map((row) => lengthOf(row[index] ?? "")))
  );
  if (columnsMax !== undefined) {
    const whole = columns.map((_, index) =>
      Math.max(...cells.map((row) => lengthOfHead(row[index] ?? "")), FLEXIBLE_CHARS_MIN)
    );
    // Words are cut only if nothing else gives way.
    narrow(columns, widths, columnsMax, whole.map((chars) => Math.min(chars, WHOLE_CHARS_MAX)));
    narrow(columns, widths, columnsMax, whole.map(() => FLEXIBLE_CHARS_MIN));
  }
  const line = (row: readonly string[], painted: boolean) =>
    columns.map((column, index) => {
      const width = widths[index] ?? 0;
      const cell = cutAtWord(row[index] ?? "", width);
      const padding = " ".repeat(width - lengthOf(cell));
      const style = painted ? column.styleOf?.(row[index] ?? "") : undefined;
      const shown = style === undefined ? cell : paint(style, cell);
      return column.right === true ? padding + shown : shown + padding;
    }).join(GAP).trimEnd();
  return [
    line(columns.map((column) => column.head), false),
    ...cells.map((row) => line(row, true)),
  ];
}

/**
 * Narrows the widest flexible column repeatedly, until the line fits or all have their least width.
 */
function narrow(
  columns: readonly Column[],
  widths: number[],
  columnsMax: number,
  least: readonly number[],
): void {
  const total = () => widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length);
  while (total() > columnsMax) {
    let widest = -1;
    for (const [index, column] of columns.entries()) {
      const width = widths[index] ?? 0;
      if (column.flexible !== true || width <= (least[index] ?? 0)) continue;
      if (widest < 0 || width > (widths[widest] ?? 0)) widest = index;
    }
    if (widest < 0) return;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
}

function lengthOf(text: string): number {
  return [...text].length;
}

/** A text cut to `width` characters, ending in `…` if it was longer. */
export function cut(text: string, width: number): string {
  const letters = [...text];
  if (letters.length <= width) return text;
  return width <= 0 ? "" : `${letters.slice(0, width - 1).join("")}…`;
}

/** Where a text may be cut: after a space, or after a sign between the parts of a name or path. */
const WORD_END = /[\s/:,;_-](?=[^\s/:,;_-]*$)/u;

/** Characters of a text cut after its first word; all of a single word. */
function lengthOfHead(text: string): number {
  const end = /[\s/:,;_-]/u.exec(text)?.index;
  if (end === undefined || end === text.length - 1) return lengthOf(text);
  return Math.min(lengthOf(text.slice(0, end + 1)) + 1, lengthOf(text));
}

/** As cut(), but between words; within a word only if that alone is wider. */
function cutAtWord(text: string, width: number): string {
  const letters = [...text];
  if (letters.length <= width || width <= 1) return cut(text, width);
  const start = letters.slice(0, width - 1).join("");
  // The next character begins a new word.
  if (/\s/u.test(letters[width - 1] ?? "")) return `${start.trimEnd()}…`;
  const end = WORD_END.exec(start)?.index;
  return end === undefined || end === 0 ? `${start}…` : `${start.slice(0, end + 1).trimEnd()}…`;
}

const AGE_STEPS = [
  { unit: "d", seconds: DAY_SECONDS },
  { unit: "h", seconds: HOUR_SECONDS },
  { unit: "m", seconds: MINUTE_SECONDS },
] as const;

/** How long ago an instant was: `12 s`, `5 m`, `3 h`, `9 d`; `-` when there is none. */
export function ageText(instant: string | undefined, nowMs: number): string {
  return instant === undefined ? "-" : spanText(nowMs - Date.parse(instant));
}

/** How far ahead an instant is, in the same form. */
export function aheadText(instant: string, nowMs: number): string {
  return spanText(Date.parse(instant) - nowMs);
}

/** A length of time in the same form. */
export function spanText(ms: number): string {
  if (Number.isNaN(ms)) return "-";
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const step = AGE_STEPS.find((one) => seconds >= one.seconds);
  return step === undefined ? `${seconds} s` : `${Math.floor(seconds / step.seconds)} ${step.unit}`;
}

/** Seconds as people read them: `0.4 s`, `42 s`, `3 m 05 s`, `2 h 10 m`. */
export function durationText(seconds: number): string {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor(whole / 60) % 60).padStart(2, "0")} m`;
}

/** Bytes in binary units, such as `631 MiB`; `-` when the number is not known. */
export function sizeText(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return "-";
  const digits = bytes < 1024 ** 3 ? 0 : 1;
  // The prefix for 1024 is Ki; the library writes k, as for 1000.
  return formatBytes(bytes, { binary: true, maximumFractionDigits: digits }).replace("kiB", "KiB");
}

/** `18:30:02` of the caller's day, preceded by its date unless that is today. */
export function momentText(instant: string | undefined, nowMs: number): string {
  const date = new Date(instant ?? "");
  if (date.toDateString() === new Date(nowMs).toDateString()) return timeOfDay(instant);
  if (Number.isNaN(date.getTime())) return "-";
  const parts = [date.getFullYear(), date.getMonth() + 1, date.getDate()];
  return `${parts.map((part) => String(part).padStart(2, "0")).join("-")} ${timeOfDay(instant)}`;
}

/** `18:30:02` of the caller's day. */
export function timeOfDay(instant: string | undefined): string {
  const date = new Date(instant ?? "");
  if (Number.isNaN(date.getTime())) return "-";
  const parts = [date.getHours(), date.getMinutes(), date.getSeconds()];
  return parts.map((part) => String(part).padStart(2, "0")).join(":");
}
