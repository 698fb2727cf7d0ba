// The SQLite store on files of earlier schemas.

import { assert, assertEquals } from "@std/assert";
import { Database } from "@db/sqlite";
import type { JobUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job, Phase, TaskResult } from "../../src/domain/job/job.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/migrations.ts";
import { SCHEMA_1 } from "../../src/store/sqlite/schema_1.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import {
  jobOf,
  OTHER_RUNNER,
  resultOf,
  RUNNER,
  storedJob,
  T0,
  taskOf,
  uuidOf,
  workflowOf,
} from "../support/job.ts";
import { withFolder } from "../support/until.ts";
import { assertStats, create, finish, holdOf } from "./store_case.ts";

const LATER = instantAfter(T0, 60_000);
const DONE = { finished_at: T0, started_at: T0 };
const HELD = { runner_id: OTHER_RUNNER, started_at: T0, starts: 2, elapsed_ms: 77 };
const UNDO = [taskOf("undo")];

/** Jobs in every state that schema 1 knew. */
const JOBS: Job[] = [
  { claimable_at: T0 },
  { claimable_at: LATER, exec_after: LATER, target: "/later", params: { b: 1, a: 2 } },
  { execution: "running", ...HELD, target: "/runs", props: { "odd.key": [1, { x: null }] } },
  { execution: "running", ...HELD, phase: "onerror", onerror: [taskOf("repair")] },
  { execution: "waiting", started_at: T0, elapsed_ms: 5 },
  { execution: "succeeded", ...DONE, target: "/done", timeout: 9 },
  { execution: "failed", ...DONE, target: "/done", name: "renamed" },
  { execution: "canceled", finished_at: T0 },
  { execution: "canceled", ...DONE, oncancel: UNDO, phase: "oncancel", ...HELD },
  { execution: "canceled", ...DONE, oncancel: UNDO, phase: "oncancel", claimable_at: T0 },
  { execution: "canceled", ...DONE, oncancel: UNDO, phase: "oncancel" },
  { execution: "retried", ...DONE, props: { num_attempts: 1, next_attempt: uuidOf<JobUuid>(1) } },
  { claimable_at: T0, workflow_uuid: uuidOf<WorkflowUuid>(7), chain: [] },
].map((fields, index) =>
  storedJob({
    ...fields as Partial<Job>,
    uuid: uuidOf<JobUuid>(index + 1),
    created_at: instantAfter(T0, -index * 40 * 60_000),
    chain_results: index % 2 === 0 ? [] : [resultOf("first", { result: { n: index } })],
    onerror_results: index === 3 ? [resultOf("repair"), resultOf("more", { error: "no" })] : [],
    oncancel_results: index === 10 ? [resultOf("undo")] : [],
  })
);
const INFO: JsonObject[] = [{ n: 1 }, { "10%": [] }];

/** Writes a file as the first schema had it. */
function writeSchema1(path: string, jobs: readonly Job[]): void {
  const db = new Database(path);
  db.exec("PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON");
  db.exec(SCHEMA_1);
  db.exec("PRAGMA user_version = 1");
  const workflow = workflowOf();
  db.prepare(
    "INSERT INTO workflows (uuid, name, body, builtin, created_at) VALUES (?, ?, ?, 0, ?)",
  ).run(workflow.uuid, workflow.name, JSON.stringify(workflow), T0);
  for (const job of jobs) insertJob(db, job);
  db.prepare("INSERT INTO index_documents VALUES ('a', ?, ?, NULL, NULL, ?)")
    .run(new Uint8Array([1, 2]), "0".repeat(64), T0);
  db.prepare("INSERT INTO index_syncs (report) VALUES (?)").run('{"added":3}');
  db.close();
}

function insertJob(db: Database, job: Job): void {
  db.prepare(
    `INSERT INTO jobs (uuid, workflow_uuid, name, execution, phase, chain, onerror, oncancel, timeout,
       exec_after, claimable_at, target, params, params_sha256, props, created_at, started_at,
       finished_at, elapsed_ms, runner_id, starts)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ).run(
    job.uuid,
    job.workflow_uuid,
    job.name,
    job.execution,
    job.phase,
    JSON.stringify(job.chain),
    JSON.stringify(job.onerror),
    JSON.stringify(job.oncancel),
    job.timeout,
    job.exec_after,
    job.claimable_at,
    job.target,
    JSON.stringify(job.params),
    job.target === null ? null : `digest of ${JSON.stringify(job.params)}`,
    JSON.stringify(job.props),
    job.created_at,
    job.started_at,
    job.finished_at,
    job.elapsed_ms,
    job.runner_id,
    job.starts,
  );
  const id = db.prepare("SELECT id FROM jobs WHERE uuid = ?").get<{ id: number }>(job.uuid)?.id ??
    0;
  const phases: [Phase, readonly TaskResult[]][] = [
    ["chain", job.chain_results],
    ["onerror", job.onerror_results],
    ["oncancel", job.oncancel_results],
  ];
  for (const [phase, results] of phases) {
    for (const [position, entry] of results.entries()) {
      db.prepare("INSERT INTO task_results VALUES (?, ?, ?, ?)")
        .run(id, phase, position, JSON.stringify(entry));
    }
  }
  for (const [position, entry] of INFO.entries()) {
    db.prepare("INSERT INTO job_info VALUES (?, ?, ?, ?)")
      .run(id, position, JSON.stringify(entry), T0);
  }
}

/** Runs a test on a file of the first schema with these jobs. */
function withSchema1(
  jobs: readonly Job[],
  run: (store: Store, path: string) => Promise<void>,
): Promise<void> {
  return withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    writeSchema1(path, jobs);
    const store = await openSqliteStore(path);
    try {
      await run(store, path);
    } finally {
      await store.close();
    }
  });
}

/** What SQLite itself finds wrong with a file. */
function faultsOf(path: string): unknown[] {
  const db = new Database(path);
  const [integrity] = db.prepare("PRAGMA integrity_check").all();
  const faults = db.prepare("PRAGMA foreign_key_check").all();
  const version = db.prepare("PRAGMA user_version").get();
  db.close();
  return [integrity, version, ...faults];
}

Deno.test("sqlite: a file of schema 1 keeps every job, result, info and document", () =>
  withSchema1(JOBS, async (store, path) => {
    const jobs = (await store.jobs.list({})).map(({ job }) => job);
    assertEquals(jobs.toReversed(), JOBS);
    for (const job of JOBS) {
      assertEquals(await store.jobs.get(job.uuid), job);
      assertEquals(await store.info.list(job.uuid), INFO);
    }
    await assertStats(store, T0);
    assertEquals((await store.workflows.list({})).length, 1);
    assertEquals((await store.index.get("a"))?.body, new Uint8Array([1, 2]));
    assertEquals((await store.index.lastSync())?.added, 3);
    const sound = [{ integrity_check: "ok" }, { user_version: SCHEMA_VERSION }];
    assertEquals(faultsOf(path), sound);
  }));

Deno.test("sqlite: jobs of a file of schema 1 go on where they were", () =>
  withSchema1(JOBS, async (store) => {
    assertEquals(await store.jobs.rescue(RUNNER, T0, true), 3);
    const claimed = await store.jobs.claim(RUNNER, 100, T0);
    const numbers = claimed.map(({ uuid }) => Number(uuid.slice(-12))).sort((a, b) => a - b);
    assertEquals(numbers, [1, 3, 4, 9, 10, 13]);
    const repairing = claimed.find(({ phase }) => phase === "onerror");
    assertEquals([repairing?.starts, repairing?.onerror_results.length], [3, 2]);
    for (const job of claimed) {
      if (job.execution === "running") await finish(store, job);
      else assert(await store.jobs.release(holdOf(job), 0, T0));
    }
    assertEquals((await store.jobs.claim(RUNNER, 100, LATER)).length, 3);
    const resumed = uuidOf<JobUuid>(5);
    await store.jobs.resume(resumed, { kind: "result", result: "OK" }, T0);
    assertEquals((await store.jobs.claim(RUNNER, 1, T0)).map(({ uuid }) => uuid), [resumed]);
    await assertStats(store, T0);
  }));

Deno.test("sqlite: new jobs stand behind those of schema 1, and share their definitions", () =>
  withSchema1(JOBS, async (store, path) => {
    await create(store, jobOf(100));
    assertEquals((await store.jobs.list({}, { limit: 1 }))[0]?.job.uuid, uuidOf<JobUuid>(100));
    const all = { finished_before: LATER, finished_max: 0, limit: 100 };
    assertEquals(await store.jobs.prune(all, T0), 5);
    await assertStats(store, T0);
    await store.close();
    const db = new Database(path);
    const orphans =
      "SELECT count(*) AS rows FROM task_results WHERE job_id NOT IN (SELECT id FROM jobs)";
    assertEquals(db.prepare(orphans).get(), { rows: 0 });
    // One of the jobs 1, 2, 3 and 5; of 4; of 9 and 10; of 13; maybe one more of the new job.
    const definitions = db.prepare("SELECT count(*) AS rows FROM definitions").get();
    assert(Number(definitions?.rows) <= 5, JSON.stringify(definitions));
    db.close();
  }));

Deno.test("sqlite: an empty file of schema 1 becomes an empty store", () =>
  withSchema1([], async (store, path) => {
    assertEquals(await store.jobs.list({}), []);
    assertEquals((await create(store, jobOf(1))).execution, "queued");
    await store.close();
    const again = await openSqliteStore(path);
    assertEquals(await again.jobs.count({}), 1);
    await again.close();
  }));

Deno.test("sqlite: a migration that breaks off leaves the file as it was", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    writeSchema1(path, JOBS);
    const db = new Database(path);
    // In the way of a later part of the step.
    db.exec("CREATE TABLE callbacks (anything TEXT)");
    db.close();
    const failed = await openSqliteStore(path).then(() => "opened", (error) => `${error}`);
    assert(failed.includes(path) && failed.includes("callbacks"), failed);
    const after = new Database(path);
    assertEquals(after.prepare("PRAGMA user_version").get(), { user_version: 1 });
    assertEquals(after.prepare("SELECT count(*) AS rows FROM jobs").get(), { rows: JOBS.length });
    after.exec("DROP TABLE callbacks");
    after.close();
    const store = await openSqliteStore(path);
    assertEquals((await store.jobs.list({})).map(({ job }) => job).reverse(), JOBS);
    await store.close();
  });
});
