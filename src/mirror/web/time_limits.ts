// Time limits for foreign servers, and waits between attempts. They are arguments, so that tests can wait in
// milliseconds.

import { abortedError, AgentError } from "../../domain/error.ts";

/** Limits for one foreign server, in milliseconds. */
export interface TimeLimits {
  /** From the request to the head of the answer: name lookup, connection, TLS and first byte. */
  readonly answerMs: number;
  /** Between two parts of a document. */
  readonly idleMs: number;
  /** For a whole document, however steadily it arrives. */
  readonly documentMs: number;
  /** A download must receive {@linkcode STALL_BYTES} within this time; there is no limit on the total. */
  readonly stallMs: number;
}

/** The limits of every request to an upstream, milliseconds. */
export const TIME_LIMITS: TimeLimits = {
  answerMs: 10_000,
  idleMs: 30_000,
  documentMs: 120_000,
  stallMs: 60_000,
};

/** Bytes that a download must receive within `stallMs`, or the attempt ends. */
export const STALL_BYTES = 64 * 1024;

/** Waits; rejects with the signal's reason when it fires first. */
export type Wait = (ms: number, signal?: AbortSignal) => Promise<void>;

/** Waits by the system clock. */
export const systemWait: Wait = (ms, signal) =>
  new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const giveUp = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", giveUp);
      resolve();
    }, ms);
    signal?.addEventListener("abort", giveUp, { once: true });
  });

/** A signal that fires at a deadline or when it is canceled. */
export interface Deadline {
  readonly signal: AbortSignal;
  /** Starts the time again, with so many milliseconds. */
  extend(ms: number): void;
  /** Stops the time until it is restarted. */
  hold(): void;
  /** Ends the deadline. Must be called, or the timer keeps the process alive. */
  clear(): void;
}

/** Starts a deadline; `what` is the action that the error names. */
export function openDeadline(ms: number, what: string, outer?: AbortSignal): Deadline {
  const controller = new AbortController();
  const expire = (after: number) => () =>
    controller.abort(new AgentError("timeout", `Cannot ${what}: nothing arrived for ${after} ms`));
  const giveUp = () => controller.abort(abortReason(what, outer));
  let timer = setTimeout(expire(ms), ms);
  if (outer?.aborted) giveUp();
  outer?.addEventListener("abort", giveUp, { once: true });
  return {
    signal: controller.signal,
    extend(after) {
      clearTimeout(timer);
      timer = setTimeout(expire(after), after);
    },
    hold: () => clearTimeout(timer),
    clear() {
      clearTimeout(timer);
      outer?.removeEventListener("abort", giveUp);
    },
  };
}

/** Why work ended that its callers aborted: their own reason, if it is an error for callers. */
export function abortReason(what: string, signal: AbortSignal | undefined): AgentError {
  if (signal?.reason instanceof AgentError) return signal.reason;
  return abortedError(`Cannot ${what}`, signal);
}
