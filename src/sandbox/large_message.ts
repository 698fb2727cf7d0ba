// Large messages of guests. What a text becomes is many times its size, and what is done with it takes
// time on the agent's own thread: a text of too many values is not parsed at all, and of those that are
// large one is read at a time, with a turn of the event loop between two. While they arrive and wait, they
// are in the memory budget: a guest whose turn has not come is not read further.

import { measureJson } from "../domain/json_scan.ts";
import { type MemoryBudget, openMemoryBudget, type Reservation } from "../domain/memory_budget.ts";
import { CAPABILITIES, type GuestMessage, LOG_LEVELS } from "./protocol.ts";
import { CALL_VALUES_MAX, END_VALUES_MAX } from "./task_limits.ts";

/** Characters from which on a message waits for its turn: some milliseconds of work at most. */
const LARGE_CHARS_MIN = 16 * 1024;
/** Characters at the end of a line in which all but its large values stands, see realm_host.ts. */
const TAIL_CHARS = 200;

const CALL_TAIL = /,"name":"([a-z.]+)","call":(\d{1,15}),"type":"call","run":(\d{1,15})\}$/;
const LOG_TAIL = /,"level":"([a-z]+)","type":"log","run":(\d{1,15})\}$/;
const END_TAIL = /,"type":"end","run":(\d{1,15})\}$/;

/** Bytes from which on a message that has not ended waits for memory; what is shorter pays nothing. */
const HELD_BYTES_MIN = 64 * 1024;
/** What a text takes for one of its characters. */
const CHAR_BYTES = 2;
/** Time for a message to arrive once there is memory for it, milliseconds. */
const ARRIVAL_MS_MAX = 60_000;

/** The line in which large messages wait, whichever guests sent them. */
export class LargeMessageTurns {
  readonly budget: MemoryBudget;
  #last: Promise<void> = Promise.resolve();

  constructor(budget: MemoryBudget = openMemoryBudget()) {
    this.budget = budget;
  }

  /** A turn of the event loop for one large message alone; undefined for a small one. */
  of(line: string): Promise<void> | undefined {
    if (line.length < LARGE_CHARS_MIN) return undefined;
    this.#last = this.#last.then(() => new Promise((resolve) => setTimeout(resolve, 0)));
    return this.#last;
  }
}

/** What the messages of one guest hold of the account `guests`: one at a time, and most nothing. */
export class MessageMemory {
  readonly #budget: MemoryBudget;
  readonly #gone = new AbortController();
  /** Called when a message takes too long to arrive; the words finish "its process ...". */
  readonly #late: (words: string) => void;
  #held: Reservation | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(budget: MemoryBudget, late: (words: string) => void) {
    this.#budget = budget;
    this.#late = late;
  }

  /**
   * Memory for a message of which so much has arrived, all of it at once, so that no two wait for each
   * other; undefined when it has that, or needs none yet.
   * @throws {AgentError} `aborted` when the guest has gone
   */
  hold(arrivedBytes: number, bytesMax: number): Promise<void> | undefined {
    if (arrivedBytes < HELD_BYTES_MIN || this.#held !== undefined) return undefined;
    return this.#wait(bytesMax);
  }

  /** The message is there. */
  arrived(line: string): void {
    if (this.#held === undefined) return;
    clearTimeout(this.#timer);
    this.#held.resize(Math.min(CHAR_BYTES * line.length, this.#held.bytes));
  }

  /** The message was acted on. */
  release(): void {
    this.#held?.release();
    this.#held = undefined;
  }

  /** Ends a wait: the guest has gone. */
  close(): void {
    this.#gone.abort();
    clearTimeout(this.#timer);
    this.release();
  }

  async #wait(bytesMax: number): Promise<void> {
    const turn = { turnMs: Number.POSITIVE_INFINITY, signal: this.#gone.signal };
    const held = await this.#budget.reserve("guests", bytesMax, "read a large message", turn);
    // Gone in the moment in which its turn came.
    if (this.#gone.signal.aborted) return held.release();
    this.#held = held;
    // A guest that stops in the middle must not hold up the messages of others.
    const words = `took over ${ARRIVAL_MS_MAX / 1000} s to send a message`;
    this.#timer = setTimeout(() => this.#late(words), ARRIVAL_MS_MAX);
  }
}

/**
 * The message of a line with too many values, without them: an error of its task in their place.
 * @returns undefined for a line that may be parsed; null for one that is no message either
 */
export function messageOfTooMany(line: string): GuestMessage | undefined | null {
  // Each value takes a character.
  if (line.length <= CALL_VALUES_MAX) return undefined;
  const { values } = measureJson(new TextEncoder().encode(line));
  const tail = line.slice(-TAIL_CHARS);
  const [, endRun] = END_TAIL.exec(tail) ?? [];
  const valuesMax = endRun === undefined ? CALL_VALUES_MAX : END_VALUES_MAX;
  if (values <= valuesMax) return undefined;
  const flaw = `has over ${valuesMax} values`;
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
