// What the engine's own statements cost in a full store: none walks a table or the whole of an index, and
// none changes more rows than one write may. Read from the plans and counted, not timed.

import { assert, assertEquals } from "@std/assert";
import { type Instant, instantAfter } from "../../src/domain/instant.ts";
import { Connection } from "../../src/store/sqlite/connection.ts";
import { claimJobs, holdJobs, readyJobs } from "../../src/store/sqlite/job/claims.ts";
import { countUnfinished, selectMeasures, selectStats } from "../../src/store/sqlite/job/counts.ts";
import { insertJob } from "../../src/store/sqlite/job/jobs.ts";
import { recordTask } from "../../src/store/sqlite/job/changes.ts";
import { rescueJobs } from "../../src/store/sqlite/job/leases.ts";
import { READY_MAX } from "../../src/store/limits.ts";
import { jobOf, RUNNER, T0, uuidOf } from "../support/job.ts";
import { recount } from "../support/recount.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { recordOf } from "./store_case.ts";
import { assertAlongIndexes, type Made, noting } from "./noted_statements.ts";

/** Jobs of each kind: finished, and due at one instant. */
const JOBS = 2 * READY_MAX + 50;
const DUE = instantAfter(T0, 60_000);

function fill(db: Connection): void {
  for (let number = 1; number <= JOBS; number++) {
    insertJob(db, jobOf(number, { exec_after: DUE }), null, T0);
    insertJob(db, jobOf(JOBS + number), null, T0);
    db.run(
      `UPDATE jobs SET execution = 'succeeded', claimable_at = NULL, turn = NULL, finished_at = ?2
        WHERE uuid = ?1`,
      uuidOf(JOBS + number),
      T0,
    );
  }
  db.counters.drop();
  recount(db);
}

/** Runs a part of the engine on a full store. @returns the statements that it made */
function made(db: Connection, part: (db: Connection) => unknown): Made[] {
  const statements: Made[] = [];
  part(noting(db, statements));
  for (const statement of statements) {
    assertAlongIndexes(db, statement);
    assert(statement.rows <= READY_MAX, `${statement.rows} rows: ${statement.sql}`);
  }
  return statements;
}

Deno.test("sqlite: no statement of the engine scans all jobs, and no claim assigns many turns", () => {
  const db = new Connection(":memory:");
  fill(db);
  const turns = () => db.row<{ jobs: number }>("SELECT count(turn) AS jobs FROM jobs")?.jobs ?? 0;
  const claim = (db: Connection, now: Instant) => claimJobs(db, lifeOf(RUNNER), 4, now).jobs;
  assertEquals(claim(db, T0), []);
  let claimed = claim(db, DUE);
  for (let round = 1; turns() < JOBS - claimed.length && round < 5; round++) {
    const before = turns();
    const statements = made(db, (db) => claimed = [...claimed, ...claim(db, DUE)]);
    assert(turns() - before <= READY_MAX && statements.length > 0);
  }
  assertEquals(turns(), JOBS - claimed.length);
  const [first] = claimed;
  assert(first !== undefined);
  const parts: [name: string, part: (db: Connection) => unknown][] = [
    ["create", (db) => insertJob(db, jobOf(9_999), null, DUE)],
    ["unfinished", countUnfinished],
    ["ready", (db) => readyJobs(db, lifeOf(RUNNER), 4, new Set(), DUE)],
    ["ready, past what is ready", (db) => readyJobs(db, lifeOf(RUNNER), 90, new Set(), DUE)],
    ["hold", (db) => {
      const { jobs } = readyJobs(db, lifeOf(RUNNER), 4, new Set(), DUE);
      assertEquals(holdJobs(db, lifeOf(RUNNER), jobs, DUE).length, 4);
    }],
    ["record", (db) => recordTask(db, recordOf(first, { kind: "succeed" }), DUE)],
    ["rescue", (db) => rescueJobs(db, RUNNER, DUE)],
    ["measures", (db) => selectMeasures(db, DUE)],
    ["stats", (db) => selectStats(db, instantAfter(T0, 3_600_000 - 1))],
  ];
  for (const [name, part] of parts) assert(made(db, part).length > 0, name);
  const counted = made(db, (db) => selectStats(db, instantAfter(T0, 3_630_500)));
  const plans = counted.flatMap(({ sql, values }) =>
    db.rows<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values).map(({ detail }) => detail)
  );
  // Jobs themselves are looked at within one second, whatever the minute holds.
  assert(plans.some((detail) => detail.includes("jobs USING INDEX jobs_created")), plans.join());
  const within = counted.filter(({ sql }) => sql.includes("created_at < "))
    .map(({ values }) => values.at(-1));
  assertEquals(within.map((since) => String(since).slice(17)), ["30.500Z", "30.500Z", "30.500Z"]);
});
