// Statements that a connection has run, and how SQLite carries them out: read from its plan, not timed.

import { assert } from "@std/assert";
import type { BindValue } from "@db/sqlite";
import type { Connection } from "../../src/store/sqlite/connection.ts";

/** A statement that was run. */
export interface Made {
  readonly sql: string;
  readonly values: readonly BindValue[];
  /** Rows that it answered or changed. */
  readonly rows: number;
}

/** A connection that notes each statement before it runs it. */
export function noting(db: Connection, made: Made[]): Connection {
  return new Proxy(db, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name, target);
      if (typeof found !== "function") return found;
      if (name !== "row" && name !== "rows" && name !== "run") return found.bind(target);
      return (sql: string, ...values: BindValue[]) => {
        const answer: unknown = found.call(target, sql, ...values);
        const changed = typeof answer === "number" ? answer : 1;
        made.push({ sql, values, rows: Array.isArray(answer) ? answer.length : changed });
        return answer;
      };
    },
  });
}

/** Fails for a statement that reads a table from its first row to its last one, or sorts. */
export function assertAlongIndexes(db: Connection, { sql, values }: Made): void {
  for (const { detail } of db.rows<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values)) {
    const table = /^SCAN (\w+)/.exec(detail)?.[1];
    if (table === undefined) continue;
    // Lists of ids, single rows, small tables by nature, and an index whose rows are taken in their order.
    const fine =
      /^SCAN (gone|json_each|runners|hosts|ended|CONSTANT ROW|pragma_\w+)\b/.test(detail) ||
      /USING (COVERING )?INDEX/.test(detail) || /^SCAN removed_jobs/.test(detail);
    assert(fine, `${sql}\n${detail}`);
  }
}
