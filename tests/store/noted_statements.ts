// Statements that a connection has run, and how SQLite carries them out: read from its plan, not timed.

import { assert } from "@std/assert";
import type { BindValue } from "@db/sqlite";
import { Connection } from "../../src/store/sqlite/connection.ts";

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

/** The tables that grow with the history, or with the queue. */
const GROWING =
  "jobs|j|task_results|job_log|events|idempotency_keys|definitions|job_counts|job_places";
/** Indexes of what is bounded: the locks, what runners hold, the jobs that run. */
const BOUNDED = ["jobs_locks", "jobs_owned"];

/** Fails for a statement that takes longer with more jobs in the store: one that reads a table or an open range of an index. */
function assertWithoutHistory(db: Connection, sql: string, values: readonly BindValue[]): void {
  // The first row of an index, and a page of a list, end by themselves.
  const adds = /\b(count|sum|total)\(/.test(sql);
  if (/\bLIMIT\b/.test(sql) || !adds && /\b(min|max)\(|\bEXISTS\b/.test(sql)) return;
  for (const { detail } of db.rows<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values)) {
    const found = new RegExp(`^(SCAN|SEARCH) (?:${GROWING})\\b(?:.* INDEX (\\w+))?(.*)$`).exec(
      detail,
    );
    if (found === null) continue;
    const [, how, index = "", range = ""] = found;
    const closed = range.includes("=") || range.includes(">") && range.includes("<");
    assert(how === "SEARCH" && closed || BOUNDED.includes(index), `${sql}\n${detail}`);
  }
}

/** Holds every statement of every connection against that, the first time that it runs. Call it before the tests. */
export function checkStatements(): void {
  const checked = new Set<string>();
  for (const name of ["row", "rows", "run"] as const) {
    const plain = Reflect.get(Connection.prototype, name) as (...args: unknown[]) => unknown;
    Reflect.set(
      Connection.prototype,
      name,
      function (this: Connection, sql: string, ...values: BindValue[]) {
        if (!checked.has(sql) && !/^\s*(EXPLAIN|PRAGMA)/.test(sql)) {
          checked.add(sql);
          assertWithoutHistory(this, sql, values);
        }
        return plain.call(this, sql, ...values);
      },
    );
  }
}
