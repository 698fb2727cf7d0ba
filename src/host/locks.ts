// Locks by name, first come, first served. vmadm itself takes none for create and start: two starts
// of one machine at once race, so calls about one machine are made one after another here.

import { orAborted } from "./abort.ts";

/** A set of locks by name. */
export interface Locks {
  /**
   * Runs a function while holding the lock of this name, after everyone who asked before.
   * @throws {AgentError} `aborted` when the caller gives up before its turn
   */
  hold<T>(name: string, signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T>;
}

/** Opens a set of locks; names that nobody holds cost nothing. */
export function openLocks(): Locks {
  const tails = new Map<string, Promise<void>>();
  return {
    async hold(name, signal, run) {
      const before = tails.get(name) ?? Promise.resolve();
      const { promise: done, resolve: release } = Promise.withResolvers<void>();
      // Whoever comes next waits for both: a caller that gives up must not let it overtake.
      const tail = before.then(() => done);
      tails.set(name, tail);
      try {
        await orAborted(`Cannot wait for ${name}`, before, signal);
        return await run();
      } finally {
        release();
        tail.then(() => tails.get(name) === tail && tails.delete(name));
      }
    },
  };
}
