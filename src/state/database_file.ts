// Backing up and looking over the database of a state folder, for `zonewright db`, whether its agent
// runs or not. The way back is database_restore.ts.

import { join } from "@std/path";
import { asOwnerOf, examineOwnFolder } from "./own_file.ts";
import {
  copyDatabase,
  type DatabaseReport,
  inspectDatabase,
} from "../store/sqlite/database_file.ts";

export { SCHEMA_VERSION } from "../store/sqlite/migrations.ts";

/** The database's name in a state folder. */
export const DATABASE_NAME = "zonewright.db";

/**
 * Copies the database of a state folder while its agent runs.
 * @throws {AgentError} as copyDatabase() and examineOwnFolder()
 */
export async function backupState(stateDir: string, to: string): Promise<DatabaseReport> {
  const reading = asOwnerOf(stateDir);
  await reading(() => void examineOwnFolder(stateDir));
  return await copyDatabase(join(stateDir, DATABASE_NAME), to, { reading });
}

/**
 * Looks the database of a state folder over.
 * @throws {AgentError} as inspectDatabase() and examineOwnFolder()
 */
export async function inspectState(stateDir: string): Promise<DatabaseReport> {
  return await asOwnerOf(stateDir)(async () => {
    examineOwnFolder(stateDir);
    return await inspectDatabase(join(stateDir, DATABASE_NAME));
  });
}

/** Looks any database over, such as a backup. @throws {AgentError} as inspectDatabase() */
export const inspectFile: (path: string) => Promise<DatabaseReport> = inspectDatabase;
