// Words for the shell at the far end of an ssh connection: ssh joins its arguments with spaces and
// has the login shell of the user read them, so whatever is to arrive as it is must be quoted.

import { AgentError } from "../../domain/error.ts";

/**
 * Largest size of one command, bytes. Linux takes at most 128 KiB in one argument of a program, and
 * the whole command is one argument of the far end's shell.
 */
export const COMMAND_BYTES_MAX = 100 * 1024;

/**
 * One word that a POSIX shell reads as exactly this text.
 * @throws {AgentError} `invalid_argument` for what no argument of a program can hold: a NUL, or half
 * of a surrogate pair, which has no UTF-8
 */
export function quoted(word: string): string {
  if (word.includes("\0") || !word.isWellFormed()) {
    const message = `Cannot hand ${JSON.stringify(word.slice(0, 80))} to a program on another ` +
      "host: expected text without NUL and without half characters";
    throw new AgentError("invalid_argument", message);
  }
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/**
 * A command line of these words.
 * @throws {AgentError} `invalid_argument` as quoted(); `too_large` beyond COMMAND_BYTES_MAX
 */
export function commandLine(words: readonly string[]): string {
  const line = words.map(quoted).join(" ");
  const bytes = new TextEncoder().encode(line).length;
  if (bytes <= COMMAND_BYTES_MAX) return line;
  const message = `Cannot run a command on another host: it has ${bytes} bytes, ` +
    `at most ${COMMAND_BYTES_MAX} are possible`;
  throw new AgentError("too_large", message);
}
