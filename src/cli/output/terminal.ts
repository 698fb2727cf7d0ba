// The streams, environment and clock of the command line, passed as one value, so that a test sees what a
// person would see. Data goes to standard output and everything else to standard error. There is no color
// with NO_COLOR, and no cursor movement unless the stream is a terminal.

import { AgentError, messageOf } from "../../domain/error.ts";

/** The streams, the environment and the clock of one run of the program. */
export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  readIn(): Promise<string>;
  /** One line of standard input without its line break; what there is if the input ends before. */
  readLine(): Promise<string>;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly inIsTerminal: boolean;
  readonly outIsTerminal: boolean;
  readonly errIsTerminal: boolean;
  /** Columns of the window; undefined when there is none. */
  columns(): number | undefined;
  /** Calls back on Ctrl-C instead of ending the program. @returns stops that */
  onInterrupt(call: () => void): () => void;
  /** The time of day, milliseconds since 1970. */
  nowMs(): number;
}

const INPUT_BYTES_MAX = 64 * 1_048_576;
/** Bytes of an answer to a question; no terminal line is longer. */
const LINE_BYTES_MAX = 4096;

/** The streams, environment and clock of this process. */
export function processTerminal(): Terminal {
  return {
    out: writeOut,
    err: (text) => writeAll(Deno.stderr, text),
    readIn: readStdin,
    readLine: readStdinLine,
    env: Deno.env.toObject(),
    cwd: Deno.cwd(),
    inIsTerminal: Deno.stdin.isTerminal(),
    outIsTerminal: Deno.stdout.isTerminal(),
    errIsTerminal: Deno.stderr.isTerminal(),
    columns: windowColumns,
    onInterrupt(call) {
      Deno.addSignalListener("SIGINT", call);
      return () => Deno.removeSignalListener("SIGINT", call);
    },
    nowMs: () => Date.now(),
  };
}

/** A reader that has gone is not an error, see failure.ts; a full disk is. */
function writeOut(text: string): void {
  try {
    writeAll(Deno.stdout, text);
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) throw error;
    const message = `Cannot write to standard output: ${messageOf(error)}`;
    throw new AgentError("internal", message, { cause: error, about: { kind: "output" } });
  }
}

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  let rest = new TextEncoder().encode(text);
  while (rest.length > 0) rest = rest.subarray(stream.writeSync(rest));
}

async function readStdin(): Promise<string> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const part of Deno.stdin.readable) {
    size += part.length;
    if (size > INPUT_BYTES_MAX) {
      throw new AgentError(
        "too_large",
        `Cannot read standard input: it is over ${INPUT_BYTES_MAX} bytes, the maximum`,
      );
    }
    parts.push(part);
  }
  return await new Blob(parts).text();
}

/** A terminal delivers one line at a time; from anything else, the input after the line is lost. */
async function readStdinLine(): Promise<string> {
  const bytes = new Uint8Array(LINE_BYTES_MAX);
  for (let size = 0; size < LINE_BYTES_MAX;) {
    const read = await Deno.stdin.read(bytes.subarray(size));
    const text = new TextDecoder().decode(bytes.subarray(0, size + (read ?? 0)));
    if (read === null || text.includes("\n")) return text.split("\n", 1)[0] ?? "";
    size += read;
  }
  throw new AgentError(
    "too_large",
    `Cannot read the answer: a line is over ${LINE_BYTES_MAX} bytes, the maximum`,
  );
}

function windowColumns(): number | undefined {
  try {
    const { columns } = Deno.consoleSize();
    // A terminal that does not know its size says 0.
    return columns === 0 ? undefined : columns;
  } catch {
    // Neither stream is a window.
    return undefined;
  }
}

/** Columns assumed for a window that does not know its size. */
export const COLUMNS_DEFAULT = 80;
/** Moves to the start of the line and clears it. */
export const CLEAR_LINE = "\r\x1b[2K";
/** Columns that a bar takes. */
export const BAR_CHARS = 16;

/** A bar of `BAR_CHARS` cells for a share from 0 to 1. */
export function bar(share: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * BAR_CHARS);
  return "█".repeat(full) + "░".repeat(BAR_CHARS - full);
}

/** Whether the terminal understands cursor movement; TERM=dumb and pipes do not. */
export function canMove(terminal: Terminal): boolean {
  return terminal.errIsTerminal && terminal.env.TERM !== "dumb";
}

const STYLES = {
  bold: "1",
  dim: "2",
  red: "31",
  green: "32",
  yellow: "33",
  cyan: "36",
} as const;
/** A style by its name, as ECMA-48 numbers it. */
export type Style = keyof typeof STYLES;
/** Styles a text, or leaves it alone. */
export type Paint = (style: Style, text: string) => string;

/** The style of a state, in lists of jobs, of machines and of hosts. */
export function stateStyle(state: string): Style | undefined {
  switch (state) {
    case "failed":
    case "away":
      return "red";
    case "running":
    case "connected":
    case "succeeded":
      return "green";
    case "queued":
    case "waiting":
    case "cordoned":
      return "yellow";
    case "canceled":
    case "retried":
    case "stopped":
    case "forgotten":
      return "dim";
    default:
      return undefined;
  }
}

/**
 * Styles texts for a stream; leaves them plain without a terminal, or with NO_COLOR.
 * @see https://no-color.org
 */
export function paintFor(terminal: Terminal, stream: "out" | "err"): Paint {
  const { env } = terminal;
  const shown = stream === "out" ? terminal.outIsTerminal : terminal.errIsTerminal;
  const plain = !shown || env.TERM === "dumb" || (env.NO_COLOR ?? "") !== "";
  return (style, text) => plain ? text : `\x1b[${STYLES[style]}m${text}\x1b[0m`;
}

/**
 * Makes foreign text safe to show by escaping control characters, with which a job's name could move the
 * cursor or forge a line.
 */
export function printable(text: string): string {
  // deno-lint-ignore no-control-regex -- matches control characters on purpose.
  return text.replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (found) => {
    const code = found.codePointAt(0) ?? 0;
    if (found === "\n") return "\\n";
    if (found === "\t") return "\\t";
    return code < 0x100
      ? `\\x${code.toString(16).padStart(2, "0")}`
      : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}
