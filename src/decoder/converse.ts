// One piece of work with one decoder: its input goes out as fast as the decoder takes it, its output
// is read as fast as the caller does, and whatever is not the protocol kills the decoder.

import { AgentError, type ErrorCode, messageOf } from "../domain/error.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import { parseAnswer, REQUEST_BYTES_MAX } from "./message.ts";
import { DecoderLost, type DecoderProcess } from "./process.ts";
import { FRAME, frameBytes, jsonFrame, partsOf } from "./frames.ts";
import { type WorkLimits, type WorkName, WORKS } from "./work_limits.ts";

/** What a piece of work is done on. A part may be used again once the next one is asked for. */
export type DecoderInput = Uint8Array | AsyncIterable<Uint8Array>;

/** What a caller says of one piece of work. */
export interface DecoderOptions {
  /** Kills the decoder at once, or ends the wait for one. */
  readonly signal?: AbortSignal;
  /** Finishes "Cannot ..." in errors. */
  readonly what: string;
  /** A deadline other than the work's own, milliseconds. */
  readonly deadlineMs?: number;
  /** The code when the decoder ends, or its time or memory is used up; `too_large` when absent. */
  readonly code?: ErrorCode;
  /** Pieces of one kind with the same origin may share a process; without one, none does. */
  readonly origin?: string;
  /**
   * Goes ahead of other work, however much of that waits: for what jobs need, whose number is bounded
   * by the slots, so that callers who send much to read hold up no job.
   */
  readonly ahead?: boolean;
}

/** A piece of work as it was asked for. */
export interface WorkOrder {
  readonly work: WorkName;
  readonly request: JsonObject;
  readonly input: DecoderInput;
  readonly options: DecoderOptions;
}

/**
 * Yields the output of a piece of work and returns its answer. Leaving it early kills the decoder.
 * @throws {AgentError} what the work has thrown; of the code in the options when the decoder ends, its
 *   time is up or its memory is used up; `aborted`; and whatever the input throws
 */
export async function* converse(
  decoder: DecoderProcess,
  order: WorkOrder,
): AsyncGenerator<Uint8Array<ArrayBuffer>, JsonValue> {
  const { work, options } = order;
  const limits = { ...WORKS[work], deadlineMs: options.deadlineMs ?? WORKS[work].deadlineMs };
  const words = lostWords(options.what, decoder.memoryMib, limits.deadlineMs);
  const clock = new WorkClock(limits, () => decoder.kill("was killed: its time was up"));
  const abort = () => decoder.kill("was killed: its work was given up");
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
    if (options.signal?.aborted === true) throw abortedError(options.what);
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
    // A decoder that has not taken all of its input cannot begin another piece of work.
    if (!whole && decoder.alive) decoder.kill("was killed: its work was left");
  }
}

/** What is thrown when the signal of a piece of work ends it. @param what finishes "Cannot ..." */
export function abortedError(what: string): AgentError {
  return new AgentError("aborted", `Cannot ${what}: it was given up`);
}

function lostWords(what: string, memoryMib: number, deadlineMs: number): string {
  return `Cannot ${what} within ${memoryMib} MiB and ${deadlineMs / 1000} s`;
}

/** The way of the input into the pipe. */
class Sending {
  /** Whether all of it is in the pipe, or on its way. */
  done = false;
  /** What the input threw: the caller's own error, not the decoder's. */
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

  /** Never rejects: what goes wrong shows in the frames that follow, or do not. */
  async run(): Promise<void> {
    const { work, request, input } = this.#order;
    try {
      await this.#decoder.send(requestFrame(work, request));
      if (input instanceof Uint8Array) await this.#part(input);
      else await this.#all(input);
      // Before it is written: the answer may be here sooner than the word that the pipe took it.
      this.done = true;
      await this.#decoder.send(frameBytes(FRAME.inputEnd, new Uint8Array(0)));
    } catch (error) {
      if (error instanceof DecoderLost) return;
      this.broken ??= { error };
      this.#decoder.kill("was killed: its input broke off");
    }
  }

  /** Asks the input for nothing more. */
  stop(): void {
    if (this.done) return;
    // It may be waiting for what never comes: nobody waits for it.
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
  throw new AgentError("internal", `Cannot ask a decoder: ${frame.length} bytes are no request`);
}

// The time of one piece of work: it runs while the agent waits for nothing but the decoder, and
// stands while the decoder's input is not there yet or its output is not taken.

/** Opened with a piece of work, closed with it. */
class WorkClock {
  readonly #limits: Pick<WorkLimits, "deadline" | "deadlineMs">;
  readonly #late: () => void;
  #leftMs: number;
  #beganMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #standing = 0;

  /** It runs at once. @param late called when the time is up */
  constructor(limits: Pick<WorkLimits, "deadline" | "deadlineMs">, late: () => void) {
    this.#limits = limits;
    this.#late = late;
    this.#leftMs = limits.deadlineMs;
    this.#run();
  }

  /** Stands while the wait lasts. Waits may overlap. */
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
    clearTimeout(this.#timer);
    this.#leftMs -= performance.now() - this.#beganMs;
  }

  goOn(): void {
    this.#standing -= 1;
    if (this.#standing === 0) this.#run();
  }

  /** Bytes have moved: where that counts, the time begins again. */
  moved(): void {
    if (this.#limits.deadline !== "progress") return;
    clearTimeout(this.#timer);
    this.#leftMs = this.#limits.deadlineMs;
    if (this.#standing === 0) this.#run();
  }

  close(): void {
    this.#standing = Number.POSITIVE_INFINITY;
    clearTimeout(this.#timer);
  }

  #run(): void {
    this.#beganMs = performance.now();
    this.#timer = setTimeout(this.#late, Math.max(this.#leftMs, 0));
  }
}
