// What retention costs: each statement goes along an index and touches no more rows than one write may,
// however many jobs are kept for their idempotency keys. Counted, not timed.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { Connection } from "../../src/store/sqlite/connection.ts";
import { countRemovable } from "../../src/store/sqlite/job/counts.ts";
import { prune, pruneInfo, pruneKeys } from "../../src/store/sqlite/job/retention.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { T0 } from "../support/job.ts";
import { assertCounted, recount } from "../support/recount.ts";
import { assertAlongIndexes, type Made, noting } from "./noted_statements.ts";

/** Finished jobs that are kept for their keys, and as many that may go. */
const JOBS = 3000;
const LIMIT = 40;

function fill(db: Connection): void {
  db.run(
    `INSERT INTO definitions (workflow_uuid, name, chars, chain, onerror, oncancel, timeout)
     VALUES ('w', 'sample', 6, '[]', '[]', '[]', 1)`,
  );
  db.run(
    `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
     INSERT INTO jobs (uuid, workflow_uuid, definition_id, execution, phase, undoable, exec_after,
       created_at, finished_at, elapsed_ms, phases_ms, lease, starts, params, props, kept)
     SELECT 'job ' || n, 'w', 1, 'succeeded', 'chain', 0, ?2, ?2, ?2, 0, 0, 1, 0, '{}', '{}',
            n <= ?1 / 2 FROM numbers`,
    2 * JOBS,
    T0,
  );
  db.run(
    `INSERT INTO idempotency_keys (key, request_sha256, job_id, created_at)
     SELECT 'key ' || id, 'a', id, ?1 FROM jobs WHERE kept = 1`,
    T0,
  );
  recount(db);
}

Deno.test("sqlite: no write of retention looks at more than it may remove, however many jobs are kept", () => {
  const db = new Connection(":memory:");
  fill(db);
  const later = instantAfter(T0, 86_400_001);
  const everything = { age_ms: 0, finished_max: 0, limit: LIMIT };
  for (
    const [now, work] of [
      [T0, (db: Connection) => pruneKeys(db, T0, LIMIT)],
      [later, (db: Connection) => pruneKeys(db, later, LIMIT)],
      [later, (db: Connection) => prune(db, everything, later)],
      [later, (db: Connection) => prune(db, { ...everything, age_ms: null }, later)],
      [later, (db: Connection) => pruneInfo(db, LIMIT)],
    ] as const
  ) {
    const made: Made[] = [];
    const removed = work(noting(db, made));
    assertEquals(removed <= LIMIT, true, `${removed} at ${now}`);
    assert(made.length > 0);
    for (const statement of made) {
      assert(statement.rows <= LIMIT, `${statement.rows} rows: ${statement.sql}`);
      assertAlongIndexes(db, statement);
    }
  }
  // The index along which jobs are chosen holds none that is kept: there is nothing to pass over.
  const chosen = "SELECT count(*) AS jobs FROM jobs INDEXED BY jobs_removable WHERE " +
    "finished_at IS NOT NULL AND kept = 0 AND runner_id IS NULL AND claimable_at IS NULL";
  const [plan] = db.rows<{ detail: string }>(`EXPLAIN QUERY PLAN ${chosen}`);
  assertMatch(plan?.detail ?? "", /USING (COVERING )?INDEX jobs_removable/);
  assertEquals(countRemovable(db), db.row<{ jobs: number }>(chosen)?.jobs);
  assertCounted(db);
  const kept = db.row<{ jobs: number }>("SELECT count(*) AS jobs FROM jobs WHERE kept = 1")?.jobs;
  const all = db.row<{ jobs: number }>("SELECT count(*) AS jobs FROM jobs")?.jobs ?? 0;
  assertEquals(kept, JOBS - LIMIT);
  assertEquals(db.row<{ jobs: number }>(chosen)?.jobs, all - JOBS + LIMIT);
});
