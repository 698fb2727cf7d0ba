// Keeps the store from growing forever: removes finished jobs that are too old or too many, in small batches so that
// other writes hardly wait.

import { MS_PER_SECOND } from "../domain/instant.ts";
import type { Log } from "../metrics/log.ts";
import { pause } from "../runtime/wait.ts";
import type { Store } from "../store/store.ts";
import { INFO_BATCH, PRUNE_BATCH } from "../store/limits.ts";

const LOOK_MS = 60_000;
/** Milliseconds between two writes. */
const PAUSE_MS = 50;

/** Which finished jobs are kept. Both limits apply, and the oldest jobs are removed first. */
export interface RetentionOptions {
  readonly store: Store;
  /** Seconds for which finished jobs are kept, read at every check; 0 for no limit. */
  readonly keepSeconds: () => number;
  /** Number of finished jobs to keep, besides those that an idempotency key or a callback keeps. */
  readonly finishedMax: number;
  readonly log: Log;
}

/** Removes excess jobs until it is stopped. */
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

/** Removes jobs until a batch is not full, so that none is left. */
async function pruneAll(options: RetentionOptions, signal: AbortSignal): Promise<number> {
  const { store, keepSeconds, finishedMax } = options;
  await inBatches(PRUNE_BATCH, () => store.jobs.pruneKeys(PRUNE_BATCH), signal);
  let removed = 0;
  for (let batch = PRUNE_BATCH; batch === PRUNE_BATCH && !signal.aborted;) {
    const seconds = keepSeconds();
    const age_ms = seconds === 0 ? null : seconds * MS_PER_SECOND;
    batch = await store.jobs.prune({ age_ms, finished_max: finishedMax, limit: PRUNE_BATCH });
    removed += batch;
    await inBatches(INFO_BATCH, () => store.jobs.pruneInfo(INFO_BATCH), signal);
    if (batch === PRUNE_BATCH) await pause(PAUSE_MS, signal);
  }
  return removed;
}

/** Calls `remove` until a batch is not full, so that nothing is left. */
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
