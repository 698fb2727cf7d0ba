// Parses messages of guests. Guests are not trusted: anything that is not a message of protocol.ts is refused, and the
// pool kills the guest. A parsed text takes many times its size, and work on it blocks the agent's thread. So a text with
// too many values is not parsed at all, and large texts are parsed one at a time, with a turn of the event loop in
// between. While they arrive and wait, they count against the memory budget: a guest is not read further before its turn.

import { AgentError } from "../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue, measureJson } from "../domain/json.ts";
import {
  ARGS_MAX,
  CAPABILITIES,
  type EndOutcome,
  type GuestCheck,
  type GuestMessage,
  JSON_DEPTH_MAX,
  SIGNALS,
} from "../wall/protocol.ts";
import {
  CALL_CHARS_MAX,
  CALL_VALUES_MAX,
  END_VALUES_MAX,
  ERROR_JSON_CHARS_MAX,
  JOB_LEFT_CHARS_MAX,
  LOG_CHARS_MAX,
  type TaskLimits,
} from "../wall/task_limits.ts";
import { SYSTEM_TIMERS, type Timers } from "../runtime/timers.ts";
import { type MemoryBudget, openMemoryBudget, type Reservation } from "../domain/memory_budget.ts";
import { LOG_LEVELS } from "../domain/job/log_line.ts";

const CHECKS_MAX = 64;
const OUTCOMES = ["success", "failure", "signal"] as const;
const TOO_DEEP = `is nested deeper than ${JSON_DEPTH_MAX} levels`;
const NOT_FINITE = "has a number that is too large";

/**
 * Parses one line of a guest. A key named `__proto__` is dropped at every level, so that no later assignment can make
 * it a prototype. A value that is nested too deeply, too long, or has too many values may not be the guest's fault, so
 * it becomes an error of its task.
 * @throws {AgentError} `malformed` for anything that is not a message of the protocol
 */
export function parseGuestMessage(line: string, limits: TaskLimits): GuestMessage {
  const unparsed = messageOfTooMany(line);
  if (unparsed === null) throw malformed("it has too many values");
  if (unparsed !== undefined) return unparsed;
  const message = parseObject(line);
  switch (message.type) {
    case "ready":
      return { type: "ready", checks: checks(message.checks) };
    case "call":
      return {
        type: "call",
        run: counter(message, "run"),
        call: counter(message, "call"),
        name: oneOf(CAPABILITIES, message, "name"),
        args: callArguments(message.args, line.length),
      };
    case "log":
      return {
        type: "log",
        run: counter(message, "run"),
        level: oneOf(LOG_LEVELS, message, "level"),
        message: text(message, "message"),
        fields: logFields(message, line.length),
      };
    case "end":
      return {
        type: "end",
        run: counter(message, "run"),
        outcome: endOutcome(message.outcome, limits, line.length),
      };
    case "closed":
      return { type: "closed", run: counter(message, "run"), spent: truth(message, "spent") };
    default:
      throw malformed("its type is unknown");
  }
}

function parseObject(line: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw malformed("it is not JSON", cause);
  }
  if (!isJsonObject(value)) throw malformed("it is not an object");
  if (Object.hasOwn(value, "__proto__")) Reflect.deleteProperty(value, "__proto__");
  return value;
}

/**
 * Why a value cannot be recorded, or undefined: nested too deeply, or with a number such as 1e400,
 * which JSON can write but nothing can hold. Also drops keys named `__proto__`; the limit bounds
 * the recursion.
 */
function flawOf(value: JsonValue | undefined, levelsLeft = JSON_DEPTH_MAX): string | undefined {
  if (typeof value === "number" && !Number.isFinite(value)) return NOT_FINITE;
  if (typeof value !== "object" || value === null) return undefined;
  if (levelsLeft === 0) return TOO_DEEP;
  if (!Array.isArray(value) && Object.hasOwn(value, "__proto__")) {
    Reflect.deleteProperty(value, "__proto__");
  }
  for (const inner of Array.isArray(value) ? value : Object.values(value)) {
    const flaw = flawOf(inner, levelsLeft - 1);
    if (flaw !== undefined) return flaw;
  }
  return undefined;
}

/**
 * Like flawOf(), and checks the size too. `lineChars` is the length of the message: a short message
 * holds no long value, and most are short.
 */
function flawOrSize(
  value: JsonValue | undefined,
  charsMax: number,
  lineChars: number,
): string | undefined {
  const flaw = flawOf(value);
  if (flaw !== undefined || lineChars <= charsMax) return flaw;
  const { length } = JSON.stringify(value ?? null);
  return length > charsMax ? `has ${length} characters of JSON, over ${charsMax}` : undefined;
}

function endOutcome(value: unknown, limits: TaskLimits, lineChars: number): EndOutcome {
  if (!isJsonObject(value)) throw malformed("outcome is not an object");
  const kind = oneOf(OUTCOMES, value, "kind");
  const job = kind === "failure" && value.job === null ? null : object(value, "job");
  const jobFlaw = flawOrSize(job ?? undefined, JOB_LEFT_CHARS_MAX, lineChars);
  if (jobFlaw !== undefined) return unrecordable("job", jobFlaw, null);
  if (kind === "failure") {
    const error = present(value, "error");
    const flaw = flawOrSize(error, ERROR_JSON_CHARS_MAX, lineChars);
    return flaw === undefined ? { kind, error, job } : unrecordable("error", flaw, job);
  }
  const result = present(value, "result");
  const flaw = flawOrSize(result, limits.resultCharsMax, lineChars);
  if (flaw !== undefined) return unrecordable("result", flaw, job);
  if (job === null) throw malformed("job is not an object");
  return kind === "success"
    ? { kind, result, job }
    : { kind, word: oneOf(SIGNALS, value, "word"), result, job };
}

function unrecordable(noun: string, flaw: string, job: JsonObject | null): EndOutcome {
  const message = `Cannot record the ${noun}: it ${flaw}`;
  return { kind: "failure", error: { name: "RangeError", message }, job };
}

function callArguments(
  value: unknown,
  lineChars: number,
): JsonValue[] | { flaw: string } {
  if (!Array.isArray(value)) throw malformed("args is not a list");
  if (value.length > ARGS_MAX) throw malformed(`args has more than ${ARGS_MAX} members`);
  for (const arg of value) {
    const flaw = flawOrSize(arg, CALL_CHARS_MAX, lineChars);
    if (flaw !== undefined) return { flaw };
  }
  return value;
}

/** Replaces fields that cannot be stored by a note. */
function logFields(message: JsonObject, lineChars: number): JsonObject {
  const fields = object(message, "fields");
  const flaw = flawOrSize(fields, LOG_CHARS_MAX, lineChars);
  return flaw === undefined ? fields : { fields: flaw };
}

function checks(value: unknown): GuestCheck[] {
  if (!Array.isArray(value) || value.length > CHECKS_MAX) throw malformed("checks is not a list");
  return value.map((check) => {
    if (!isJsonObject(check)) throw malformed("a check is not an object");
    return { check: text(check, "check"), ok: truth(check, "ok"), detail: text(check, "detail") };
  });
}

function counter(message: JsonObject, field: string): number {
  const value = own(message, field);
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
    throw malformed(`${field} is not a counter`);
  }
  return value;
}

function text(message: JsonObject, field: string): string {
  const value = own(message, field);
  if (typeof value !== "string") throw malformed(`${field} is not a text`);
  return value;
}

function truth(message: JsonObject, field: string): boolean {
  const value = own(message, field);
  if (typeof value !== "boolean") throw malformed(`${field} is not true or false`);
  return value;
}

function object(message: JsonObject, field: string): JsonObject {
  const value = own(message, field);
  if (!isJsonObject(value)) throw malformed(`${field} is not an object`);
  return value;
}

function present(message: JsonObject, field: string): JsonValue {
  const value = own(message, field);
  if (value === undefined) throw malformed(`${field} is missing`);
  return value;
}

function oneOf<Word extends string>(
  words: readonly Word[],
  message: JsonObject,
  field: string,
): Word {
  const value = own(message, field);
  const word = words.find((known) => known === value);
  if (word === undefined) throw malformed(`${field} is not one of the known words`);
  return word;
}

function own(message: JsonObject, field: string): JsonValue | undefined {
  return Object.hasOwn(message, field) ? message[field] : undefined;
}

function malformed(what: string, cause?: unknown): AgentError {
  return new AgentError("malformed", `Cannot read a message of a guest: ${what}`, { cause });
}

/** Bytes from which a message waits for its turn; parsing a smaller one takes some milliseconds at most. */
const LARGE_CHARS_MIN = 16 * 1024;
/** Characters at the end of a line that hold everything but its large values, see realm/host.ts. */
const TAIL_CHARS = 200;

const CALL_TAIL = /,"name":"([a-z.]+)","call":(\d{1,15}),"type":"call","run":(\d{1,15})\}$/;
const LOG_TAIL = /,"level":"([a-z]+)","type":"log","run":(\d{1,15})\}$/;
const END_TAIL = /,"type":"end","run":(\d{1,15})\}$/;

/** Size from which an unfinished message waits for memory; smaller ones need none. */
const HELD_BYTES_MIN = 64 * 1024;
/** Bytes in memory per character of a text. */
const CHAR_BYTES = 2;
/** Time for a message to arrive once there is memory for it, milliseconds. */
const ARRIVAL_MS_MAX = 60_000;

/** The queue of large messages of all guests. */
export class LargeMessageTurns {
  readonly budget: MemoryBudget;
  readonly timers: Timers;
  #last: Promise<void> = Promise.resolve();

  constructor(budget: MemoryBudget = openMemoryBudget(), timers = SYSTEM_TIMERS) {
    this.timers = timers;
    this.budget = budget;
  }

  /** Waits for a turn of the event loop; undefined for a small message. */
  of(line: string): Promise<void> | undefined {
    if (line.length < LARGE_CHARS_MIN) return undefined;
    this.#last = this.#last.then(() => new Promise((resolve) => setTimeout(resolve, 0)));
    return this.#last;
  }
}

/** Memory of one guest's messages, from the account `guests`. A guest has at most one reservation, and mostly none. */
export class MessageMemory {
  readonly #turns: Pick<LargeMessageTurns, "budget" | "timers">;
  readonly #gone = new AbortController();
  /** Called when a message takes too long to arrive; the words finish "its process ...". */
  readonly #late: (words: string) => void;
  #held: Reservation | undefined;
  #cancelTimer: (() => void) | undefined;

  constructor(
    turns: Pick<LargeMessageTurns, "budget" | "timers">,
    late: (words: string) => void,
  ) {
    this.#turns = turns;
    this.#late = late;
  }

  /**
   * Reserves the memory of an arriving message, all of it at once, so that no two wait for each
   * other; undefined when it has it, or needs none yet.
   * @throws {AgentError} `aborted` when the guest has gone
   */
  hold(arrivedBytes: number, bytesMax: number): Promise<void> | undefined {
    if (arrivedBytes < HELD_BYTES_MIN || this.#held !== undefined) return undefined;
    return this.#wait(bytesMax);
  }

  /** Returns what was reserved beyond the size of a complete message. */
  arrived(line: string): void {
    if (this.#held === undefined) return;
    this.#cancelTimer?.();
    this.#held.resize(Math.min(CHAR_BYTES * line.length, this.#held.bytes));
  }

  release(): void {
    this.#held?.release();
    this.#held = undefined;
  }

  /** Ends the wait of a guest that has gone. */
  close(): void {
    this.#gone.abort();
    this.#cancelTimer?.();
    this.release();
  }

  async #wait(bytesMax: number): Promise<void> {
    const turn = { turnMs: Number.POSITIVE_INFINITY, signal: this.#gone.signal };
    const { budget, timers } = this.#turns;
    const held = await budget.reserve("guests", bytesMax, "read a large message", turn);
    // The guest has ended just as its turn came.
    if (this.#gone.signal.aborted) return held.release();
    this.#held = held;
    // A guest that stops in the middle of a message must not block those of others.
    const words = `took over ${ARRIVAL_MS_MAX / 1000} s to send a message`;
    this.#cancelTimer = timers.start(ARRIVAL_MS_MAX, () => this.#late(words));
  }
}

/**
 * Replaces a line with too many values by a message with an error of its task.
 * @returns undefined for a line that may be parsed; null for one that is not a message
 */
function messageOfTooMany(line: string): GuestMessage | undefined | null {
  // Each value takes at least one character.
  if (line.length <= CALL_VALUES_MAX) return undefined;
  const { values } = measureJson(new TextEncoder().encode(line));
  const tail = line.slice(-TAIL_CHARS);
  const [, endRun] = END_TAIL.exec(tail) ?? [];
  const valuesMax = endRun === undefined ? CALL_VALUES_MAX : END_VALUES_MAX;
  if (values <= valuesMax) return undefined;
  const flaw = `has more than ${valuesMax} values`;
  if (endRun !== undefined) {
    const error = { name: "RangeError", message: `Cannot record the end of the task: it ${flaw}` };
    return { type: "end", run: Number(endRun), outcome: { kind: "failure", error, job: null } };
  }
  const [, capability, call, callRun] = CALL_TAIL.exec(tail) ?? [];
  const name = CAPABILITIES.find((known) => known === capability);
  if (name !== undefined) {
    return { type: "call", run: Number(callRun), call: Number(call), name, args: { flaw } };
  }
  const [, levelWord, logRun] = LOG_TAIL.exec(tail) ?? [];
  const level = LOG_LEVELS.find((known) => known === levelWord);
  if (level === undefined) return null;
  return { type: "log", run: Number(logRun), level, message: `The line ${flaw}`, fields: {} };
}
