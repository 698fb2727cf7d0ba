// Clocks for tests: one stands still unless it is advanced, one goes faster.

import { SYSTEM_TIMERS, type Timers } from "../../src/runtime/timers.ts";
import { waitOrAbort } from "../../src/runtime/wait.ts";

/** Timers of a clock that stands still unless it is advanced. */
export function heldTimers(): Timers & { advance(ms: number): void } {
  const set = new Map<() => void, number>();
  let now = 0;
  return {
    nowMs: () => now,
    start(ms, run) {
      set.set(run, now + ms);
      return () => void set.delete(run);
    },
    advance(ms) {
      now += ms;
      for (const [run, at] of set) {
        if (at > now) continue;
        set.delete(run);
        run();
      }
    },
  };
}

/** The timers of the system, which fire so many times sooner. */
export function quickTimers(times: number): Timers {
  return {
    nowMs: SYSTEM_TIMERS.nowMs,
    start: (ms, run) => SYSTEM_TIMERS.start(ms / times, run),
  };
}

/** Waits a fiftieth of the time. */
export const hurriedWait: typeof waitOrAbort = (action, ms, signal) =>
  waitOrAbort(action, ms / 50, signal);
