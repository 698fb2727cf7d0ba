// The watch over a runtime that has stopped to answer although its timers go on.

import { SYSTEM_TIMERS, type Timers } from "./timers.ts";

/** Milliseconds between two looks at whether operations of the runtime end. */
const LOOK_MS = 10_000;
/** Looks in a row at which the same operation has not ended. */
const LOOKS_MAX = 6;

/**
 * Sees that operations of the runtime still end. Timers may go on when no read, write or end of a process arrives
 * any more; then nothing the process waits for comes, a signal included. A process that is only busy, or stopped for
 * a while, does not count as stalled: checks do not add up meanwhile.
 * @param operate an operation that ends at once, and needs neither disk nor network
 * @param stalled called once, after a minute in which it has not ended, with the seconds
 * @returns ends the watch
 */
export function watchOperations(
  { operate, stalled, timers = SYSTEM_TIMERS }: {
    readonly operate: () => Promise<unknown>;
    readonly stalled: (seconds: number) => void;
    readonly timers?: Timers;
  },
): () => void {
  let looks = 0;
  let pending = false;
  const look = () => {
    looks = pending ? looks + 1 : 0;
    if (looks >= LOOKS_MAX) return stalled(looks * LOOK_MS / 1000);
    if (!pending) {
      pending = true;
      const ended = () => void (pending = false);
      operate().then(ended, ended);
    }
    cancel = timers.start(LOOK_MS, look);
  };
  // Not at once: the first operation of its kind may load much of the runtime.
  let cancel = timers.start(LOOK_MS, look);
  return () => cancel();
}
