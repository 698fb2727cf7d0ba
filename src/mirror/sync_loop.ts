// Keeps the mirror current: a sync at start, and one at every interval.

import type { Log } from "../log.ts";
import { pause } from "../loop.ts";
import type { Mirror } from "./mirror.ts";

/** Share of the interval by which a sync is moved at random, so that hosts do not ask together. */
const JITTER = 0.1;

/**
 * Syncs now and then regularly; a sync that fails leaves the tree as it was and waits for the next.
 * @param intervalSeconds seconds between two syncs; 0 for the one at start alone
 */
export function syncRegularly(
  mirror: Mirror,
  intervalSeconds: number,
  log: Log,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const loop = mirror.upstream === null ? Promise.resolve() : (async () => {
    do {
      await mirror.sync({ signal }).catch((error: unknown) => {
        if (!signal.aborted) log.warn("index not synced", { error });
      });
      if (intervalSeconds === 0) return;
      const jitter = 1 + JITTER * (Math.random() * 2 - 1);
      await pause(intervalSeconds * 1000 * jitter, signal);
    } while (!signal.aborted);
  })();
  return {
    stop: () => {
      stopping.abort();
      return loop;
    },
  };
}
