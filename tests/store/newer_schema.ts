// Steps that a later program might have, and a database of this program for them.

import { Database } from "@db/sqlite";
import { SCHEMA_STEPS } from "../../src/store/sqlite/migrations.ts";
import { latestOf, type SchemaSteps } from "../../src/store/sql.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";

/** Replaces a table to which rows of another one refer, then adds a column and a table. */
export const NEWER: SchemaSteps = {
  ...SCHEMA_STEPS,
  steps: [
    ...SCHEMA_STEPS.steps,
    `CREATE TABLE definitions_2 (
       id INTEGER PRIMARY KEY AUTOINCREMENT, workflow_uuid TEXT NOT NULL, name TEXT NOT NULL,
       chars INTEGER NOT NULL, chain TEXT NOT NULL, onerror TEXT NOT NULL, oncancel TEXT NOT NULL,
       timeout INTEGER NOT NULL CHECK (timeout > 0), note TEXT NOT NULL
     ) STRICT;
     INSERT INTO definitions_2 SELECT id, workflow_uuid, name, chars, chain, onerror, oncancel,
       timeout, 'older' FROM definitions;
     DROP TABLE definitions;
     -- A column that the program does not know has a default.
     CREATE TABLE definitions (
       id INTEGER PRIMARY KEY AUTOINCREMENT, workflow_uuid TEXT NOT NULL, name TEXT NOT NULL,
       chars INTEGER NOT NULL, chain TEXT NOT NULL, onerror TEXT NOT NULL, oncancel TEXT NOT NULL,
       timeout INTEGER NOT NULL CHECK (timeout > 0), note TEXT NOT NULL DEFAULT 'newer'
     ) STRICT;
     INSERT INTO definitions SELECT * FROM definitions_2;
     DROP TABLE definitions_2;`,
    `ALTER TABLE workflows ADD COLUMN note TEXT;
     CREATE TABLE notes (note TEXT PRIMARY KEY) STRICT;`,
  ],
};

/** The version of this program, and of the later one. */
export const VERSIONS = { older: latestOf(SCHEMA_STEPS), newer: latestOf(NEWER) } as const;

/** Makes a database of this program and fills it. */
export async function writeOlder(
  path: string,
  fill: (store: Store) => Promise<void>,
): Promise<void> {
  const store = await openSqliteStore(path);
  try {
    await fill(store);
  } finally {
    await store.close();
  }
}

/** The version of a database, and what SQLite's own examination finds in it. */
export function examine(path: string): { version: unknown; problems: unknown[] } {
  const db = new Database(path);
  try {
    const row = db.prepare("PRAGMA user_version").get<{ user_version: number }>();
    const found = db.prepare("PRAGMA integrity_check").all<{ integrity_check: string }>();
    const words = found.map(({ integrity_check }) => integrity_check).filter((word) =>
      word !== "ok"
    );
    return {
      version: row?.user_version,
      problems: [...words, ...db.prepare("PRAGMA foreign_key_check").all()],
    };
  } finally {
    db.close();
  }
}
