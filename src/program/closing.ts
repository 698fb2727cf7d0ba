// What is opened for a while.

/**
 * Runs a function with something open, and closes it whatever happens. `using` would say the same,
 * but `deno bundle` drops the closing from it: a file lock would be held to the end of the process.
 */
export async function closing<T extends Disposable, R>(
  opened: T,
  run: (opened: T) => R | Promise<R>,
): Promise<R> {
  try {
    return await run(opened);
  } finally {
    opened[Symbol.dispose]();
  }
}
