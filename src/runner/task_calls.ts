// The capability calls of one execution. A task that is killed leaves calls behind which are being
// cut off; what follows it, such as the undoing of a machine, must not overtake them.

import type { Perform } from "../sandbox/run_task.ts";

/** Longest wait for calls that were told to stop. A host program is killed well within it. */
const SETTLE_MS_MAX = 30_000;

export interface TaskCalls {
  readonly perform: Perform;
  /** Waits until no call is under way any more. @returns whether that came true in time */
  settled(): Promise<boolean>;
}

/** Watches over the calls that go through `perform`. */
export function watchCalls(perform: Perform): TaskCalls {
  const underWay = new Set<Promise<unknown>>();
  return {
    perform: (name, args, signal) => {
      const call = perform(name, args, signal);
      const end = call.then(() => {}, () => {}).finally(() => underWay.delete(end));
      underWay.add(end);
      return call;
    },
    settled: async () => {
      if (underWay.size === 0) return true;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<false>((resolve) => {
        timer = setTimeout(() => resolve(false), SETTLE_MS_MAX);
      });
      const all = Promise.all(underWay).then(() => true as const);
      const inTime = await Promise.race([all, late]);
      clearTimeout(timer);
      return inTime;
    },
  };
}
