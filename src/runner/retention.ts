// Keeps the store from growing forever: removes finished jobs that are old or excess, a few at a
// time, so that other writes hardly wait.

import { MS_PER_SECOND } from "../domain/instant.ts";
import type { Log } from "../metrics/log.ts";
import { pause } from "../runtime/waiting.ts";
import type { Store } from "../store/store.ts";
import { INFO_BATCH } from "../store/limits.ts";

const LOOK_MS = 60_000;
/** Jobs, or idempotency keys, removed in one write, and the pause before the next. */
const BATCH = 200;
const PAUSE_MS = 50;

/** Which finished jobs stay: both limits apply, and the oldest are removed first. */
export interface RetentionOptions {
  readonly store: Store;
  /** Seconds that finished jobs are kept, read at every check; 0 for no limit. */
  readonly keepSeconds: () => number;
  /** Number of finished jobs kept, besides those that stay for an idempotency key or a callback. */
  readonly finishedMax: number;
  readonly log: Log;
}

/** Removes excess jobs until stopped. */
export function openRetention(options: RetentionOptions): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const loop = pruneUntilStopped(options, stopping.signal);
  return {
    stop: async () => {
      stopping.abort();
      await loop;
    },
  };
}

async function pruneUntilStopped(options: RetentionOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      const jobs = await pruneAll(options, signal);
      if (jobs > 0) options.log.info("finished jobs removed", { jobs });
    } catch (error) {
      options.log.error("finished jobs not removed", { error });
    }
    await pause(LOOK_MS, signal);
  }
}

/** Ends when a batch was not full: nothing more is due. */
async function pruneAll(options: RetentionOptions, signal: AbortSignal): Promise<number> {
  const { store, keepSeconds, finishedMax } = options;
  await inBatches(BATCH, () => store.jobs.pruneKeys(BATCH), signal);
  let removed = 0;
  for (let batch = BATCH; batch === BATCH && !signal.aborted;) {
    const seconds = keepSeconds();
    const age_ms = seconds === 0 ? null : seconds * MS_PER_SECOND;
    batch = await store.jobs.prune({ age_ms, finished_max: finishedMax, limit: BATCH });
    removed += batch;
    await inBatches(INFO_BATCH, () => store.jobs.pruneInfo(INFO_BATCH), signal);
    if (batch === BATCH) await pause(PAUSE_MS, signal);
  }
  return removed;
}

/** Ends when a batch was not full: nothing is left. */
async function inBatches(
  full: number,
  remove: () => Promise<number>,
  signal: AbortSignal,
): Promise<void> {
  for (let batch = full; batch === full && !signal.aborted;) {
    batch = await remove();
    if (batch === full) await pause(PAUSE_MS, signal);
  }
}
