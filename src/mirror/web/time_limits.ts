// Time limits of talking to servers that are not ours, and the waits between tries. They come in as
// arguments, so that tests may wait in milliseconds.

import { AgentError } from "../../domain/error.ts";

/** All in milliseconds. */
export interface TimeLimits {
  /** From asking to the head of the answer: name, connection, TLS and first byte. */
  readonly answerMs: number;
  /** Between two parts of a document. */
  readonly idleMs: number;
  /** For the whole of a document, {@linkcode DOCUMENT_MS} unless given. */
  readonly documentMs?: number;
  /** In which a download must go on by {@linkcode STALL_BYTES}; there is no limit in total. */
  readonly stallMs: number;
}

/** The limits of an agent at work. */
export const TIME_LIMITS: TimeLimits = { answerMs: 10_000, idleMs: 30_000, stallMs: 60_000 };

/** Longest time that one document may take, however steadily it comes. */
export const DOCUMENT_MS = 120_000;

/** A download that does not bring so many bytes within `stallMs` is given up for now. */
export const STALL_BYTES = 64 * 1024;

/** Waits; rejects with the reason of the signal when that comes first. */
export type Wait = (ms: number, signal?: AbortSignal) => Promise<void>;

/** Waits by the clock of the system. */
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

/** A signal that fires when time is up or when the caller gives up. */
export interface Deadline {
  readonly signal: AbortSignal;
  /** Starts the time anew. */
  extend(ms: number): void;
  /** Stops the time until it is started anew. */
  hold(): void;
  /** Ends the watch. Must be called, or the timer keeps the process. */
  clear(): void;
}

/** Starts a deadline; `what` is what the error says took too long. */
export function openDeadline(ms: number, what: string, outer?: AbortSignal): Deadline {
  const controller = new AbortController();
  const expire = (after: number) => () =>
    controller.abort(new AgentError("timeout", `Cannot ${what}: nothing came for ${after} ms`));
  const giveUp = () => controller.abort(abortedError(what, outer));
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

/** The error of a caller that gave up. */
export function abortedError(what: string, signal: AbortSignal | undefined): AgentError {
  if (signal?.reason instanceof AgentError) return signal.reason;
  return new AgentError("aborted", `Cannot ${what}: the caller gave up`, {
    cause: signal?.reason,
  });
}
