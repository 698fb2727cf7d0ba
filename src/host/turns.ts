// Turns for something of which only so many may be under way at once: first come, first served.

import { orAborted } from "./abort.ts";

/** A bound on what is under way. */
export interface Turns {
  /**
   * Runs a function when it is its turn.
   * @param action What is being done, such as `Cannot open a session`
   * @throws {AgentError} `aborted` when the caller gives up before its turn
   */
  take<T>(action: string, signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T>;
}

/** Opens a bound of so many. */
export function openTurns(max: number): Turns {
  const waiting: (() => void)[] = [];
  let free = max;
  const giveBack = () => {
    const next = waiting.shift();
    if (next === undefined) free += 1;
    else next();
  };
  return {
    async take(action, signal, run) {
      if (free > 0) free -= 1;
      else {
        const { promise, resolve } = Promise.withResolvers<void>();
        waiting.push(resolve);
        try {
          await orAborted(action, promise, signal);
        } catch (error) {
          const at = waiting.indexOf(resolve);
          // Its turn had come in the same moment: the next one has it.
          if (at < 0) giveBack();
          else waiting.splice(at, 1);
          throw error;
        }
      }
      try {
        return await run();
      } finally {
        giveBack();
      }
    },
  };
}

// Locks by name, first come, first served. vmadm itself takes none for create and start: two starts
// of one machine at once race, so calls about one machine are made one after another here.

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
