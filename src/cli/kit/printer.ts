// What a command says, and on which stream: data on standard output, words about it on standard
// error. With --json standard output holds one JSON document and nothing else. Whatever a line was
// made of, it is made printable here: what an agent answers may be meant for the terminal.

import { jsonLines } from "../../metrics/json_line.ts";
import { type Column, tableLines } from "./table.ts";
import { canMove, type Paint, paintFor, printable, type Terminal } from "./terminal.ts";

/** Writes what a command found, as text or as one JSON document. */
export interface Printer {
  /** Whether a JSON document is wanted instead of text. */
  readonly json: boolean;
  /** Styles for standard output. */
  readonly paint: Paint;
  /** One line of data. */
  data(line: string): void;
  /** The JSON document. */
  document(value: unknown): void;
  table(columns: readonly Column[], rows: readonly (readonly string[])[]): void;
  /** Names and values below each other. */
  pairs(pairs: readonly (readonly [name: string, value: string])[]): void;
  /** One line about what happened, for people. */
  note(line: string): void;
  /** A question; the cursor stays behind it. */
  ask(question: string): void;
  /** The next useful command; only where a person sits. */
  next(command: string, does: string): void;
}

/** Opens the printer of one command. */
export function openPrinter(terminal: Terminal, json: boolean): Printer {
  const data = (line: string) => terminal.out(`${printable(line)}\n`);
  const paint = paintFor(terminal, "out");
  return {
    json,
    paint,
    data,
    document: (value) => terminal.out(`${jsonLines(value)}\n`),
    table(columns, rows) {
      const width = terminal.outIsTerminal ? terminal.columns() : undefined;
      const [head, ...lines] = tableLines(columns, rows, width);
      terminal.out(`${paint("bold", head ?? "")}\n`);
      lines.forEach(data);
    },
    pairs(pairs) {
      const width = Math.max(...pairs.map(([name]) => name.length));
      for (const [name, value] of pairs) data(`${name.padEnd(width)}  ${value}`);
    },
    note: (line) => terminal.err(`${printable(line)}\n`),
    ask: (question) => terminal.err(printable(question)),
    next(command, does) {
      if (!canMove(terminal)) return;
      terminal.err(`${printable(`next: zonewright ${command}  (${does})`)}\n`);
    },
  };
}
