// Replaces the database of a state folder with a backup. If the process or the host dies on the way,
// either the old database or the new one is there, complete:
//
//   copy      the backup becomes a file beside the database, whole and synced
//   settle    the log of the old database is written into it, and is gone
//   keep      the old one gets a second name, by which it stays
//   replace   the new one takes the first name, in one step
//
// What a restore that was cut off has left is removed by the next restore or start of the agent.

import { basename, dirname, join } from "@std/path";
import { DATABASE_NAME, takeStateDir } from "./state_dir.ts";
import { AgentError } from "../domain/error.ts";
import type { Now } from "../domain/instant.ts";
import { randomUuid } from "../domain/id.ts";
import type { WatchCommits } from "../runtime/failpoint.ts";
import { asOwnerOf, ownerOf } from "./own_file.ts";
import {
  copyDatabase,
  type DatabaseReport,
  inspectDatabase,
  syncFile,
} from "../store/sqlite/database_file.ts";
import { settleDatabase } from "../store/sqlite/older_copy.ts";

interface RestoreReport {
  /** The database that is now in its place. */
  readonly restored: DatabaseReport;
  /** Where the replaced database is kept; null if there was none. */
  readonly replaced: string | null;
}

interface RestoreTools {
  readonly now: Now;
  /** Called at each step, for a test that ends the process there. */
  readonly watch?: WatchCommits;
}

const RESTORING_SUFFIX = ".restoring";
const KEPT_SUFFIX = ".before-restore-";

/**
 * Replaces the database of a state folder with a backup. The replaced one is kept beside it. Jobs that were
 * running when the backup was taken are rescued at the agent's next start.
 * @throws {AgentError} `conflict` while an agent runs or somebody reads the database, and for a file that is not
 *   sound; `other_schema`; `not_found`
 */
export async function restoreState(
  from: string,
  stateDir: string,
  { now, watch = () => {} }: RestoreTools,
): Promise<RestoreReport> {
  const asOwner = asOwnerOf(stateDir);
  const { problems } = await inspectDatabase(from);
  if (problems.length > 0) {
    throw new AgentError("conflict", `Cannot restore ${from}: it is damaged: ${problems[0]}`);
  }
  const step = async <T>(name: string, run: () => T | Promise<T>): Promise<T> => {
    watch("before", [name]);
    const result = await run();
    watch("after", [name]);
    return result;
  };
  const { uid } = ownerOf(stateDir);
  const state = await asOwner(() => takeStateDir(stateDir, randomUuid, uid));
  try {
    const path = join(state.path, DATABASE_NAME);
    await asOwner(() => removeUnfinishedRestore(path));
    const fresh = `${path}${RESTORING_SUFFIX}`;
    const restored = await step(
      "restore_copy",
      () => copyDatabase(from, fresh, { writing: asOwner }),
    );
    const replaced = await asOwner(async () => {
      const log = await step("restore_settle", () => settleDatabase(path));
      const aside = `${path}${KEPT_SUFFIX}${now().replaceAll(/[:.]/g, "-")}`;
      const kept = await step("restore_keep", () => keepAside(path, aside));
      if (log === "unsettled") await step("restore_part", () => partFromLog(path, aside));
      await step("restore_replace", async () => {
        await Deno.rename(fresh, path);
        await syncFile(state.path);
      });
      return kept;
    });
    return { restored: { ...restored, path }, replaced };
  } finally {
    await asOwner(() => state.release());
  }
}

/** Gives the database a second name, which is on the disk before the first one is reused. */
async function keepAside(path: string, aside: string): Promise<string | null> {
  const kept = await linkIfThere(path, aside);
  await syncFile(dirname(path));
  return kept ? aside : null;
}

/**
 * Moves the log of a database that is too damaged to absorb it. SQLite would take it for the log of the new database,
 * so it is moved first and kept with the damaged one.
 */
async function partFromLog(path: string, aside: string): Promise<void> {
  await linkIfThere(`${path}-wal`, `${aside}-wal`);
  await syncFile(dirname(path));
  for (const suffix of ["-wal", "-shm", "-journal"]) removeIfThere(`${path}${suffix}`);
  await syncFile(dirname(path));
}

async function linkIfThere(path: string, to: string): Promise<boolean> {
  try {
    await Deno.link(path, to);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/**
 * Removes what an interrupted restore left beside a database: its copy, and the second name of a database that was
 * not replaced. A database written under two names would have two logs.
 * @param path of the database, whose state folder is locked by the caller
 */
export function removeUnfinishedRestore(path: string): void {
  for (const suffix of ["", "-journal", ".partial", ".partial-journal"]) {
    removeIfThere(`${path}${RESTORING_SUFFIX}${suffix}`);
  }
  const found = lstatIfThere(path);
  // Only an interrupted restore gives a database two names; otherwise nothing has to be searched for.
  if (found === undefined || (found.nlink ?? 1) < 2) return;
  const folder = dirname(path);
  for (const { name } of Deno.readDirSync(folder)) {
    const other = join(folder, name);
    if (!name.startsWith(`${basename(path)}${KEPT_SUFFIX}`)) continue;
    if (lstatIfThere(other)?.ino === found.ino) removeIfThere(other);
  }
}

function lstatIfThere(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
