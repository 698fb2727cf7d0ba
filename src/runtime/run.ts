// How functions are run: until they return, with something open, or for every item of a list.

import { pause } from "./wait.ts";

/** The pauses between attempts, and what is called after each failure. */
interface BackoffOptions {
  /** Milliseconds before the second attempt; doubled before each further one. */
  readonly firstMs: number;
  readonly longestMs: number;
  /** Asked for after a failure only. */
  readonly signal: () => AbortSignal;
  /** Called after each failure, before the wait. */
  readonly onFailure: (error: unknown, attempt: number) => void;
}

/**
 * Runs a function until it returns: once in any case, and again as long as the signal allows.
 * @returns what it returned, or undefined when the signal ended the attempts
 */
export async function untilDone<T>(
  run: () => Promise<T>,
  options: BackoffOptions,
): Promise<T | undefined> {
  for (let attempt = 1; attempt === 1 || !options.signal().aborted; attempt++) {
    try {
      return await run();
    } catch (error) {
      options.onFailure(error, attempt);
      await pause(
        Math.min(options.firstMs * 2 ** (attempt - 1), options.longestMs),
        options.signal(),
      );
    }
  }
  return undefined;
}

/**
 * Calls `run` for every item, at most `limit` of them at once. After a failure no further item is
 * begun, those under way are waited for, and the first failure is thrown.
 * @throws what the first `run` that failed threw
 */
export async function mapLimited<T>(
  items: readonly T[],
  limit: number,
  run: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  let next = 0;
  const worker = async () => {
    while (next < items.length && failures.length === 0) {
      const item = items[next++] as T;
      try {
        await run(item);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
}

/**
 * Runs a function with something open, and closes it whatever happens. `using` would say the same, but the bundler puts
 * a value that is used once where it is used, and drops the closing: a file lock would be held to the end of the process.
 */
export async function whileOpen<T extends Disposable, R>(
  opened: T,
  run: (opened: T) => R | Promise<R>,
): Promise<R> {
  try {
    return await run(opened);
  } finally {
    opened[Symbol.dispose]();
  }
}
