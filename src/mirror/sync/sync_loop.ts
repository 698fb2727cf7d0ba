// Keeps the mirror current: one sync at start-up, then one per interval.

import type { Log } from "../../metrics/log.ts";
import { pause } from "../../runtime/waiting.ts";
import type { Mirror } from "../mirror.ts";

/** Random share of the interval that is added or subtracted, so that hosts do not all ask at once. */
const JITTER = 0.1;

/** How often the index is synced. */
interface SyncTimes {
  /** Seconds between two syncs; 0 for only the one at start. */
  readonly intervalSeconds: number;
  /** A number from 0 up to, not including, 1. */
  readonly random: () => number;
}

/**
 * Milliseconds until the next sync.
 * @param retryAfterSeconds pause that the upstream asked for; 0 for none
 */
export function nextSyncMs(
  { intervalSeconds, random }: SyncTimes,
  retryAfterSeconds: number,
): number {
  const own = intervalSeconds * (1 + JITTER * (random() * 2 - 1));
  return 1000 * Math.max(own, retryAfterSeconds);
}

/**
 * Syncs now and at every interval; a failed sync leaves the tree as it was and waits for the next.
 * @param intervalSeconds seconds between two syncs; 0 for only the one at start
 */
export function syncRegularly(
  mirror: Pick<Mirror, "upstream" | "sync">,
  intervalSeconds: number,
  log: Log,
  random: () => number = Math.random,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const loop = mirror.upstream === null ? Promise.resolve() : (async () => {
    do {
      let retryAfterSeconds = 0;
      try {
        retryAfterSeconds = (await mirror.sync({ signal })).retry_after_seconds ?? 0;
      } catch (error) {
        if (!signal.aborted) log.warn("index not synced", { error });
      }
      if (intervalSeconds === 0) return;
      await pause(nextSyncMs({ intervalSeconds, random }, retryAfterSeconds), signal);
    } while (!signal.aborted);
  })();
  return {
    stop: () => {
      stopping.abort();
      return loop;
    },
  };
}
