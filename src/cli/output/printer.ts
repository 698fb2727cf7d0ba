// What a command says, and on which stream: data on standard output, words about it on standard
// error. With --json standard output holds one JSON document and nothing else. Whatever a line was
// made of, it is made printable here: what an agent answers may be meant for the terminal.

import { jsonLines } from "../../metrics/log.ts";
import { type Column, tableLines } from "./table.ts";
import { canMove, type Paint, paintFor, printable, type Terminal } from "./terminal.ts";
import { resolve } from "@std/path";
import { AgentError, messageOf } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import { usageError } from "../command/arguments.ts";

/** Writes what a command found, as text or as one JSON document. */
export interface Printer {
  /** Whether to print a JSON document instead of text. */
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

// JSON that was typed: in a flag, in a file, on standard input.

/** @throws {AgentError} `invalid_argument` naming where the text stood */
export function parseJsonText(text: string, where: string): JsonValue {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw usageError(`${where} is not JSON: ${messageOf(error)}`);
  }
}

/**
 * The JSON object in a file; `-` is standard input.
 * @throws {AgentError} `invalid_argument`; `not_found` when it does not exist
 */
export async function readJsonFile(path: string, terminal: Terminal): Promise<JsonObject> {
  const where = path === "-" ? "standard input" : path;
  const value = parseJsonText(await readText(path, terminal), where);
  if (!isJsonObject(value)) throw usageError(`${where} holds no JSON object`);
  return value;
}

async function readText(path: string, terminal: Terminal): Promise<string> {
  if (path === "-") return await terminal.readIn();
  try {
    return await Deno.readTextFile(resolve(terminal.cwd, path));
  } catch (error) {
    const missing = error instanceof Deno.errors.NotFound;
    const why = missing ? "it does not exist" : messageOf(error);
    throw new AgentError(
      missing ? "not_found" : "invalid_argument",
      `Cannot read ${JSON.stringify(path)}: ${why}`,
      { cause: error },
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
