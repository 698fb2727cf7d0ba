// The output of a simulated command: its two streams and its exit code, as in the documented tool. Messages
// go to stderr, on success too; stdout is data only.

import { AgentError } from "../domain/error.ts";
import type { JsonValue } from "../domain/json.ts";
import { writeAll } from "../domain/bytes.ts";
import { strikesOn } from "./fault.ts";
import type { State } from "./host_folder.ts";

/** The streams and the exit code of a call that has ended. */
export interface ToolOutcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Whether SIGABRT ends it after its output. */
  readonly aborts?: boolean;
}

/** Success or no-op, with a message on stderr. */
export function said(text: string): ToolOutcome {
  return { code: 0, stdout: "", stderr: `${text}\n` };
}

/** A failure with its message on stderr. */
export function failed(text: string): ToolOutcome {
  return { code: 1, stdout: "", stderr: `${text}\n` };
}

/** The success of a program that prints this. */
export function printed(text: string): ToolOutcome {
  return { code: 0, stdout: text, stderr: "" };
}

/** JSON as the tool prints it: indented by two spaces, with a final newline. */
export function printedJson(value: JsonValue): ToolOutcome {
  return printed(JSON.stringify(value, null, 2) + "\n");
}

/** A failure of one of several steps that the tool does at once. */
export function firstOf(text: string): string {
  return `first of 1 error: ${text}`;
}

/** A failure of the simulated tool; the message is the tool's own, word for word. */
export function refusal(text: string): AgentError {
  return new AgentError("host", text);
}

/** An exception that the tool does not catch: it prints a stack and ends by SIGABRT. */
export function crash(text: string): AgentError {
  return new AgentError("aborted", text);
}

/** A call that the tool answers with its usage text and exit code 2. */
export function misuse(text: string): AgentError {
  return new AgentError("invalid_argument", text);
}

/** Bytes of the fault `flood`. */
const FLOOD_BYTES = 64 << 20;
const FLOOD_LINE = "x".repeat(1023) + "\n";
const GARBAGE = '\u0000\u001b[31m{"vnc": [[[ nonsense \ufffd';
const NOISE_STDOUT = "WARNING: the clock was stepped\n";
/** A log line as the real tool writes with VMADM_DEBUG_LEVEL, and a line from elsewhere. */
const NOISE_STDERR = '{"name":"vmadm","level":20,"msg":"simulated noise","v":0}\n' +
  "zoneadm: simulated noise before the message\n";

/** Applies the faults that spoil an outcome. */
export async function spoil(
  state: State,
  subcommand: string,
  outcome: ToolOutcome,
): Promise<ToolOutcome> {
  const on = (name: "empty" | "garbage" | "flood" | "noise_stdout" | "noise_stderr") =>
    strikesOn(state, name, subcommand);
  let { stdout, stderr } = outcome;
  if (await on("empty")) [stdout, stderr] = ["", ""];
  if (await on("garbage")) stdout = GARBAGE;
  if (await on("flood")) stdout = FLOOD_LINE.repeat(FLOOD_BYTES / FLOOD_LINE.length);
  if (await on("noise_stdout")) stdout = NOISE_STDOUT + stdout;
  if (await on("noise_stderr")) stderr = NOISE_STDERR + stderr;
  return { ...outcome, stdout, stderr };
}

/** Writes both streams completely; a reader that has gone is not a failure. @throws any other error of a stream */
export async function writeOutcome(outcome: ToolOutcome): Promise<void> {
  const encoder = new TextEncoder();
  try {
    await writeAll(Deno.stdout, encoder.encode(outcome.stdout));
    await writeAll(Deno.stderr, encoder.encode(outcome.stderr));
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}
