// The configurable limits of a task, and the message sizes that follow from them. Guests get them
// on their command line, so that both sides use the same numbers.

/** The word on a guest's command line that asks for a fresh realm for each task. */
export const FRESH_REALM_WORD = "fresh";

/** Sizes of what a task returns, changes and logs, in characters of JSON text. */
export interface TaskLimits {
  /** Characters of a task's result. */
  readonly resultCharsMax: number;
  /** Characters of each text of a task's error; longer ones are cut. */
  readonly errorCharsMax: number;
  /** Characters of the job object passed to a task, results of other tasks included. */
  readonly jobCharsMax: number;
  /** Characters of what a task may change in its job: params and fields it set. */
  readonly jobLeftCharsMax: number;
  /** Characters of the arguments of one capability call. */
  readonly callCharsMax: number;
  /** Log lines of one execution; further ones are dropped. */
  readonly taskLogLinesMax: number;
  /** Characters of one log line, and of its fields. */
  readonly taskLogCharsMax: number;
}

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
/** Characters queued for a guest that does not read. */
const UNREAD_CHARS_MIN = 48 * 1024 * 1024;

/**
 * Characters of the JSON text of a task's error as the agent accepts it: name, message with task
 * and line, and escapes. A realm limits each text itself, but a task may replace the functions it
 * uses.
 */
export function errorJsonCharsMax({ errorCharsMax }: TaskLimits): number {
  return Math.max(16 * errorCharsMax, 8 * 1024);
}

/**
 * Bytes of one message of a guest: the longest holds a result or an error, and the job as its task
 * left it.
 */
export function guestMessageBytesMax(limits: TaskLimits): number {
  const { resultCharsMax, jobLeftCharsMax, callCharsMax, taskLogCharsMax } = limits;
  const ended = Math.max(resultCharsMax, errorJsonCharsMax(limits));
  const longest = Math.max(ended + jobLeftCharsMax, callCharsMax, 2 * taskLogCharsMax);
  return longest * CHAR_BYTES_MAX + HEAD_BYTES;
}

/** Bytes of one message to a guest: the longest holds a source, a job and an error. */
export function agentMessageBytesMax(limits: TaskLimits): number {
  const run = (limits.jobCharsMax + errorJsonCharsMax(limits)) * CHAR_BYTES_MAX +
    SOURCE_CHARS_MAX * ESCAPE_BYTES;
  return Math.max(run, REPLY_CHARS_MAX * CHAR_BYTES_MAX) + HEAD_BYTES;
}

/**
 * Characters that may be queued for a guest that does not read: more than one message, and far less
 * than the answers to all its concurrent calls. A task that calls without reading is killed.
 */
export function unreadCharsMax({ jobCharsMax }: TaskLimits): number {
  return Math.max(UNREAD_CHARS_MIN, 2 * (jobCharsMax + SOURCE_CHARS_MAX));
}

/** The limits as one argument of a command line. */
export function taskLimitsWord(limits: TaskLimits): string {
  return LIMIT_NAMES.map((name) => limits[name]).join(",");
}

/**
 * Parses that argument.
 * @throws {Error} for any other text
 */
export function readTaskLimitsWord(word: string): TaskLimits {
  const numbers = word.split(",").map(Number);
  const sound = numbers.every((one) => Number.isSafeInteger(one) && one > 0);
  if (!sound || numbers.length !== LIMIT_NAMES.length) {
    throw new Error("Cannot start as a guest: its limits are not on the command line");
  }
  // There are as many numbers as names.
  return Object.fromEntries(LIMIT_NAMES.map((name, at) => [name, numbers[at]])) as Record<
    keyof TaskLimits,
    number
  >;
}

const LIMIT_NAMES = [
  "resultCharsMax",
  "errorCharsMax",
  "jobCharsMax",
  "jobLeftCharsMax",
  "callCharsMax",
  "taskLogLinesMax",
  "taskLogCharsMax",
] as const satisfies readonly (keyof TaskLimits)[];
