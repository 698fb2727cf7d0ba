// Turns and locks by name, first come, first served.

import { orAborted } from "../runtime/wait.ts";

/** A limit of concurrent actions. */
export interface Turns {
  /**
   * Runs a function when it is its turn.
   * @param action such as `Cannot open a session`
   * @throws {AgentError} `aborted` when it is canceled before its turn
   */
  take<T>(action: string, signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T>;
}

/** @param max actions that run at once; the others wait without a limit */
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
          // Its turn came at the same moment: pass it on.
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

/**
 * A set of locks by name. vmadm takes none for create and start: two concurrent starts of one machine race, so calls about
 * one machine run one after another.
 */
export interface Locks {
  /**
   * Runs a function while holding the lock of this name, after all earlier callers.
   * @throws {AgentError} `aborted` when it is canceled before its turn
   */
  hold<T>(name: string, signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T>;
}

/** Opens a set of locks; free names take no memory. */
export function openLocks(): Locks {
  const tails = new Map<string, Promise<void>>();
  return {
    async hold(name, signal, run) {
      const before = tails.get(name) ?? Promise.resolve();
      const { promise: done, resolve: release } = Promise.withResolvers<void>();
      // The next caller waits for both, so that it does not overtake a canceled call.
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
