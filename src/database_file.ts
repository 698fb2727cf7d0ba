// Backing up, restoring and looking over the database of a state folder, for `zonewright db`. A
// restore takes the folder's lock, so it never happens below a running agent.

import { join } from "@std/path";
import { AgentError } from "./domain/error.ts";
import type { Now } from "./domain/instant.ts";
import { randomUuid } from "./domain/id.ts";
import { takeStateDir } from "./state_dir.ts";
import {
  copyDatabase,
  type DatabaseReport,
  inspectDatabase,
  removeDatabase,
} from "./store/sqlite/database_file.ts";

export { SCHEMA_VERSION } from "./store/sqlite/migrations.ts";

/** The database's name in a state folder. */
export const DATABASE_NAME = "zonewright.db";

/** What a restore did. */
export interface RestoreReport {
  /** The database as it is now. */
  readonly restored: DatabaseReport;
  /** Where the one that stood there is kept; null when there was none. */
  readonly replaced: string | null;
}

/** Copies the database of a state folder while its agent runs. @throws {AgentError} as copyDatabase() */
export async function backupState(stateDir: string, to: string): Promise<DatabaseReport> {
  return await copyDatabase(join(stateDir, DATABASE_NAME), to);
}

/** Looks the database of a state folder over. @throws {AgentError} as inspectDatabase() */
export async function inspectState(stateDir: string): Promise<DatabaseReport> {
  return await inspectDatabase(join(stateDir, DATABASE_NAME));
}

/** Looks any database over, such as a backup. @throws {AgentError} as inspectDatabase() */
export const inspectFile: (path: string) => Promise<DatabaseReport> = inspectDatabase;

/**
 * Puts a backup in the place of the database of a state folder. The one that stood there is kept
 * beside it. Jobs that were running when the backup was taken are rescued at the agent's next start.
 * @throws {AgentError} `conflict` while an agent runs, for a file that is not sound or is newer than
 *   this program, and `not_found`
 */
export async function restoreState(
  from: string,
  stateDir: string,
  now: Now,
): Promise<RestoreReport> {
  const { problems } = await inspectDatabase(from);
  if (problems.length > 0) {
    throw new AgentError("conflict", `Cannot restore ${from}: it is damaged: ${problems[0]}`);
  }
  const state = await takeStateDir(stateDir, randomUuid);
  try {
    const path = join(state.path, DATABASE_NAME);
    const fresh = `${path}.restoring`;
    await removeDatabase(fresh);
    const restored = await copyDatabase(from, fresh);
    const replaced = await setAside(path, now);
    await Deno.rename(fresh, path);
    return { restored: { ...restored, path }, replaced };
  } finally {
    state.release();
  }
}

/** The log of the old database goes with it: beside another file it would be taken for its own. */
async function setAside(path: string, now: Now): Promise<string | null> {
  const aside = `${path}.before-restore-${now().replaceAll(/[:.]/g, "-")}`;
  let replaced: string | null = null;
  for (const suffix of ["-shm", "-wal", ""]) {
    try {
      await Deno.rename(`${path}${suffix}`, `${aside}${suffix}`);
      if (suffix === "") replaced = aside;
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return replaced;
}
