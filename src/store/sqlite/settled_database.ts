// A database without its write-ahead log: one file that can be given another name.

import { Database } from "@db/sqlite";
import { AgentError, messageOf } from "../../domain/error.ts";

/** Milliseconds for somebody who reads the database to let go of it. */
const BUSY_MS = 5_000;

/**
 * Writes the log of a database into it and removes the log, so that the file is whole by itself. A kill
 * at any moment leaves file and log as SQLite can read them.
 * @returns `unsettled` when that cannot be done, since the file is damaged or not there
 * @throws {AgentError} `conflict` when another process has the database open; `storage_full`
 * @see sqlite.org/wal.html
 */
export function settleDatabase(path: string): "settled" | "unsettled" {
  try {
    // Who may only read changes nothing: the ruins of a database and its log stay as they were found.
    opened(path, { readonly: true }, (db) => db.prepare("SELECT * FROM sqlite_schema").all());
    opened(path, {}, (db) => {
      // Takes the log in, syncs the file, and only then removes the log.
      const row = db.prepare("PRAGMA journal_mode = DELETE").get<{ journal_mode: string }>();
      if (row?.journal_mode !== "delete") throw new Error(`locked in mode ${row?.journal_mode}`);
    });
    return "settled";
  } catch (error) {
    const words = messageOf(error);
    if (/\bfull\b/i.test(words)) {
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
