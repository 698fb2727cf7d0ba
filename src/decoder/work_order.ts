// One piece of work of a decoder. Input is sent as fast as the decoder takes it, output is read as fast
// as the caller takes it, and anything outside the protocol kills the decoder.

import { abortedError, AgentError, type ErrorCode, messageOf } from "../domain/error.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import {
  FRAME,
  frameBytes,
  jsonFrame,
  parseAnswer,
  partsOf,
  REQUEST_BYTES_MAX,
  type WorkLimits,
  type WorkName,
  WORKS,
} from "./decoder_message.ts";
import { DecoderLost, type DecoderProcess } from "./process.ts";
import { SYSTEM_TIMERS, type Timers } from "../runtime/timers.ts";

/** Input of a piece of work. A part may be reused once the next one is requested. */
export type DecoderInput = Uint8Array | AsyncIterable<Uint8Array>;

/** Options of one piece of work. */
export interface DecoderOptions {
  /** Kills the decoder at once, or ends the wait for one. */
  readonly signal?: AbortSignal;
  /** The action, worded to follow "Cannot" in errors. */
  readonly what: string;
  /** A deadline that differs from the work's own, milliseconds. */
  readonly deadlineMs?: number;
  /** Measure the time of the work; the system's unless given. */
  readonly timers?: Timers;
  /** Error code when the decoder ends or exceeds its time or memory; `too_large` unless given. */
  readonly code?: ErrorCode;
  /** Work of one kind and origin may share a process; without an origin none does. */
  readonly origin?: string;
  /**
   * Goes ahead of other waiting work. For the needs of jobs, whose number the slots bound, so that
   * callers with much to read do not delay jobs.
   */
  readonly ahead?: boolean;
}

/** A piece of work as requested. */
export interface WorkOrder {
  readonly work: WorkName;
  readonly request: JsonObject;
  readonly input: DecoderInput;
  readonly options: DecoderOptions;
}

/**
 * Yields the output of a piece of work and returns its answer. Leaving it early kills the decoder.
 * @throws {AgentError} the work's own error; the code in the options when the decoder ends or
 *   exceeds its time or memory; `aborted`; and whatever the input throws
 */
export async function* runWork(
  decoder: DecoderProcess,
  order: WorkOrder,
): AsyncGenerator<Uint8Array<ArrayBuffer>, JsonValue> {
  const { work, options } = order;
  const limits = { ...WORKS[work], deadlineMs: options.deadlineMs ?? WORKS[work].deadlineMs };
  const words = lostWords(options.what, decoder.memoryMib, limits.deadlineMs);
  const late = () => decoder.kill("was killed: its time was up");
  const clock = new WorkClock(limits, late, options.timers ?? SYSTEM_TIMERS);
  const abort = () => decoder.kill(CANCELED);
  options.signal?.addEventListener("abort", abort, { once: true });
  decoder.runs += 1;
  decoder.answerBytesMax = limits.answerBytesMax;
  const sending = new Sending(decoder, order, clock);
  let whole = false;
  try {
    options.signal?.throwIfAborted();
    sending.run();
    for (;;) {
      const frame = await decoder.next();
      clock.moved();
      if (frame.kind === FRAME.answer) {
        whole = sending.done;
        return parseAnswer(frame);
      }
      clock.stand();
      yield frame.payload;
      clock.goOn();
    }
  } catch (error) {
    if (sending.broken !== undefined) throw sending.broken.error;
    if (options.signal?.aborted === true) {
      throw abortedError(`Cannot ${options.what}`, options.signal);
    }
    if (error instanceof DecoderLost) {
      const message = `${words}: its process ${error.end.words}`;
      throw new AgentError(options.code ?? "too_large", message, { cause: error });
    }
    if (error instanceof AgentError) throw error;
    decoder.kill(`broke the protocol: ${messageOf(error)}`);
    throw new AgentError("internal", `Cannot ${options.what}: ${messageOf(error)}`);
  } finally {
    clock.close();
    options.signal?.removeEventListener("abort", abort);
    sending.stop();
    // A decoder that has not read all of its input cannot start another piece of work.
    if (!whole && decoder.alive) decoder.kill("was killed: its work was left");
  }
}

/** Why a decoder ended whose work was canceled. */
export const CANCELED = "was killed: its work was canceled";

function lostWords(what: string, memoryMib: number, deadlineMs: number): string {
  return `Cannot ${what} within ${memoryMib} MiB and ${deadlineMs / 1000} s`;
}

/** Sends the input into the pipe. */
class Sending {
  /** Whether all input has been sent. */
  done = false;
  /** The input's error: the caller's own, not the decoder's. */
  broken: { readonly error: unknown } | undefined;
  readonly #decoder: DecoderProcess;
  readonly #order: WorkOrder;
  readonly #clock: WorkClock;
  #iterator: AsyncIterator<Uint8Array> | undefined;

  constructor(decoder: DecoderProcess, order: WorkOrder, clock: WorkClock) {
    this.#decoder = decoder;
    this.#order = order;
    this.#clock = clock;
  }

  /** Never rejects: errors show in the frames that follow or are missing. */
  async run(): Promise<void> {
    const { work, request, input } = this.#order;
    try {
      await this.#decoder.send(requestFrame(work, request));
      if (input instanceof Uint8Array) await this.#part(input);
      else await this.#all(input);
      // Set before the write: the answer may arrive before the write is confirmed.
      this.done = true;
      await this.#decoder.send(frameBytes(FRAME.inputEnd, new Uint8Array(0)));
    } catch (error) {
      if (error instanceof DecoderLost) return;
      this.broken ??= { error };
      this.#decoder.kill("was killed: its input broke off");
    }
  }

  /** Reads no more of the input. */
  stop(): void {
    if (this.done) return;
    // Not awaited: it may be waiting for something that never comes.
    this.#iterator?.return?.()?.catch?.(() => {});
  }

  async #all(input: AsyncIterable<Uint8Array>): Promise<void> {
    const iterator = this.#iterator = input[Symbol.asyncIterator]();
    for (;;) {
      const { value, done } = await this.#clock.standing(() => iterator.next());
      if (done === true) return;
      await this.#part(value);
    }
  }

  async #part(part: Uint8Array): Promise<void> {
    for (const piece of partsOf(part)) {
      await this.#decoder.send(frameBytes(FRAME.input, piece));
      this.#clock.moved();
    }
  }
}

function requestFrame(work: WorkName, request: JsonObject): Uint8Array {
  const frame = jsonFrame(FRAME.work, { work, request });
  if (frame.length <= REQUEST_BYTES_MAX) return frame;
  throw new AgentError(
    "internal",
    `Cannot send a request to a decoder: it has ${frame.length} bytes, expected at most ${REQUEST_BYTES_MAX}`,
  );
}

/**
 * The time of one piece of work. It runs while the agent waits only for the decoder, and pauses while input is missing or
 * output is not read.
 */
class WorkClock {
  readonly #limits: Pick<WorkLimits, "deadline" | "deadlineMs">;
  readonly #late: () => void;
  readonly #timers: Timers;
  #leftMs: number;
  #beganMs = 0;
  #stopTimer: () => void = () => {};
  #standing = 0;

  /** Starts at once. @param late called at the deadline */
  constructor(
    limits: Pick<WorkLimits, "deadline" | "deadlineMs">,
    late: () => void,
    timers: Timers,
  ) {
    this.#limits = limits;
    this.#late = late;
    this.#timers = timers;
    this.#leftMs = limits.deadlineMs;
    this.#run();
  }

  /** Pauses during a wait. Waits may overlap. */
  async standing<T>(wait: () => Promise<T>): Promise<T> {
    this.stand();
    try {
      return await wait();
    } finally {
      this.goOn();
    }
  }

  stand(): void {
    this.#standing += 1;
    if (this.#standing > 1) return;
    this.#stopTimer();
    this.#leftMs -= this.#timers.nowMs() - this.#beganMs;
  }

  goOn(): void {
    this.#standing -= 1;
    if (this.#standing === 0) this.#run();
  }

  /** Restarts the time, where progress counts. */
  moved(): void {
    if (this.#limits.deadline !== "progress") return;
    this.#stopTimer();
    this.#leftMs = this.#limits.deadlineMs;
    if (this.#standing === 0) this.#run();
  }

  close(): void {
    this.#standing = Number.POSITIVE_INFINITY;
    this.#stopTimer();
  }

  #run(): void {
    this.#beganMs = this.#timers.nowMs();
    this.#stopTimer = this.#timers.start(Math.max(this.#leftMs, 0), this.#late);
  }
}
