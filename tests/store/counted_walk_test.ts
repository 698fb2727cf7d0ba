// Lists and counts along the places of jobs: whatever is made and removed, in whatever order of the clock,
// they say what a look at every job would, and no statement of theirs looks at more than one block.

import { assert, assertEquals } from "@std/assert";
import type { WorkflowUuid } from "../../src/domain/id.ts";
import { type Instant, instantAfter } from "../../src/domain/instant.ts";
import type { Execution } from "../../src/domain/job/state.ts";
import type { JobFilter } from "../../src/store/job_store.ts";
import { Connection, IN_MEMORY } from "../../src/store/sqlite/connection.ts";
import { insertJob } from "../../src/store/sqlite/job/jobs.ts";
import { countJobs, hasParam, listKeys } from "../../src/store/sqlite/job/lists.ts";
import { BLOCK } from "../../src/store/sqlite/counters.ts";
import { jobOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { assertCounted, recount } from "../support/recount.ts";
import { assertAlongIndexes, type Made, noting } from "./noted_statements.ts";

/** Some blocks, and a part of one. */
const JOBS = 3 * BLOCK + 500;
const SECOND_MS = 1000;
const HOUR_MS = 3_600_000;

/** A job as the test knows it. */
interface Known {
  readonly uuid: string;
  readonly execution: Execution;
  readonly name: string;
  readonly workflow_uuid: WorkflowUuid;
  readonly target: string | null;
  readonly created_at: Instant;
  readonly color: string;
}

/** The last workflow is rare; the second has the name of the first, and was changed once. */
function workflowAt(number: number) {
  if (number % 3_000 === 7) return workflowOf({ uuid: uuidOf(3), name: "rare" });
  const chain = number % 4 === 0 ? [taskOf("changed")] : [taskOf("first")];
  return workflowOf({ uuid: uuidOf(1 + number % 2), name: "common", chain });
}

/** The clock of the third quarter goes back to where the second one began. */
function createdAt(number: number): Instant {
  const back = number > 2 * BLOCK ? BLOCK : 0;
  return instantAfter(T0, (number - back) * SECOND_MS);
}

function make(db: Connection, number: number): Known {
  const workflow = workflowAt(number);
  const color = number % 100 === 0 ? "red" : "green";
  const target = number % 7 === 0 ? "/machines/seven" : null;
  const created_at = createdAt(number);
  const execution = number % 1_000 === 1 ? "failed" : number % 3 === 0 ? "queued" : "succeeded";
  const uuid = uuidOf(number);
  const params = { color, number };
  insertJob(db, jobOf(number, { workflow, params, target }), target && String(number), created_at);
  if (execution !== "queued") {
    db.run(
      `UPDATE jobs SET execution = ?2, claimable_at = NULL, turn = NULL, finished_at = created_at
        WHERE uuid = ?1`,
      uuid,
      execution,
    );
  }
  const { name, uuid: workflow_uuid } = workflow;
  return { uuid, execution, name, workflow_uuid, target, created_at, color };
}

/** Makes the jobs, and removes a whole block and some others. @returns those that are left, newest first */
function fill(db: Connection): Known[] {
  const left: Known[] = [];
  for (let number = 1; number <= JOBS; number++) {
    const known = make(db, number);
    left.unshift(known);
  }
  db.counters.write();
  recount(db);
  return left.filter(({ uuid }, at) => {
    const number = JOBS - at;
    const gone = number % 11 === 0 || (number >= BLOCK && number < 2 * BLOCK);
    if (gone) db.run("DELETE FROM jobs WHERE uuid = ?", uuid);
    return !gone;
  });
}

const FILTERS: JobFilter[] = [
  {},
  { execution: "succeeded" },
  { execution: "failed", name: "common" },
  { name: "common" },
  { name: "rare" },
  { name: "rare", execution: "failed" },
  { name: "common", workflow_uuid: uuidOf(2) },
  { name: "rare", workflow_uuid: uuidOf(2) },
  { workflow_uuid: uuidOf(1) },
  { workflow_uuid: uuidOf(3), target: "/machines/seven" },
  { target: "/machines/seven" },
  { target: "/machines/seven", execution: "queued" },
  { since: instantAfter(T0, HOUR_MS) },
  { until: instantAfter(T0, 3 * HOUR_MS), name: "common" },
  { since: createdAt(2 * BLOCK + 1), until: createdAt(2 * BLOCK + 900) },
  { since: createdAt(100), until: createdAt(130), execution: "queued" },
  { since: instantAfter(T0, -2), until: instantAfter(T0, -1) },
  { params: { color: "red" } },
  { params: { color: "red" }, name: "common", until: instantAfter(T0, 2 * HOUR_MS) },
];

function fits(job: Known, filter: JobFilter): boolean {
  const { since = "", until = "9999", params = {}, ...same } = filter;
  return job.created_at >= since && job.created_at < until &&
    (params.color === undefined || params.color === job.color) &&
    Object.entries(same).every(([key, value]) => Reflect.get(job, key) === value);
}

/** Fails for a statement about jobs that looks at more places than a block has, or passes over more. */
function assertBounded(db: Connection, made: Made): void {
  const { sql, values, rows } = made;
  assert(rows <= BLOCK, `${rows} rows: ${sql}`);
  // All jobs in their own order: it ends with the page.
  if (!/FROM jobs\s+ORDER BY id DESC LIMIT/.test(sql)) assertAlongIndexes(db, made);
  // There are never more running jobs than slots.
  if (!/\bFROM jobs\b/.test(sql) || sql.includes("execution = 'running'")) return;
  if (sql.includes("id >= ? AND id < ?")) {
    const from = sql.slice(0, sql.indexOf("id >= ?")).split("?").length - 1;
    assert(Number(values[from + 1]) - Number(values[from]) <= BLOCK, sql);
  } else if (!sql.includes("max(id)")) {
    // One index answers it, and it passes over few.
    assert(sql.includes("LIMIT ? OFFSET ?") && Number(values.at(-1)) <= BLOCK, sql);
  }
}

Deno.test("sqlite: counts and pages along the places of jobs are those of a look at each job", async () => {
  const db = new Connection(IN_MEMORY);
  try {
    const left = await db.write("fill", () => fill(db));
    const made: Made[] = [];
    const noted = noting(db, made);
    for (const filter of FILTERS) {
      const fitting = left.filter((job) => fits(job, filter)).map(({ uuid }) => uuid);
      const named = JSON.stringify(filter);
      assertEquals(await countJobs(noted, filter), fitting.length, named);
      for (const offset of [0, 3, 1_001, BLOCK + 17, fitting.length - 2, fitting.length]) {
        if (offset < 0) continue;
        const keys = await listKeys(noted, filter, { limit: 5, offset });
        assertEquals(keys.map(({ uuid }) => uuid), fitting.slice(offset, offset + 5), named);
        const place = keys[1]?.place;
        if (place === undefined) continue;
        const next = await listKeys(noted, filter, { limit: 3, before: place });
        assertEquals(next.map(({ uuid }) => uuid), fitting.slice(offset + 2, offset + 5), named);
      }
    }
    assertEquals([await hasParam(noted, "color"), await hasParam(noted, "size")], [true, false]);
    for (const one of made) assertBounded(db, one);
    assertCounted(db);
  } finally {
    await db.close();
  }
});
