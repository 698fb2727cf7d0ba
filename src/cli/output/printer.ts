// The output of commands: data on standard output, messages on standard error. With --json, standard output
// is one JSON document and nothing else. Every line is escaped here, since an answer may contain control
// characters meant for the terminal.

import { jsonLines, withoutOrders } from "../../domain/json.ts";
import { canMove, paintFor, printable, type Style, type Terminal } from "./terminal.ts";
import { type ItemColumn, tableLines } from "./table.ts";

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
