// Has a long file written to the disk while more of it is still being made, so that the wait at its end
// is short. Linux keeps what was written in memory for seconds and begins at the end; the file systems
// of illumos begin by themselves, and being asked would only cost them a second copy in their log.

/** Bytes after which the disk is asked for the next time, at the earliest. */
const AHEAD_BYTES = 32 * 1024 * 1024;

/** The syncs of one file that is being written. */
export interface SyncAhead {
  /**
   * Takes note of bytes that were written.
   * @throws what an earlier sync failed with: the system tells it once
   */
  wrote(bytes: number): void;
  /** Waits for the sync that is under way. @throws what one has failed with */
  ended(): Promise<void>;
}

/**
 * Opens the syncs of a file.
 * @param sync waits until the bytes that were written before are on the disk
 */
export function openSyncAhead(
  sync: () => Promise<void>,
  os: typeof Deno.build.os = Deno.build.os,
): SyncAhead {
  let unsynced = 0;
  let underWay: Promise<void> | undefined;
  let failure: { readonly error: unknown } | undefined;
  const check = () => {
    if (failure !== undefined) throw failure.error;
  };
  const begin = async () => {
    unsynced = 0;
    try {
      await sync();
    } catch (error) {
      failure = { error };
    }
    underWay = undefined;
  };
  return {
    wrote(bytes) {
      check();
      unsynced += bytes;
      if (os === "linux" && unsynced >= AHEAD_BYTES) underWay ??= begin();
    },
    async ended() {
      await underWay;
      check();
    },
  };
}
