// Places in the source of a task, as its author counts: lines and columns from 1, in the text of the
// body itself, however the JSON around it is broken into lines.

/** A place in a source; both count from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** Characters of a line that are shown; bodies are often one long line. */
const EXCERPT_CHARS = 72;
/** Of these, characters before the place. */
const BEFORE_CHARS = 40;
const CUT = "…";

/** The place that a message about a source ends with, if it does. */
export function placeIn(message: string): Place | undefined {
  const match = /in line (\d+), column (\d+)$/.exec(message);
  return match === null ? undefined : { line: Number(match[1]), column: Number(match[2]) };
}

/** The line of a source, cut around the place, and below it a mark at the place. */
export function excerptOf(source: string, { line, column }: Place): readonly string[] {
  const text = source.split(/\r\n|[\n\r\u2028\u2029]/)[line - 1] ?? "";
  const start = column - 1 > EXCERPT_CHARS - CUT.length ? column - 1 - BEFORE_CHARS : 0;
  const head = start > 0 ? CUT : "";
  const end = start + EXCERPT_CHARS;
  const tail = end < text.length ? CUT : "";
  // One cell for each character, so that the mark stands where it belongs.
  const shown = text.slice(start, end).replace(/[\t\v\f]/g, " ");
  const before = " ".repeat(head.length + column - 1 - start);
  return [`${head}${shown}${tail}`, `${before}^`];
}
