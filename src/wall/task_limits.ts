// The limits of a task, in characters of JSON text, and the message sizes that follow from them, which both sides of
// the wall know. Guests get the one that may be set on their command line.

/** The word on a guest's command line that asks for a fresh realm for each task. */
export const FRESH_REALM_WORD = "fresh";

/** What an operator may set of the limits of a task. */
export interface TaskLimits {
  /** Characters of a task's result. */
  readonly resultCharsMax: number;
}

/** Characters of each text of a task's error; longer ones are cut. */
export const ERROR_CHARS_MAX = 16 * 1024;
/** Characters of the job object passed to a task, results of other tasks included. */
export const JOB_CHARS_MAX = 8 * 1024 * 1024;
/** Characters of what a task may change in its job: params and fields it set. */
export const JOB_LEFT_CHARS_MAX = 4 * 1024 * 1024;
/** Characters of the arguments of one capability call. */
export const CALL_CHARS_MAX = 512 * 1024;
/** Log lines of one execution; further ones are dropped. */
export const LOG_LINES_MAX = 2000;
/** Characters of one log line, and of its fields. */
export const LOG_CHARS_MAX = 8 * 1024;

/**
 * Values of one capability call or log line, counting each member and element. No info entry of the
 * default size holds as many.
 */
export const CALL_VALUES_MAX = 10_000;
/** Values of a result or an error, together with the job that its task left. */
export const END_VALUES_MAX = 1_000_000;

/** A character has at most three bytes. */
const CHAR_BYTES_MAX = 3;
/** JSON escapes a control character, `\u0000`, in six bytes. */
const ESCAPE_BYTES = 6;
/** Names, numbers and JSON syntax. */
const HEAD_BYTES = 1024 * 1024;
/** Characters of the largest source that an operator may allow. */
export const SOURCE_CHARS_MAX = 16 * 1024 * 1024;
/** Characters of the JSON text of the answer to one capability call. */
export const REPLY_CHARS_MAX = 4 * 1024 * 1024;
/**
 * Characters that may be queued for a guest that does not read: more than one message, and far less
 * than the answers to all its concurrent calls. A task that calls without reading is killed.
 */
export const UNREAD_CHARS_MAX = 48 * 1024 * 1024;

/**
 * Characters of the JSON text of a task's error as the agent accepts it: name, message with task
 * and line, and escapes. A realm limits each text itself, but a task may replace the functions it
 * uses.
 */
export const ERROR_JSON_CHARS_MAX = 16 * ERROR_CHARS_MAX;

/**
 * Bytes of one message of a guest: the longest holds a result or an error, and the job as its task
 * left it.
 */
export function guestMessageBytesMax({ resultCharsMax }: TaskLimits): number {
  const ended = Math.max(resultCharsMax, ERROR_JSON_CHARS_MAX);
  return (ended + JOB_LEFT_CHARS_MAX) * CHAR_BYTES_MAX + HEAD_BYTES;
}

/** Bytes of one message to a guest: the longest holds a source, a job and an error. */
export const AGENT_MESSAGE_BYTES_MAX = (JOB_CHARS_MAX + ERROR_JSON_CHARS_MAX) * CHAR_BYTES_MAX +
  SOURCE_CHARS_MAX * ESCAPE_BYTES + HEAD_BYTES;

/**
 * Parses the limits on a guest's command line, which are those that an operator may set.
 * @throws {Error} for any other text
 */
export function readTaskLimitsWord(word: string): TaskLimits {
  const resultCharsMax = Number(word);
  if (Number.isSafeInteger(resultCharsMax) && resultCharsMax > 0) return { resultCharsMax };
  throw new Error("Cannot start as a guest: its limits are not on the command line");
}
