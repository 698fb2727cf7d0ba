// Migrates the schema in numbered steps, forward only. The database is copied first, see older_copy.ts. Each
// step is one transaction, so a kill at any moment loses nothing.

import type { Database } from "@db/sqlite";
import { AgentError } from "../../domain/error.ts";
import { latestOf, type SchemaSteps } from "../sql.ts";
import type { ConnectionWatch } from "./group_commit.ts";
import { SCHEMA } from "./schema.ts";

/** The steps of this program. Versions 1 to 19 were never released. */
export const SCHEMA_STEPS: SchemaSteps = {
  first: 20,
  steps: [SCHEMA],
};

/** The schema version of this program. */
export const SCHEMA_VERSION = latestOf(SCHEMA_STEPS);

/** Why a version cannot be used, in words that follow "Cannot …: "; undefined when it can. */
export function versionProblem(
  found: number,
  schema: SchemaSteps = SCHEMA_STEPS,
): string | undefined {
  const latest = latestOf(schema);
  if (found > latest) return `it has schema ${found}, this program knows up to ${latest}`;
  if (found >= schema.first || found === 0) return undefined;
  return `it has schema ${found} of an unreleased version, expected ${schema.first} or later; ` +
    "move it away to begin with an empty store";
}

/**
 * Brings a database to the present schema, each step in one transaction.
 * @param migrating called for each step under the name `migrate`
 * @throws {AgentError} `other_schema` when a newer program or an unreleased one wrote the database
 */
export function migrate(
  db: Database,
  migrating: ConnectionWatch["migrating"] = () => {},
  schema: SchemaSteps = SCHEMA_STEPS,
): void {
  const row = db.prepare("PRAGMA user_version").get<{ user_version: number }>();
  const found = row?.user_version ?? 0;
  const problem = versionProblem(found, schema);
  if (problem !== undefined) {
    throw new AgentError("other_schema", `Cannot open the store: ${problem}`);
  }
  // Otherwise a step that replaces a table would remove the rows that refer to it.
  db.exec("PRAGMA foreign_keys = OFF");
  for (const [index, step] of schema.steps.entries()) {
    const version = schema.first + index;
    if (version <= found) continue;
    migrating("before", ["migrate"]);
    db.transaction(() => {
      db.exec(step);
      db.exec(`PRAGMA user_version = ${version}`);
    })();
    migrating("after", ["migrate"]);
  }
  db.exec("PRAGMA foreign_keys = ON");
}
