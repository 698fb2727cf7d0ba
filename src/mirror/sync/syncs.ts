// The syncs of one mirror, one at a time: those who ask for one while it is under way share it, and a
// preview waits for its turn.

import { AgentError } from "../../domain/error.ts";
import type { IndexSync } from "../../store/store.ts";
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

/** How one sync is made. */
export interface SyncRequest {
  readonly signal?: AbortSignal;
  /** Takes digests that differ from those of known builds, and older trees, as well; see pins.ts. */
  readonly acceptChanged?: boolean;
}

/** The syncs of one mirror. */
export interface Syncs {
  readonly syncing: boolean;
  /** What is read right now, by a sync or a preview; null when nothing is. */
  readonly progress: SyncProgress | null;
  /** Grows with every sync that was made to its end. */
  readonly generation: number;
  /**
   * Syncs the index. There is one sync at a time: a second call joins the first.
   * @throws {AgentError} `conflict` without an upstream, `aborted` when the caller gives up
   */
  sync(request?: SyncRequest): Promise<IndexSync>;
  /**
   * What a sync would change. It writes nothing.
   * @throws {AgentError} as `sync`
   */
  preview(request?: SyncRequest): Promise<IndexPreview>;
}

/** What the syncs work with. */
export interface SyncsDependencies extends Omit<SyncDependencies, "upstream"> {
  readonly upstream: Upstream | null;
}

const SYNC = "the sync";

/** Opens the syncs. Nothing is asked before the first call. */
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
      // A sync under way that holds changes back does not do what this caller asks for.
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
