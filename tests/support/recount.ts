// The counters of a SQLite store as a recount of its jobs: what the writes keep is held against it, and tests and
// benchmarks that write jobs by SQL of their own call it afterwards.

import { assertEquals } from "@std/assert";
import { BLOCK, EVERY } from "../../src/store/sqlite/counters.ts";

/** Number of jobs by execution; a running job counts as queued. */
const EXECUTIONS = ["queued", "waiting", "succeeded", "failed", "canceled", "retried"]
  .map((word) =>
    word === "queued"
      ? "coalesce(sum(execution IN ('queued', 'running')), 0) AS queued"
      : `coalesce(sum(execution = '${word}'), 0) AS ${word}`
  ).join(", ");

/** What each table of counters holds, by a look at every job. */
const COUNTED = {
  job_counts: `SELECT 'a' AS span, ${EXECUTIONS} FROM jobs
    UNION ALL SELECT 'r' AS span, ${EXECUTIONS} FROM jobs
      WHERE finished_at IS NOT NULL AND kept = 0 AND runner_id IS NULL AND claimable_at IS NULL
    UNION ALL SELECT 'h' || substr(finished_at, 1, 13) AS span, ${EXECUTIONS} FROM jobs
      WHERE finished_at IS NOT NULL GROUP BY 1
    UNION ALL SELECT 'm' || substr(created_at, 1, 16) AS span, ${EXECUTIONS} FROM jobs GROUP BY 1
    UNION ALL SELECT 's' || substr(created_at, 1, 19) AS span, ${EXECUTIONS} FROM jobs GROUP BY 1`,
  job_places: `SELECT definition_id, id / ${BLOCK} AS block, count(*) AS jobs,
      min(created_at) AS first_at, max(created_at) AS last_at FROM jobs GROUP BY 1, 2
    UNION ALL SELECT ${EVERY}, id / ${BLOCK}, count(*), min(created_at), max(created_at)
      FROM jobs GROUP BY 2`,
} as const;

/** A connection, or a database. */
interface Runs {
  run(sql: string): unknown;
}

/** Writes every counter as a recount of the jobs finds it. */
export function recount(db: Runs): void {
  for (const [table, counted] of Object.entries(COUNTED)) {
    db.run(`DELETE FROM ${table}`);
    db.run(`INSERT INTO ${table} ${counted}`);
  }
}

/** Fails unless every counter says what a look at every job does. */
export function assertCounted(db: { rows(sql: string): Record<string, unknown>[] }): void {
  for (const [table, counted] of Object.entries(COUNTED)) {
    // The job that was made first or last may be gone: the times bound the others.
    const of = (row: Record<string, unknown>) => ({ ...row, first_at: null, last_at: null });
    const sorted = (rows: Record<string, unknown>[]) =>
      rows.map((row) => JSON.stringify(of(row))).sort();
    assertEquals(sorted(db.rows(`SELECT * FROM ${table}`)), sorted(db.rows(counted)), table);
  }
}
