// Waits: for a time, for a promise, or until the caller aborts.

import { abortedError } from "../domain/error.ts";
import { Notifier } from "./notifier.ts";
import { callAfter } from "./timers.ts";

/** Waits for `ms` milliseconds, or until the signal ends the wait. Never rejects. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await new Notifier().wait(ms, signal);
}

/**
 * Waits for `ms` milliseconds.
 * @param action such as `Cannot place "a.iso"`
 * @throws {AgentError} `aborted` when the caller has aborted
 */
export async function waitOrAbort(
  action: string,
  ms: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  await pause(ms, signal);
  checkAborted(action, signal);
}

/**
 * Returns unless the caller has aborted.
 * @param action such as `Cannot place "a.iso"`
 * @throws {AgentError} `aborted`
 */
export function checkAborted(action: string, signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortedError(action, signal);
}

/**
 * Waits for a promise or an abort. An abort does not stop the promise.
 * @throws {AgentError} `aborted`
 */
export async function orAborted<T>(
  action: string,
  promise: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (signal === undefined) return await promise;
  checkAborted(action, signal);
  const { promise: givenUp, reject } = Promise.withResolvers<never>();
  const giveUp = () => reject(abortedError(action, signal));
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([promise, givenUp]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

/** Waits for a promise, but no longer than `ms`. */
export async function within(ms: number, waiting: Promise<unknown>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const cancelTimer = callAfter(ms, resolve);
  try {
    await Promise.race([waiting, late]);
  } finally {
    cancelTimer();
  }
}
