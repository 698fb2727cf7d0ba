// What the engine's statements cost in a full shared database: none reads all jobs, whoever they are of. Read from the
// server's plans, not timed.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, MachineUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { SharedDatabase, Transaction } from "../../src/store/postgres/connection.ts";
import { claimJobs, readyJobs } from "../../src/store/postgres/job/claims.ts";
import { recordTasks } from "../../src/store/postgres/job/changes.ts";
import { holdJobs } from "../../src/store/postgres/job/run_writes.ts";
import { makeJobs, type Placing, usedKeys } from "../../src/store/postgres/job/checked_inserts.ts";
import { rescueJobs } from "../../src/store/postgres/job/leases.ts";
import { insertJobs } from "../../src/store/postgres/job/jobs.ts";
import { prune, pruneKeys } from "../../src/store/postgres/job/retention.ts";
import { queueFor } from "../../src/store/postgres/job/host_queue.ts";
import { readyWhereNeeded } from "../../src/store/postgres/job/turns.ts";
import type { BoundValue } from "../../src/store/postgres/server.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { jobOf, T0, uuidOf } from "../support/job.ts";
import { fleetTests, HOSTS } from "./postgres_fleet.ts";
import { create, recordOf } from "./store_case.ts";

const fleetTest = fleetTests();
const [ONE] = HOSTS;
const LIFE = lifeOf(ONE);
/** Jobs of each kind. */
const JOBS = 3_000;
/** When the jobs that are delayed for a short time are due. */
const SOON = instantAfter(T0, -1000);

/** Copies a queued job. @param changes SQL of the columns that differ */
function copies(tx: Transaction, first: number, count: number, changes: Record<string, string>) {
  const columns = ["execution", "claimable_at", "turn", "finished_at", "workflow_uuid"];
  const value = (name: string) => changes[name] ?? name;
  return tx.run(
    `INSERT INTO jobs (uuid, queue, host, definition_id, phase, undoable, exec_after, created_at,
                       elapsed_ms, phases_ms, lease, starts, params, props, ${columns.join(", ")})
     SELECT gen_random_uuid()::text, queue, host, definition_id, phase, undoable, exec_after, created_at,
            0, 0, 0, 0, params, props, ${columns.map(value).join(", ")}
       FROM jobs, generate_series($1::int, $2::int) AS n WHERE uuid = $3`,
    first,
    first + count - 1,
    uuidOf<JobUuid>(1),
  );
}

/** Finished, delayed and ready jobs, and some that have just become due. */
async function fill(db: SharedDatabase): Promise<void> {
  await db.write(async (tx) => {
    await copies(tx, 1, JOBS, {
      execution: "'succeeded'",
      claimable_at: "NULL",
      turn: "NULL",
      finished_at: "created_at",
    });
    await copies(tx, 1, JOBS, {
      claimable_at: `'${instantAfter(T0, 3_600_000)}'`,
      turn: "NULL",
    });
    await copies(tx, 1, JOBS, { turn: "n" });
    await copies(tx, 1, 5, { claimable_at: `'${SOON}'`, turn: "NULL" });
  });
  await db.write((tx) => tx.script("ANALYZE"));
}

/** The lines of a plan for a statement. */
type Explain = (tx: Transaction, sql: string, values: readonly BoundValue[]) => Promise<PlanLine[]>;

interface PlanLine {
  readonly "QUERY PLAN": string;
}

/** The plan for the values of the call. */
const planNow = (how = "EXPLAIN"): Explain => (tx, sql, values) =>
  tx.rows<PlanLine>(`${how} ${sql}`, ...values);

/** The plan that a session which writes keeps, whatever the values. */
const planKept: Explain = async (tx, sql, values) => {
  await tx.script(`PREPARE kept_plan AS ${sql}`);
  const taken = values.length === 0 ? "" : `(${values.map(() => "NULL").join(", ")})`;
  const plan = await tx.rows<PlanLine>(`EXPLAIN EXECUTE kept_plan${taken}`);
  await tx.script("DEALLOCATE kept_plan");
  return plan;
};

/** Runs a part of the engine. @returns the plans of its statements */
async function plansOf(
  db: SharedDatabase,
  part: (tx: Transaction) => Promise<unknown>,
  explain = planNow(),
): Promise<string[]> {
  const made: { sql: string; values: readonly BoundValue[] }[] = [];
  const plans: string[] = [];
  await db.write(async (tx) => {
    const noted = new Proxy(tx, {
      get(target, name) {
        const found: unknown = Reflect.get(target, name, target);
        if (name !== "row" && name !== "rows" && name !== "run") return found;
        return (sql: string, ...values: BoundValue[]) => {
          made.push({ sql, values });
          return (found as (...args: unknown[]) => unknown).call(target, sql, ...values);
        };
      },
    });
    await part(noted);
    for (const { sql, values } of made) {
      const plan = await explain(tx, sql, values);
      plans.push([sql, ...plan.map((row) => row["QUERY PLAN"])].join("\n"));
    }
  });
  return plans;
}

/** How often the part of a plan that was run most often was run. */
function loopsOf(plan: string): number {
  return Math.max(0, ...Array.from(plan.matchAll(/ loops=(\d+)/g), ([, loops]) => Number(loops)));
}

/** A job with a key. */
function placingOf(number: number): Placing {
  const idempotency = { key: `order ${number}`, request_sha256: "a".repeat(64) };
  const ready = { paramsSha256: null, matches: new Map(), unfinishedMax: 1e6 };
  return { job: jobOf(number, { idempotency }), hosts: { own: ONE }, ready };
}

fleetTest("no statement of the engine reads all jobs of a full database", async ({ one, db }) => {
  await create(one, jobOf(1));
  await fill(db);
  const ready = await db.read((tx) => readyJobs(tx, ONE, LIFE, 4, new Set()));
  assertEquals([ready.jobs.length, ready.due.kind], [4, "ready"]);
  const all = await db.read((tx) => readyJobs(tx, ONE, LIFE, JOBS + 4, new Set()));
  // Those that have just become due come last.
  assertEquals(all.jobs.at(-1)?.exec_after, ready.jobs[0]?.exec_after);
  const machine = uuidOf<MachineUuid>(9);
  const parts: Record<string, (tx: Transaction) => Promise<unknown>> = {
    ready: (tx) => readyJobs(tx, ONE, LIFE, 4, new Set([uuidOf<JobUuid>(1)])),
    hold: (tx) => holdJobs(tx, ONE, LIFE, ready.jobs),
    end: (tx) => recordTasks(tx, ready.jobs.map((job) => recordOf(job, { kind: "succeed" }))),
    make: (tx) => makeJobs(tx, [5, 6].map(placingOf)),
    claim: (tx) => claimJobs(tx, [ONE, "any"], LIFE, 4),
    rescue: (tx) => rescueJobs(tx, [ONE, "any"], ONE),
    place: (tx) => queueFor(tx, jobOf(2, { params: { uuid: machine } }), { own: ONE }),
  };
  for (const [name, part] of Object.entries(parts)) {
    const plans = await plansOf(db, part);
    assert(plans.length > 0, name);
    for (const plan of plans) assert(!/Seq Scan on jobs\b/.test(plan), `${name}: ${plan}`);
  }
});

fleetTest("a claim looks at few of the workflows that have delayed jobs", async ({ one, db }) => {
  const later = instantAfter(T0, 3_600_000);
  await create(one, jobOf(1, { exec_after: later }));
  await db.write(async (tx) => {
    await copies(tx, 1, 300, { workflow_uuid: "gen_random_uuid()::text" });
    await tx.script("ANALYZE jobs");
  });
  const plans = await plansOf(db, (tx) => readyWhereNeeded(tx, ONE), planNow("EXPLAIN ANALYZE"));
  for (const plan of plans) assert(loopsOf(plan) < 100, plan);
  // One of the last is due, and gets its turn all the same.
  await db.write((tx) => copies(tx, 1, 1, { workflow_uuid: "'f'", claimable_at: `'${SOON}'` }));
  await db.write((tx) => readyWhereNeeded(tx, ONE));
  const due = "SELECT workflow_uuid FROM jobs WHERE turn IS NOT NULL";
  assertEquals(await db.read((tx) => tx.rows(due)), [{ workflow_uuid: "f" }]);
});

fleetTest("a key is looked for by its index, also while no job has one", async ({ one, db }) => {
  await create(one, jobOf(1, { target: "/t" }));
  await fill(db);
  const same = jobOf(2, {
    target: "/t",
    idempotency: { key: "k", request_sha256: "a".repeat(64) },
  });
  const row = "SELECT params_sha256 AS digest FROM jobs WHERE target = $1";
  const held = await db.read((tx) => tx.row<{ digest: string }>(row, "/t"));
  const paramsSha256 = held?.digest ?? null;
  const parts: Record<string, (tx: Transaction) => Promise<unknown>> = {
    used: (tx) => usedKeys(tx, ["a", "b"]),
    holder: (tx) => insertJobs(tx, [{ job: same, hosts: { own: ONE }, paramsSha256 }]),
  };
  for (const [name, part] of Object.entries(parts)) {
    for (const explain of [planNow(), planKept]) {
      const plans = (await plansOf(db, part, explain)).filter((plan) =>
        /idempotency_key =/.test(plan)
      );
      assertEquals(plans.length, 1, name);
      for (const plan of plans) assert(/Index Cond: \(idempotency_key = /.test(plan), plan);
    }
  }
});

fleetTest("retention reads the jobs that it takes, by a kept plan too", async ({ one, db }) => {
  await create(one, jobOf(1));
  await fill(db);
  await db.write((tx) =>
    tx.script(
      `UPDATE jobs SET kept = 1, idempotency_key = uuid, request_sha256 = '${"a".repeat(64)}'
                WHERE turn IS NOT NULL; ANALYZE jobs`,
    )
  );
  const parts: Record<string, (tx: Transaction) => Promise<unknown>> = {
    prune: (tx) => prune(tx, { age_ms: 1_000, finished_max: 10, limit: 5 }),
    keys: (tx) => pruneKeys(tx, 5),
  };
  for (const [name, part] of Object.entries(parts)) {
    for (const explain of [planNow(), planKept]) {
      const plans = (await plansOf(db, part, explain)).filter((plan) =>
        /created_at|finished_at,/.test(plan)
      );
      assert(plans.length > 0, name);
      for (const plan of plans) assert(!/Hash|Merge|Bitmap Heap Scan on jobs/.test(plan), plan);
    }
  }
});
