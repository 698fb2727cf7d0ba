// The schema, in numbered steps that only go forward. What the schema can refuse, it refuses: the
// closed words are CHECKs, an unfinished target is a unique partial index, a second result of one
// task is a primary key.

import type { Database } from "@db/sqlite";
import { AgentError } from "../../domain/error.ts";
import type { ConnectionWatch } from "./group_commit.ts";
import { SCHEMA_1 } from "./schema_1.ts";
import { SCHEMA_2 } from "./schema_2.ts";
import { SCHEMA_3 } from "./schema_3.ts";
import { SCHEMA_4 } from "./schema_4.ts";
import { SCHEMA_5 } from "./schema_5.ts";
import { SCHEMA_6 } from "./schema_6.ts";

/** Step n brings `user_version` from n to n + 1. */
const STEPS: readonly string[] = [SCHEMA_1, SCHEMA_2, SCHEMA_3, SCHEMA_4, SCHEMA_5, SCHEMA_6];

/** The schema that this program writes. */
export const SCHEMA_VERSION = STEPS.length;

/**
 * Brings a database to the present schema, each step in one transaction. Steps only go forward: an
 * older database is copied before, see older_copy.ts.
 * @param migrating told of each step under the name `migrate`
 * @throws {AgentError} `internal` when the database was written by a newer program
 */
export function migrate(
  db: Database,
  migrating: ConnectionWatch["migrating"] = () => {},
): void {
  const row = db.prepare("PRAGMA user_version").get<{ user_version: number }>();
  const found = row?.user_version ?? 0;
  if (found > SCHEMA_VERSION) {
    throw new AgentError(
      "internal",
      `Cannot open the store: it has schema ${found}, this program knows up to ${SCHEMA_VERSION}`,
    );
  }
  // A table that is made anew would take the rows that refer to it along.
  db.exec("PRAGMA foreign_keys = OFF");
  for (const [version, step] of STEPS.entries()) {
    if (version < found) continue;
    migrating("before", ["migrate"]);
    db.transaction(() => {
      db.exec(step);
      db.exec(`PRAGMA user_version = ${version + 1}`);
    })();
    migrating("after", ["migrate"]);
  }
  db.exec("PRAGMA foreign_keys = ON");
}
