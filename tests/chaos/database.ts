// The database of an agent that is dead, looked at from outside.

import { Database } from "@db/sqlite";
import { join } from "@std/path";
import { assertCounted } from "../support/recount.ts";

/**
 * Looks into a copy of the files, so that the agent itself has to recover them.
 * @throws {Error} when SQLite finds the database damaged, or a counter is not what a count of the jobs says
 */
export function expectWholeDatabase(stateDir: string): void {
  const copy = Deno.makeTempDirSync({ prefix: "zonewright-test-" });
  try {
    for (const { name } of Deno.readDirSync(stateDir)) {
      if (/^zonewright\.db(-wal)?$/.test(name)) {
        Deno.copyFileSync(join(stateDir, name), join(copy, name));
      }
    }
    const db = new Database(join(copy, "zonewright.db"));
    try {
      const found = db.prepare("PRAGMA integrity_check").all<{ integrity_check: string }>();
      const words = found.map(({ integrity_check }) => integrity_check).join("; ");
      if (words !== "ok") throw new Error(`The database is damaged: ${words}`);
      const orphans = db.prepare("PRAGMA foreign_key_check").all();
      if (orphans.length > 0) throw new Error(`Rows without owner: ${JSON.stringify(orphans)}`);
      assertCounted({ rows: (sql) => db.prepare(sql).all() });
    } finally {
      db.close();
    }
  } finally {
    Deno.removeSync(copy, { recursive: true });
  }
}
