// What a connection keeps of rows: it is bounded, and whoever makes a job meets the workflow as it is.

import { NO_LIMIT } from "../support/limits.ts";
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { Connection, IN_MEMORY } from "../../src/store/sqlite/connection.ts";
import { beginLife, deleteGoneRunners, isLatestLife } from "../../src/store/sqlite/job/leases.ts";
import { holdJobs, readyJobs } from "../../src/store/sqlite/job/claims.ts";
import { cancelJob } from "../../src/store/sqlite/job/changes.ts";
import { insertJob } from "../../src/store/sqlite/job/jobs.ts";
import { definitionFor } from "../../src/store/sqlite/job/rows.ts";
import {
  deleteWorkflow,
  insertWorkflow,
  putBuiltinWorkflow,
  updateWorkflow,
  workflowToRun,
} from "../../src/store/sqlite/job/workflows.ts";
import { jobOf, RUNNER, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { randomOf } from "../chaos/random.ts";
import { type Made, noting } from "./noted_statements.ts";

/** More values than are kept, and more characters than one may have. */
const MANY = 129;
const LARGE_CHARS = 128 * 1024 + 1;
const BYTES_MAX = 128 * 1024;

async function withConnection(run: (db: Connection) => Promise<void> | void): Promise<void> {
  const db = new Connection(IN_MEMORY);
  try {
    await run(db);
  } finally {
    await db.close();
  }
}

Deno.test("sqlite: few row values are cached, and no large one", () =>
  withConnection((db) => {
    let made = 0;
    const keep = (id: number, chars = 1) => {
      db.cached("row", id, () => ({ value: made += 1, chars }));
      return made;
    };
    assertEquals([keep(0), keep(0)], [1, 1]);
    for (let id = 1; id < MANY; id++) keep(id);
    assertEquals(keep(0), MANY + 1, "the first one has made room");
    assertEquals([keep(-1, LARGE_CHARS), keep(-1, LARGE_CHARS)], [MANY + 2, MANY + 3]);
  }));

Deno.test("sqlite: a new job has the current workflow, even if an earlier one was cached", () =>
  withConnection(async (db) => {
    const first = workflowOf();
    const { uuid } = first;
    const second = workflowOf({ chain: [taskOf("other")] });
    const found = () => {
      const read = workflowToRun(db, uuid, BYTES_MAX);
      return read.kind === "found" ? read.workflow.chain.map(({ name }) => name) : read.kind;
    };
    const own = [["first", "second"], ["other"]];
    assertEquals(found(), "missing");
    await db.write("insert", () => insertWorkflow(db, first, T0, { max: NO_LIMIT }));
    assertEquals([found(), found()], [own[0], own[0]]);
    const read = workflowToRun(db, uuid, BYTES_MAX);
    assert(read === workflowToRun(db, uuid, BYTES_MAX), "it is read once");
    assertEquals(workflowToRun(db, uuid, 10).kind, "large");
    const undone = db.write("undone", () => {
      updateWorkflow(db, second, {});
      assertEquals(found(), own[1]);
      throw new Error("undone");
    });
    await assertRejects(() => undone, Error, "undone");
    assertEquals(found(), own[0]);
    await db.write("replace", () => updateWorkflow(db, second, {}));
    assertEquals(found(), own[1]);
    await db.write("remove", () => deleteWorkflow(db, uuid));
    assertEquals(found(), "missing");
    await db.write("builtin", () => putBuiltinWorkflow(db, first, T0));
    assertEquals(found(), own[0]);
    await db.write("builtin", () => putBuiltinWorkflow(db, second, T0));
    assertEquals(found(), own[1]);
  }));

Deno.test("sqlite: jobs of one workflow share its definition until it changes, also after one undone", () =>
  withConnection(async (db) => {
    const first = workflowOf();
    const second = workflowOf({ chain: [taskOf("other")] });
    const id = await db.write("first", () => definitionFor(db, first));
    assertEquals(await db.write("equal", () => definitionFor(db, workflowOf())), id);
    let undone = 0;
    await assertRejects(() =>
      db.write("undone", () => {
        undone = definitionFor(db, second);
        throw new Error("undone");
      })
    );
    assert(undone !== id);
    const made = await db.write("second", () => definitionFor(db, second));
    const rows = db.rows<{ id: number }>("SELECT id FROM definitions ORDER BY id");
    assertEquals(rows.map((row) => row.id), [id, made]);
    assertEquals(definitionFor(db, first), id, uuidOf<JobUuid>(1));
  }));

Deno.test("sqlite: the latest life of a runner is the one that began last, unless that was undone", () =>
  withConnection(async (db) => {
    const [first, second] = [lifeOf(RUNNER, 1), lifeOf(RUNNER, 2)];
    const latest = () => [first, second].map((life) => isLatestLife(db, life));
    const begin = () => beginLife(db, second, [first.incarnation], 0, T0);
    assertEquals(latest(), [true, true], "none has begun");
    await db.write("first", () => beginLife(db, first, [], 0, T0));
    assertEquals(latest(), [true, false]);
    const undone = db.write("undone", () => {
      begin();
      assertEquals(latest(), [false, true]);
      throw new Error("undone");
    });
    await assertRejects(() => undone, Error, "undone");
    assertEquals(latest(), [true, false]);
    await db.write("second", begin);
    assertEquals(latest(), [false, true]);
    await db.write("gone", () => deleteGoneRunners(db, T0));
    assertEquals(latest(), [true, true], "its lease is over");
  }));

Deno.test("sqlite: claimable jobs are read once, and again after a commit that was rolled back", () =>
  withConnection(async (db) => {
    const later = instantAfter(T0, 60_000);
    const look = (now = T0) => {
      const made: Made[] = [];
      const { jobs, due } = readyJobs(noting(db, made), lifeOf(RUNNER), 9, new Set(), now);
      const lists = made.filter(({ sql }) => sql.includes("ORDER BY")).length;
      return [jobs.map(({ uuid }) => uuid), due.kind, lists];
    };
    const insert = (number: number, exec_after = T0) =>
      db.write("insert", () => insertJob(db, jobOf(number, { exec_after }), null, T0));
    const [first, second, third] = [1, 2, 3].map((number) => uuidOf<JobUuid>(number));
    assertEquals([look(), look()], [[[], "none", 2], [[], "none", 0]]);
    await insert(1);
    assertEquals(look(), [[first], "none", 0]);
    await insert(2, later);
    assertEquals(look(), [[first], "in", 0]);
    assertEquals(look(later), [[first, second], "none", 0]);
    const undone = db.write("undone", () => {
      insertJob(db, jobOf(3), null, T0);
      throw new Error("undone");
    });
    await assertRejects(() => undone, Error, "undone");
    await db.write("cancel", () => cancelJob(db, uuidOf<JobUuid>(1), T0));
    assertEquals(look(later), [[second], "none", 2]);
    await db.write("cancel", () => cancelJob(db, uuidOf<JobUuid>(2), T0));
    assertEquals(look(later), [[], "none", 0]);
    await insert(3);
    assertEquals(look(), [[third], "none", 0]);
  }));

/** The first jobs that may be claimed at an instant. */
const LISTED = `SELECT uuid FROM jobs WHERE claimable_at IS NOT NULL
   AND (turn IS NOT NULL OR claimable_at <= ?)
 ORDER BY turn IS NULL, turn, iif(turn IS NULL, claimable_at, NULL), id LIMIT 9`;

for (const seed of [1, 2, 3]) {
  Deno.test(`sqlite: a new job is inserted in order among the cached claimable jobs, seed ${seed}`, () =>
    withConnection(async (db) => {
      const random = randomOf(seed);
      const workflows = [71, 72, 73].map((number) => workflowOf({ uuid: uuidOf(number) }));
      const life = lifeOf(RUNNER);
      let made = 0;
      for (let step = 0; step < 60; step++) {
        const now = instantAfter(T0, step);
        await db.write("insert", () => {
          for (let left = random.integer(0, 39); left > 0; left--) {
            const exec_after = random.chance(0.7) ? now : instantAfter(T0, random.integer(0, 79));
            const workflow = random.pick(workflows);
            insertJob(db, jobOf(made += 1, { exec_after, workflow }), null, now);
          }
        });
        const { jobs } = readyJobs(db, life, 9, new Set(), now);
        const listed = db.rows<{ uuid: JobUuid }>(LISTED, now);
        assertEquals(jobs.map(({ uuid }) => uuid), listed.map(({ uuid }) => uuid), `step ${step}`);
        const begun = jobs.slice(random.integer(0, 8));
        await db.write("hold", () => holdJobs(db, life, begun, now));
      }
      assert(made > 900);
    }));
}
