// The limits of a task that an operator may set, and the bounds of messages that follow from them.
// The agent hands them to a guest on its command line; both sides then keep to the same numbers.

/** How large what a task returns, changes and says may be. Characters are those of the JSON text. */
export interface TaskLimits {
  /** Characters of a task's result. */
  readonly resultCharsMax: number;
  /** Characters of each text of a task's error; what is longer is cut. */
  readonly errorCharsMax: number;
  /** Characters of the job object that a task gets, results of others included. */
  readonly jobCharsMax: number;
  /** Characters of what a task may change of its job: params and what it set. */
  readonly jobLeftCharsMax: number;
  /** Characters of the arguments of one capability call. */
  readonly callCharsMax: number;
  /** Log lines of one execution; further ones are dropped. */
  readonly taskLogLinesMax: number;
  /** Characters of one log line, and of its fields. */
  readonly taskLogCharsMax: number;
}

/**
 * Values of one capability call or log line, each member and each element counted. The most that an
 * info entry of the default size can hold is fewer.
 */
export const CALL_VALUES_MAX = 10_000;
/** Values of a result, or an error, together with the job as its task left it. */
export const END_VALUES_MAX = 1_000_000;

/** A character has at most three bytes. */
const CHAR_BYTES_MAX = 3;
/** What JSON makes of a control character, `\u0000`, has six bytes. */
const ESCAPE_BYTES = 6;
/** Names, numbers and what JSON writes around them. */
const HEAD_BYTES = 1024 * 1024;
/** Characters of the largest source that an operator may allow. */
export const SOURCE_CHARS_MAX = 16 * 1024 * 1024;
/** Characters of the JSON text of the answer to one capability call. */
export const REPLY_CHARS_MAX = 4 * 1024 * 1024;
/** Characters that wait for a guest which does not read. */
const UNREAD_CHARS_MIN = 48 * 1024 * 1024;

/**
 * Characters of the JSON text of a task's error as the agent takes it: its name, its message with the
 * task and the line, and room for what JSON escapes of them. A realm keeps to the limit of each text,
 * but a task may replace what the realm cuts and writes them with.
 */
export function errorJsonCharsMax({ errorCharsMax }: TaskLimits): number {
  return Math.max(16 * errorCharsMax, 8 * 1024);
}

/** Bytes of one message of a guest: the longest holds a result or an error, and a job as it was left. */
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
 * Characters that may wait for a guest which does not read: more than one message, and far less than
 * the answers to all calls that it may have under way. A task that asks and never listens is ended.
 */
export function unreadCharsMax({ jobCharsMax }: TaskLimits): number {
  return Math.max(UNREAD_CHARS_MIN, 2 * (jobCharsMax + SOURCE_CHARS_MAX));
}

/** The limits as one word of a command line. */
export function taskLimitsWord(limits: TaskLimits): string {
  return LIMIT_NAMES.map((name) => limits[name]).join(",");
}

/**
 * The limits of such a word.
 * @throws {Error} for any other
 */
export function readTaskLimitsWord(word: string): TaskLimits {
  const numbers = word.split(",").map(Number);
  const sound = numbers.every((one) => Number.isSafeInteger(one) && one > 0);
  if (!sound || numbers.length !== LIMIT_NAMES.length) {
    throw new Error("Cannot start as a guest: its limits are not on the command line");
  }
  // As many numbers as there are names.
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
