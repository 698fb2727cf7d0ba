// Copies a database before its schema is migrated. There is no way back from a migration: to return to an
// older program, restore the copy, such as `zonewright.db.schema-7`.

import { Database } from "@db/sqlite";
import { dirname } from "@std/path";
import { AgentError, isNoSpace, messageOf } from "../../domain/error.ts";
import { copyPages, removeDatabase, syncFile } from "./database_file.ts";
import type { ConnectionWatch } from "./group_commit.ts";
import { SCHEMA_STEPS, versionProblem } from "./migrations.ts";
import { latestOf, type SchemaSteps } from "../sql.ts";

/** Where SQLite keeps `user_version` in the head of a file, four bytes. @see sqlite.org/fileformat */
const VERSION_OFFSET = 60;
const HEAD_BYTES = 64;

/**
 * Copies a database with an older schema into the same folder; does nothing for a current or missing one. An
 * existing copy is from a start that did not finish the migration; it has the same rows and is replaced.
 * @param migrating called for the copy under the name `migrate_keep`
 * @throws {AgentError} `storage_full`; `other_schema`; `internal` when it cannot be copied
 */
export async function keepOlder(
  path: string,
  migrating: ConnectionWatch["migrating"] = () => {},
  schema: SchemaSteps = SCHEMA_STEPS,
): Promise<void> {
  const latest = latestOf(schema);
  if (await versionInHead(path) === latest) return;
  const found = await versionOf(path);
  const problem = versionProblem(found, schema);
  if (problem !== undefined) {
    const message = `Cannot open the store ${JSON.stringify(path)}: ${problem}`;
    throw new AgentError("other_schema", message);
  }
  if (found === 0 || found === latest) return;
  migrating("before", ["migrate_keep"]);
  const kept = `${path}.schema-${found}`;
  const partial = `${kept}.partial`;
  await removeDatabase(partial);
  try {
    // With the backup interface: a single binary may not attach databases, as VACUUM INTO does.
    await copyPages(path, partial);
    await syncFile(partial);
    await Deno.rename(partial, kept);
    await syncFile(dirname(kept));
  } catch (error) {
    // A full disk must not stay full for half a copy.
    await removeDatabase(partial).catch(() => {});
    const message = `Cannot keep ${path} as ${kept} before its schema changes: ${messageOf(error)}`;
    throw new AgentError(isNoSpace(error) ? "storage_full" : "internal", message, { cause: error });
  }
  migrating("after", ["migrate_keep"]);
}

/**
 * The schema version in the header of the file, which may lag behind its log; 0 without a file.
 * @throws {Error} of the system, unless the file is missing
 */
export async function versionInHead(path: string): Promise<number> {
  let file: Deno.FsFile;
  try {
    file = await Deno.open(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
  try {
    const head = new Uint8Array(HEAD_BYTES);
    const bytes = await file.read(head) ?? 0;
    return bytes < HEAD_BYTES ? 0 : new DataView(head.buffer).getUint32(VERSION_OFFSET);
  } finally {
    file.close();
  }
}

async function versionOf(path: string): Promise<number> {
  const size = await Deno.stat(path).then(({ size }) => size, (error: unknown) => {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  });
  if (size === 0) return 0;
  const db = new Database(path, { create: false });
  try {
    const row = db.prepare("PRAGMA user_version").get<{ user_version: number }>();
    return row?.user_version ?? 0;
  } finally {
    db.close();
  }
}

/** Milliseconds to wait until another process closes the database. */
const BUSY_MS = 5_000;

/**
 * Merges the log of a database into the file and removes the log, so that it is one file that can be renamed. After a kill
 * at any moment, SQLite can still read file and log.
 * @returns `unsettled` when that cannot be done, since the file is damaged or not there
 * @throws {AgentError} `conflict` when another process has the database open; `storage_full`
 * @see sqlite.org/wal.html
 */
export function settleDatabase(path: string): "settled" | "unsettled" {
  try {
    // Open read-only first: a damaged database and its log must stay as they were found.
    opened(path, { readonly: true }, (db) => db.prepare("SELECT * FROM sqlite_schema").all());
    opened(path, {}, (db) => {
      // Takes the log in, syncs the file, and only then removes the log.
      const row = db.prepare("PRAGMA journal_mode = DELETE").get<{ journal_mode: string }>();
      if (row?.journal_mode !== "delete") throw new Error(`locked in mode ${row?.journal_mode}`);
    });
    return "settled";
  } catch (error) {
    const words = messageOf(error);
    if (isNoSpace(words)) {
      throw new AgentError("storage_full", `Cannot replace ${path}: ${words}`, { cause: error });
    }
    if (!/locked|busy/i.test(words)) return "unsettled";
    const message = `Cannot replace ${path}: another process has it open`;
    throw new AgentError("conflict", message, { cause: error });
  }
}

function opened(
  path: string,
  options: { readonly readonly?: true },
  use: (db: Database) => void,
): void {
  const db = new Database(path, { ...options, create: false });
  try {
    db.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
    use(db);
  } finally {
    db.close();
  }
}
