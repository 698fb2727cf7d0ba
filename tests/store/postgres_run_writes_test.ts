// What a runner writes about jobs that end before their claims are written: one change of each row, as if there had
// been two.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { TaskRecord } from "../../src/store/run_store.ts";
import { holdJobs } from "../../src/store/postgres/job/run_writes.ts";
import { type ClockedStore, lifeOf } from "../support/clocked_store.ts";
import { jobOf, resultOf, T0, uuidOf, workflowOf } from "../support/job.ts";
import { fleetTests, HOSTS, statementsOf } from "./postgres_fleet.ts";
import { create, present, recordOf } from "./store_case.ts";

const fleetTest = fleetTests();
const [ONE] = HOSTS;
const LIFE = lifeOf(ONE);

/** Jobs that are ready, as the runner begins them. */
async function begun(store: ClockedStore, numbers: readonly number[]): Promise<readonly Job[]> {
  for (const number of numbers) await create(store, jobOf(number));
  return (await store.jobs.ready(LIFE, numbers.length, new Set())).jobs;
}

/** Its only task has succeeded. */
function endOf(job: Job): TaskRecord {
  return recordOf(job, { kind: "succeed" }, { runner_id: ONE });
}

/** The first is claimed and ends in one commit, the second in two. */
async function ended(store: ClockedStore, jobs: readonly Job[]): Promise<void> {
  const [first, second] = jobs as [Job, Job];
  const held = store.jobs.hold(LIFE, [first]);
  assert(await store.jobs.recordTask(endOf(first)));
  assertEquals(await held, [first.uuid]);
  assertEquals(await store.jobs.hold(LIFE, [second]), [second.uuid]);
  assert(await store.jobs.recordTask(endOf(second)));
}

fleetTest("a job that ends before its claim is written is changed once", async ({ one, db }) => {
  const jobs = await begun(one, [1, 2]);
  await db.write((tx) =>
    tx.script(`CREATE TABLE changes (uuid TEXT);
      CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO changes VALUES (NEW.uuid);
        RETURN NEW;
      END $$;
      CREATE TRIGGER note AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION note()`)
  );
  await ended(one, jobs);
  const rows = await db.read((tx) =>
    tx.rows<{ changes: number }>("SELECT count(*) AS changes FROM changes GROUP BY uuid ORDER BY 1")
  );
  assertEquals(rows.map(({ changes }) => changes), [1, 2]);
});

fleetTest(
  "a job that ends before its claim is written is shown, counted and reported as any other",
  async ({ one }) => {
    const jobs = await begun(one, [1, 2]);
    await ended(one, jobs);
    const shown = await Promise.all([1, 2].map(async (number) => {
      const { uuid: _uuid, ...job } = await present(one, uuidOf<JobUuid>(number));
      return job;
    }));
    assertEquals(shown[0], shown[1]);
    assertEquals([shown[0]?.execution, shown[0]?.lease], ["succeeded", 1]);
    assertEquals(await one.jobs.count({ execution: "succeeded" }), 2);
    assertEquals((await one.jobs.finished(T0)).map(({ succeeded }) => succeeded), [2]);
    const { events } = await one.events.after(0, 100, { kind: ["job"] });
    const told = [1, 2].map((number) =>
      events.flatMap((event) => {
        if (event.kind !== "job" || event.job.uuid !== uuidOf(number)) return [];
        const { at, change, state, task, next_task } = event;
        return { at, change, state, task, next_task };
      })
    );
    assertEquals(told[0]?.map(({ change }) => change), ["created", "started", "succeeded"]);
    assertEquals(told[0], told[1]);
  },
);

fleetTest("a job that was canceled first is neither claimed nor ended", async ({ one, other }) => {
  const [job] = await begun(one, [1]) as [Job];
  await other.jobs.cancel(job.uuid);
  const held = one.jobs.hold(LIFE, [job]);
  assertEquals(await one.jobs.recordTask(endOf(job)), false);
  assertEquals(await held, []);
  assertEquals((await present(one, job.uuid)).execution, "canceled");
});

fleetTest("a runner whose life has ended claims no job and ends none", async ({ one, other }) => {
  const [job] = await begun(one, [1]) as [Job];
  await other.jobs.begin(lifeOf(ONE, 2), [LIFE.incarnation], 30_000);
  const held = one.jobs.hold(LIFE, [job]);
  const recorded = await one.jobs.recordTask(endOf(job));
  const { execution } = await present(one, job.uuid);
  assertEquals([await held, recorded, execution], [[], false, "queued"]);
});

fleetTest(
  "a claim written with its end is kept and recorded once when its answer was lost",
  async ({ one, db }) => {
    const jobs = await begun(one, [1, 2]);
    const [job] = jobs as [Job];
    const end = { ...endOf(job), began: job.started_at };
    const write = () => db.write((tx) => holdJobs(tx, ONE, LIFE, jobs, [end]));
    for (const written of [await write(), await write()]) {
      assertEquals([...written.held].sort(), jobs.map(({ uuid }) => uuid));
      assertEquals([...written.ended], [[job.uuid, true]]);
    }
  },
);

fleetTest(
  "a claim written with an end that the server refuses is kept without the end",
  async ({ one, db }) => {
    const jobs = await begun(one, [1, 2]);
    await db.write((tx) =>
      tx.script(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.entry LIKE '%odd%' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '22000'; END IF;
        RETURN NEW;
      END $$;
      CREATE TRIGGER refuse BEFORE INSERT ON task_results FOR EACH ROW EXECUTE FUNCTION refuse()`)
    );
    const held = one.jobs.hold(LIFE, jobs);
    const ends = jobs.map((job, at) => {
      const record = endOf(job);
      return one.jobs.recordTask({ ...record, entry: resultOf(at === 0 ? "odd" : "even") });
    });
    assertEquals(await held, jobs.map(({ uuid }) => uuid));
    await Promise.all(ends);
    const executions = [1, 2].map(async (number) =>
      (await present(one, uuidOf<JobUuid>(number))).execution
    );
    assertEquals(await Promise.all(executions), ["failed", "succeeded"]);
  },
);

fleetTest("claims and ends of a backlog take the statements of one", async ({ one }) => {
  const [first, ...others] = await begun(one, [1, 2, 3, 4, 5, 6, 7, 8]) as [Job, ...Job[]];
  const run = async (job: Job) => {
    const held = one.jobs.hold(LIFE, [job]);
    assert(await one.jobs.recordTask(endOf(job), true));
    assertEquals(await held, [job.uuid]);
  };
  const ofOne = await statementsOf(() => run(first));
  const ofMany = await statementsOf(() => Promise.all(others.map(run)));
  assert(ofMany <= 2 * ofOne, `${ofMany} statements for 7 jobs, ${ofOne} for one`);
});

fleetTest("jobs that fall due get turns only where several workflows are due", async (fleet) => {
  const { one, db } = fleet;
  const second = workflowOf({ uuid: uuidOf<WorkflowUuid>(70), name: "other" });
  const [early, late] = [10, 20].map((ms) => instantAfter(T0, ms)) as [typeof T0, typeof T0];
  for (const number of [1, 2, 3, 4, 5]) await create(one, jobOf(number, { exec_after: early }));
  one.clock.now = instantAfter(T0, 15);
  const hold = async () => {
    const { jobs } = await one.jobs.ready(LIFE, 1, new Set());
    assertEquals((await one.jobs.hold(LIFE, jobs)).length, 1);
  };
  const turns = async () => {
    const rows = await db.read((tx) =>
      tx.rows<{ uuid: string }>("SELECT uuid FROM jobs WHERE turn IS NOT NULL ORDER BY turn, id")
    );
    return rows.map(({ uuid }) => Number(uuid.slice(-2)));
  };
  await hold();
  assertEquals(await turns(), []);
  await create(one, jobOf(6, { workflow: second, exec_after: late }));
  await hold();
  assertEquals(await turns(), []);
  one.clock.now = instantAfter(T0, 25);
  await hold();
  assertEquals(await turns(), [4, 5, 6]);
});
