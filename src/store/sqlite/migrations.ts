// The schema, in numbered steps that only go forward. What the schema can refuse, it refuses: the
// closed words are CHECKs, an unfinished target is a unique partial index, a second result of one
// task is a primary key.

import type { Database } from "@db/sqlite";
import { AgentError } from "../../domain/error.ts";
import { SCHEMA_1 } from "./schema_1.ts";
import { SCHEMA_2 } from "./schema_2.ts";
import { SCHEMA_3 } from "./schema_3.ts";
import { SCHEMA_4 } from "./schema_4.ts";
import { SCHEMA_5 } from "./schema_5.ts";

/** Step n brings `user_version` from n to n + 1. */
const STEPS: readonly string[] = [SCHEMA_1, SCHEMA_2, SCHEMA_3, SCHEMA_4, SCHEMA_5];

/** The schema that this program writes. */
export const SCHEMA_VERSION = STEPS.length;

/**
 * Brings a database to the present schema, each step in one transaction. Steps only go forward, so
 * an older database is copied first: `zonewright.db.schema-2` is what the older program reads.
 * @throws {AgentError} `internal` when the database was written by a newer program
 */
export function migrate(db: Database, path: string): void {
  const row = db.prepare("PRAGMA user_version").get<{ user_version: number }>();
  const found = row?.user_version ?? 0;
  if (found > SCHEMA_VERSION) {
    throw new AgentError(
      "internal",
      `Cannot open the store: it has schema ${found}, this program knows up to ${SCHEMA_VERSION}`,
    );
  }
  if (found > 0 && found < SCHEMA_VERSION) keepOlder(db, `${path}.schema-${found}`);
  // A table that is made anew would take the rows that refer to it along.
  db.exec("PRAGMA foreign_keys = OFF");
  for (const [version, step] of STEPS.entries()) {
    if (version < found) continue;
    db.transaction(() => {
      db.exec(step);
      db.exec(`PRAGMA user_version = ${version + 1}`);
    })();
  }
  db.exec("PRAGMA foreign_keys = ON");
}

/** A copy that is there was made by a start that did not finish the steps: the same rows. */
function keepOlder(db: Database, path: string): void {
  const partial = `${path}.partial`;
  removeIfThere(partial);
  db.prepare("VACUUM INTO ?").run(partial);
  const file = Deno.openSync(partial, { write: true });
  file.syncSync();
  file.close();
  Deno.renameSync(partial, path);
}

function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
