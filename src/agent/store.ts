// The store of the agent with what watches over it: points at which a test kills the agent, and the
// removal of what is old.

import { join } from "@std/path";
import type { Ground } from "./runner.ts";
import { DATABASE_NAME } from "../state/state_dir.ts";
import { removeUnfinishedRestore } from "../state/database_restore.ts";
import { watchForDeath } from "../program/failpoint.ts";
import { openSyncJournal } from "../mirror/sync/syncs.ts";
import { openRetention } from "../runner/retention.ts";
import { openSqliteStore } from "../store/sqlite/sqlite_store.ts";
import type { Store } from "../store/store.ts";

/**
 * Opens the store in the state folder.
 * @param broken told once when its disk has failed: the agent must end, and may be started again
 */
export async function openStore(
  { config, log, now, opened, follow }: Ground,
  stateDir: string,
  broken: (error: unknown) => void,
): Promise<Store> {
  const committing = watchForDeath(config.failpoint.value, { dev: config.dev.value });
  const path = join(stateDir, DATABASE_NAME);
  removeUnfinishedRestore(path);
  const file = await openSqliteStore(path, {
    broken,
    ...(committing === undefined ? {} : { committing, migrating: committing }),
  });
  opened("store", () => file.close());
  const store: Store = { ...file, index: openSyncJournal(file.index) };
  const keeping = { seconds: config.keep_finished.value };
  follow(["keep_finished"], (next) => {
    keeping.seconds = next.keep_finished.value;
  });
  const retention = openRetention({
    store,
    keepSeconds: () => keeping.seconds,
    finishedMax: config.limits.finished_jobs_max.value,
    now,
    log,
  });
  opened("retention", () => retention.stop());
  return store;
}
