// Two agents that change the same rows at the same time: what each of them read first may not stand any more when it has
// the rows to itself.

import { assert, assertEquals, assertFalse } from "@std/assert";
import type { JobUuid, MachineUuid, RunnerId } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { ForgetOutcome } from "../../src/store/host_store.ts";
import type { CreateJobOutcome } from "../../src/store/job_store.ts";
import type { SharedDatabase, Transaction } from "../../src/store/postgres/connection.ts";
import { rescueJobs } from "../../src/store/postgres/job/leases.ts";
import { failLostJobs, failUnwritten } from "../../src/store/postgres/job/host_lost.ts";
import { ANY_HOST } from "../../src/domain/job/workflow.ts";
import { at, lifeOf } from "../support/clocked_store.ts";
import { jobOf, T0, uuidOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { LEASE, register } from "./host_suite.ts";
import { FREE } from "./place_suite.ts";
import { fleetTests, HOSTS } from "./postgres_fleet.ts";
import { waiting } from "./attempt_suite.ts";
import { create, holdOf, present, recordOf } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const fleetTest = fleetTests();
const [ONE, OTHER] = HOSTS;
const DEAD = "33333333-0000-4000-8000-000000000003" as RunnerId;
/** One second after the lease of a host that was heard at the start of the test. */
const GONE = instantAfter(T0, LEASE + 1000);
/** An advisory lock of the tests, and a condition that waits for it. */
const PAUSED = 77;
const PAUSE = `(SELECT pg_advisory_xact_lock(${PAUSED})) IS NOT NULL`;

/** Waits until so many sessions of the database wait for a lock. */
async function untilBlocked(db: SharedDatabase, sessions = 1): Promise<void> {
  const sql = `SELECT 1 AS found FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' HAVING count(*) >= $1`;
  await until("a session to wait", () => db.read((tx) => tx.row(sql, sessions)));
}

fleetTest(
  "two agents that fail the jobs of a forgotten host at the same time fail each once, and neither is refused",
  async ({ one, other, db }) => {
    await register(one, lifeOf(ONE));
    await create(one, jobOf(1));
    await db.write((tx) => tx.run("UPDATE hosts SET forgotten = true"));
    at(other, GONE);
    let second: Promise<number> | undefined;
    const first = await db.write(async (tx) => {
      const failed = await failLostJobs(tx, DEAD);
      second ??= other.jobs.rescue(OTHER);
      await untilBlocked(db);
      return failed;
    });
    assertEquals([first, await second], [1, 0]);
    assertEquals((await present(other)).execution, "failed");
  },
);

fleetTest(
  "a host that is forgotten counts the jobs that another agent fails first",
  async ({ one, other, db }) => {
    await register(one, lifeOf(ONE));
    await create(one, jobOf(1));
    let forgetting: Promise<ForgetOutcome> | undefined;
    await db.write(async (tx) => {
      await tx.rows("SELECT id FROM jobs FOR UPDATE");
      forgetting ??= at(other, GONE).hosts.forget(ONE);
      await untilBlocked(db);
      await failLostJobs(tx, DEAD);
    });
    const outcome = await forgetting;
    assert(outcome?.kind === "forgotten");
    assertEquals(outcome.failed_jobs, 1);
    assertEquals((await present(other)).execution, "failed");
  },
);

fleetTest(
  "an agent that looks for expired leases leaves what another has rescued and claimed meanwhile",
  async ({ one, other, db }) => {
    const job = await create(one, jobOf(1, FREE));
    await other.jobs.claim(lifeOf(DEAD), 1, "free");
    // The statement that finds them begins before what the first agent does, and locks its rows afterwards.
    const paused = (tx: Transaction): Transaction => ({
      ...tx,
      rows: (sql, ...values) =>
        tx.rows(sql.replace("WHERE queue", `WHERE ${PAUSE} AND queue`), ...values),
    });
    let looking: Promise<number> | undefined;
    await db.read(async (tx) => {
      await tx.rows(`SELECT pg_advisory_xact_lock(${PAUSED})`);
      looking ??= db.write((tx) => rescueJobs(paused(tx), [OTHER, ANY_HOST], OTHER));
      await untilBlocked(db);
      assertEquals(await one.jobs.rescue(ONE), 1);
      await one.jobs.renew(lifeOf(ONE), [], LEASE);
      assertEquals((await one.jobs.claim(lifeOf(ONE), 1, "free")).jobs.length, 1);
    });
    assertEquals(await looking, 0);
    const { runner_id, execution } = await present(one, job.uuid);
    assertEquals([runner_id, execution], [ONE, "running"]);
  },
);

fleetTest(
  "a forgotten host that is heard again holds nothing, and others take its free jobs at once",
  async ({ one, other, db }) => {
    await register(one, lifeOf(ONE));
    await register(other, lifeOf(OTHER), [], { name: "gz02" });
    await one.jobs.begin(lifeOf(ONE), [], LEASE);
    await create(one, jobOf(1));
    const free = await create(one, jobOf(2, FREE));
    const { jobs } = await one.jobs.claim(lifeOf(ONE), 2);
    assertEquals(jobs.length, 2);
    // Given up, and its jobs have not failed yet.
    await db.write((tx) => tx.run("UPDATE hosts SET forgotten = true WHERE uuid = $1", ONE));
    const held = jobs.map((job) => holdOf(job, ONE));
    for (const holds of [held, []]) {
      const renewed = await one.jobs.renew(lifeOf(ONE), holds, LEASE);
      assert(renewed.kind === "renewed");
      assertEquals([renewed.lost, renewed.unknown, renewed.admission], [
        holds.map(({ job_uuid }) => job_uuid),
        [],
        "forgotten",
      ]);
    }
    assertEquals(await other.jobs.rescue(OTHER), 1);
    const claimed = await other.jobs.claim(lifeOf(OTHER), 9);
    assertEquals(claimed.jobs.map(({ uuid }) => uuid), [free.uuid]);
    assertEquals((await present(other)).execution, "failed");
  },
);

fleetTest(
  "an entry that can never be written does not fail a job that was canceled meanwhile",
  async ({ one, other, db }) => {
    await create(one, jobOf(1));
    const [job] = (await one.jobs.claim(lifeOf(ONE), 1)).jobs;
    assert(job !== undefined);
    await other.jobs.cancel(job.uuid);
    const hold = holdOf(job, ONE);
    assertEquals(await db.write((tx) => failUnwritten(tx, hold, "no room for it")), false);
    const { execution, runner_id, chain_results } = await present(other);
    assertEquals([execution, runner_id, chain_results], ["canceled", ONE, []]);
  },
);

fleetTest(
  "a life that has ended writes nothing of a job, also under a claim of the same number",
  async ({ one, other }) => {
    const [ended, later] = [lifeOf(ONE), lifeOf(ONE, 2)];
    await one.jobs.begin(ended, [], LEASE);
    await create(one, jobOf(1, FREE));
    const machine = { uuid: uuidOf<MachineUuid>(7), host: "gz01", job_uuid: uuidOf<JobUuid>(1) };
    assert(await one.machineClaims.take(machine));
    at(other, GONE);
    await other.jobs.begin(later, [ended.incarnation], LEASE);
    const [job] = (await other.jobs.claim(later, 1, "free")).jobs;
    assert(job !== undefined);
    const hold = holdOf(job, ONE);
    const record = recordOf(job, { kind: "succeed" }, hold);
    assertFalse(await one.jobs.recordTask(record));
    assertFalse(await one.jobs.recordAttempt({ ...waiting(job, 0), ...hold }));
    assertFalse(await one.jobs.release(hold, 1));
    assertFalse(await one.jobs.abandon(hold));
    assertFalse(await one.machineClaims.take({ ...machine, uuid: uuidOf(8) }, job.lease));
    await one.machineClaims.release(machine.uuid, job.uuid, job.lease);
    assertEquals((await one.machineClaims.get(machine.uuid))?.job_uuid, job.uuid);
    assertEquals((await present(other)).execution, "running");
    assert(await other.jobs.recordTask(record));
  },
);

fleetTest(
  "two agents that get one request with a key and a target at the same time make one job of it",
  async ({ one, other, db }) => {
    const idempotency = { key: "key", request_sha256: "a" };
    const request = { target: "/target", idempotency };
    let asked: Promise<CreateJobOutcome[]> | undefined;
    await db.write(async (tx) => {
      // Both have looked for the key, and neither has written.
      await tx.run("LOCK TABLE jobs IN SHARE MODE");
      asked ??= Promise.all([
        one.jobs.create(jobOf(1, request), NO_LIMIT),
        other.jobs.create(jobOf(2, request), NO_LIMIT),
      ]);
      await untilBlocked(db, 2);
    });
    const kinds = (await asked)?.map(({ kind }) => kind);
    assertEquals(kinds?.toSorted(), ["created", "repeated"]);
  },
);
