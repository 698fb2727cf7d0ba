// Tables for people: aligned columns, two spaces apart, and no line wider than the window, if there is one. Also the
// words for ages, durations and sizes in them.

import { type Paint, printable, type Style } from "./terminal.ts";
import { DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS } from "../../domain/instant.ts";
import { sizeText } from "../../domain/host.ts";

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
  return instant === undefined ? "-" : msText(nowMs - Date.parse(instant));
}

/** How far ahead an instant is, in the same form. */
export function aheadText(instant: string, nowMs: number): string {
  return msText(Date.parse(instant) - nowMs);
}

/** A length of time in the same form. */
export function msText(ms: number): string {
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
export function sizeOrDash(bytes: number | null | undefined): string {
  return bytes === null || bytes === undefined ? "-" : sizeText(bytes);
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
