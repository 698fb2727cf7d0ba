// The exit codes, a closed table. Scripts depend on it: no code changes its meaning.

import { AgentError, ERROR_CODES } from "../../domain/error.ts";

/** Every exit code by its meaning; `zonewright --help` prints them. */
export const EXIT = {
  ok: 0,
  failure: 1,
  /** The command line, the configuration or a parameter is wrong. */
  usage: 2,
  /** The agent does not answer. */
  unreachable: 3,
  not_found: 4,
  /** The job that was run or waited for has failed. */
  job_failed: 5,
  /** The state of the thing does not allow it. */
  conflict: 6,
  /** The job that was run or waited for was canceled. */
  canceled: 7,
  /** Gave up waiting; as timeout(1) says it. */
  timeout: 124,
  /** Ctrl-C; 128 plus the number of SIGINT. */
  interrupted: 130,
} as const;
/** One of the exit codes. */
export type ExitCode = typeof EXIT[keyof typeof EXIT];

/** The exit code for anything that was thrown. */
export function exitCodeOf(error: unknown): ExitCode {
  return error instanceof AgentError ? EXIT[ERROR_CODES[error.code].exit] : EXIT.failure;
}
