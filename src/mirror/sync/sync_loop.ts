// Keeps the mirror current: a sync at start, and one at every interval.

import type { Log } from "../../metrics/log.ts";
import { pause } from "../../program/loop.ts";
import type { Mirror } from "../mirror.ts";

/** Share of the interval by which a sync is moved at random, so that hosts do not ask together. */
const JITTER = 0.1;

/** What decides the times of the syncs. */
export interface SyncTimes {
  /** Seconds between two syncs; 0 for the one at start alone. */
  readonly intervalSeconds: number;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/**
 * Milliseconds until the next sync.
 * @param retryAfterSeconds how long the upstream asked to be left alone, 0 when it did not
 */
export function nextSyncMs(
  { intervalSeconds, random }: SyncTimes,
  retryAfterSeconds: number,
): number {
  const own = intervalSeconds * (1 + JITTER * (random() * 2 - 1));
  return 1000 * Math.max(own, retryAfterSeconds);
}

/**
 * Syncs now and then regularly; a sync that fails leaves the tree as it was and waits for the next.
 * @param intervalSeconds seconds between two syncs; 0 for the one at start alone
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
