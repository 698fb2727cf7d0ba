// Waits that end when their caller aborts. The action in the error is the caller's.

import { abortedError } from "../domain/error.ts";

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

/**
 * Waits for a time in milliseconds, or for an abort.
 * @throws {AgentError} `aborted`
 */
export async function waitOrAbort(
  action: string,
  ms: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  try {
    await orAborted(action, promise, signal);
  } finally {
    clearTimeout(timer);
  }
}
