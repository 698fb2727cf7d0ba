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
