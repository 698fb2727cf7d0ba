// What one simulated command says: its two streams and its exit code, as the documented tool has
// them. Human text goes to stderr, success included; stdout carries data only.

import { AgentError } from "../domain/error.ts";
import type { JsonValue } from "../domain/json.ts";

/** The streams and the exit code of a call that has ended. */
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Success or no-op, with a sentence on stderr. */
export function said(text: string): Outcome {
  return { code: 0, stdout: "", stderr: `${text}\n` };
}

/** A failure with its message on stderr. */
export function failed(text: string): Outcome {
  return { code: 1, stdout: "", stderr: `${text}\n` };
}

/** Data on stdout. */
export function printed(text: string): Outcome {
  return { code: 0, stdout: text, stderr: "" };
}

/** Data as the tool prints JSON: two spaces and a final newline. */
export function printedJson(value: JsonValue): Outcome {
  return printed(JSON.stringify(value, null, 2) + "\n");
}

/** A failure of the simulated tool; the message is the tool's own, word for word. */
export function refusal(text: string): AgentError {
  return new AgentError("host", text);
}

/** A call that the tool answers with its usage text and exit code 2. */
export function misuse(text: string): AgentError {
  return new AgentError("invalid_argument", text);
}
