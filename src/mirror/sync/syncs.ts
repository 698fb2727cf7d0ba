// The syncs of one mirror, one at a time: callers during a sync share it, and a preview waits its
// turn.

import { AgentError } from "../../domain/error.ts";
import type { IndexStore, IndexSync } from "../../store/store.ts";
import { openSharedWork } from "../shared_work.ts";
import {
  type IndexPreview,
  previewSync,
  type SyncDependencies,
  syncIndex,
  type SyncOptions,
  type SyncProgress,
} from "./sync.ts";
import type { Upstream } from "../upstream.ts";
import { type Instant, msBetween } from "../../domain/instant.ts";

interface SyncRequest {
  readonly signal?: AbortSignal;
  /** Also accepts changed digests of known builds, and older trees. */
  readonly acceptChanged?: boolean;
}

/** The syncs of one mirror. */
export interface Syncs {
  readonly syncing: boolean;
  /** Progress of the current sync or preview; null when idle. */
  readonly progress: SyncProgress | null;
  /** Increases with every finished sync. */
  readonly generation: number;
  /**
   * Syncs the index. Only one sync runs at a time: a second call joins it.
   * @throws {AgentError} `conflict` without an upstream, `aborted` when the caller gives up
   */
  sync(request?: SyncRequest): Promise<IndexSync>;
  /**
   * Computes what a sync would change and writes nothing.
   * @throws {AgentError} as `sync`
   */
  preview(request?: SyncRequest): Promise<IndexPreview>;
}

interface SyncsDependencies extends Omit<SyncDependencies, "upstream"> {
  readonly upstream: Upstream | null;
}

const SYNC = "the sync";

/** Opens the syncs. Nothing is fetched before the first call. */
export function openSyncs({ upstream, ...rest }: SyncsDependencies): Syncs {
  const syncs = openSharedWork<IndexSync, never>();
  const previews = openSharedWork<IndexPreview, never>();
  let last: Promise<unknown> = Promise.resolve();
  let progress: SyncProgress | null = null;
  let generation = 0;
  let accepting = false;

  const inTurn = <T>(run: (deps: SyncDependencies) => Promise<T>): Promise<T> => {
    if (upstream === null) {
      throw new AgentError("conflict", "Cannot sync the index: no upstream is configured");
    }
    const turn = last.then(() => run({ ...rest, upstream })).finally(() => progress = null);
    last = turn.catch(() => {});
    return turn;
  };
  const optionsOf = (signal: AbortSignal, acceptChanged: boolean): SyncOptions => ({
    signal,
    acceptChanged,
    onProgress: (now) => progress = now,
  });
  const shareOf = (signal: AbortSignal | undefined) => signal === undefined ? {} : { signal };
  return {
    get syncing() {
      return syncs.has(SYNC);
    },
    get progress() {
      return progress;
    },
    get generation() {
      return generation;
    },
    async sync({ signal, acceptChanged = false } = {}) {
      const share = shareOf(signal);
      const begin = async (shared: AbortSignal) => {
        accepting = acceptChanged;
        const sync = await inTurn((deps) => syncIndex(deps, optionsOf(shared, acceptChanged)));
        generation += 1;
        return sync;
      };
      // A sync under way that refuses changes does not serve this caller.
      if (acceptChanged && syncs.has(SYNC) && !accepting) await syncs.join(SYNC, share, begin);
      return await syncs.join(SYNC, share, begin);
    },
    async preview({ signal, acceptChanged = false } = {}) {
      return await previews.join(
        `a preview that ${acceptChanged ? "accepts" : "refuses"} changes`,
        shareOf(signal),
        (shared) => inTurn((deps) => previewSync(deps, optionsOf(shared, acceptChanged))),
      );
    },
  };
}

// Avoids writes while nothing changes: a sync that found no change stays in memory, and its report
// is written once a day. After a restart the time of the last comparison is exact to a day.

/** Milliseconds after which an unchanged report is written anyway. */
const WRITTEN_AGAIN_MS = 24 * 3_600_000;

/** The documents of the index, minus the reports that need no write. */
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

/** After the clock was set back, a report from the future counts as old. */
function isRecent(written: Instant, now: Instant): boolean {
  const ms = msBetween(written, now);
  return ms >= 0 && ms < WRITTEN_AGAIN_MS;
}
