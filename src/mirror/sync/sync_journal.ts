// Keeps the store unwritten while nothing changes: a sync that found everything as it was is
// remembered in memory, and its report is written once a day. A restart forgets the others, so the
// age of the tree is then known to a day; what the tree is, is always known.

import { type Instant, msBetween } from "../../domain/instant.ts";
import type { IndexStore, IndexSync } from "../../store/store.ts";

/** Milliseconds after which a report is written even though it says what the last one said. */
const WRITTEN_AGAIN_MS = 24 * 3_600_000;

/** The documents of the index, with reports that need not be written. */
export function openSyncJournal(index: IndexStore): IndexStore {
  let latest: IndexSync | undefined;
  return {
    ...index,
    async swap(put, remove, sync, pins) {
      const written = await index.lastSync();
      const changes = put.length + remove.length + (pins?.put.length ?? 0) +
        (pins?.remove.length ?? 0);
      if (changes > 0 || !saysTheSame(written, sync)) await index.swap(put, remove, sync, pins);
      latest = sync;
    },
    lastSync: async () => latest ?? await index.lastSync(),
  };
}

function saysTheSame(written: IndexSync | undefined, sync: IndexSync): boolean {
  return written !== undefined && written.upstream === sync.upstream &&
    written.outcome === sync.outcome &&
    JSON.stringify(written.problems) === JSON.stringify(sync.problems) &&
    isRecent(written.finished_at, sync.finished_at);
}

/** A clock that was set back makes what was written late, not recent. */
function isRecent(written: Instant, now: Instant): boolean {
  const ms = msBetween(written, now);
  return ms >= 0 && ms < WRITTEN_AGAIN_MS;
}
