// A store whose database goes away: what a runner writes waits in the journal of the host and is delivered once, in its
// order; reads are answered from memory; and no call waits longer than its deadline. The server is a real one.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JobUuid, MachineUuid, RunnerId, WorkflowUuid } from "../../src/domain/id.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { TaskEvent } from "../../src/domain/job/state.ts";
import type { JobNotice } from "../../src/store/host_store.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres_store.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { LocalStore, Store } from "../../src/store/store.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { jobOf, resultOf, RUNNER, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { OUTAGE, postgresFolder, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { openServerRelay, type ServerRelay } from "../support/server_relay.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { until, withFolder } from "../support/until.ts";
import { waiting } from "./attempt_suite.ts";
import { register } from "./host_suite.ts";
import { create, holdOf, JOB, kindsOf, present, recordOf, run } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const HOST = "33333333-0000-4000-8000-000000000001";
const LIFE = lifeOf(RUNNER);
/** Short, so that an outage is noticed soon; a busy machine answers in less. */
const DEADLINE_MS = 2_000;
const MACHINE = uuidOf<MachineUuid>(901);
/** How a transaction ends that has written. */
const COMMIT = "COMMIT\0";
const SHOWING = { wording: "document", now: T0, masksSecrets: false } as const;

let folder: string;
let server: PostgresServer;
let made = 0;

const isMissing = postgresFolder() === undefined;
if (!isMissing) {
  Deno.test.beforeAll(async () => {
    folder = await Deno.makeTempDir({ prefix: "zonewright-test-" });
    server = await startPostgres(folder);
  });
  Deno.test.afterAll(async () => {
    await server.stop();
    await Deno.remove(folder, { recursive: true });
  });
}

/** A host that may be cut off from its database, and another one that is not. */
interface Host {
  readonly store: Store;
  readonly local: LocalStore;
  readonly relay: ServerRelay;
  readonly other: Store;
  /** Closes the store of the host and opens it again on the same file, as a new agent does. */
  reopen(): Promise<Store>;
}

/** Registers a test that runs with a host of its own. */
function outageTest(
  name: string,
  run: (host: Host) => Promise<void>,
  outage: Partial<typeof OUTAGE> = {},
): void {
  Deno.test({
    name: `${name} [needs postgres]`,
    ignore: isMissing && Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") !== "all",
    fn: () => withHost(run, outage),
  });
}

/** @param file the folder of the host's file; one of its own unless given */
async function withHost(
  run: (host: Host) => Promise<void>,
  outage: Partial<typeof OUTAGE> = {},
  file?: string,
): Promise<void> {
  const database = `outage_${++made}`;
  const sockets = `${folder}/relay_${made}`;
  await Deno.mkdir(sockets);
  await server.sql(`CREATE DATABASE ${database}`);
  await migrateSharedDatabase({ url: server.url(database), deadlineMs: 60_000 });
  const relay = openServerRelay(sockets, server.folder);
  const [local, otherLocal] = [
    await openSqliteStore(`${file ?? sockets}/host.db`),
    await openSqliteStore(":memory:"),
  ];
  const options = { ...OUTAGE, ...outage, deadlineMs: DEADLINE_MS };
  const open = () => openPostgresStore(local, { ...options, url: relay.url(database), host: HOST });
  const otherOptions = { ...OUTAGE, deadlineMs: 60_000, url: server.url(database) };
  const other = await openPostgresStore(otherLocal, { ...otherOptions, host: RUNNER });
  let store = await open();
  try {
    const reopen = async () => {
      await store.close();
      return store = await open();
    };
    await run({ store, local, relay, other, reopen });
  } finally {
    for (const one of [store, other, local, otherLocal]) await one.close();
    relay.close();
  }
}

/** Writes the end of a task, as the runner of the host does. */
async function record(store: Store, job: Job, event: TaskEvent, place: number): Promise<boolean> {
  const entry = resultOf(`task ${place}`);
  return await store.jobs.recordTask(recordOf(job, event, { position: place, entry }));
}

const rowsOf = async ({ local }: Host) => (await local.journal.size()).rows;
const namesOf = ({ chain_results }: Job) => chain_results.map(({ name }) => name);
const delivered = (host: Host) =>
  until("the journal to be delivered", async () => await rowsOf(host) === 0);

const CHAIN = workflowOf({ chain: ["a", "b", "c", "d"].map((name) => taskOf(name)) });

outageTest(
  "results wait in the journal, and are delivered once and in their order",
  async (host) => {
    const { store, relay, other } = host;
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    assert(await record(store, job, { kind: "continue" }, 0));
    assertEquals(await rowsOf(host), 0);
    relay.cut();
    assert(await record(store, job, { kind: "continue" }, 1));
    assertEquals(await store.info.append(JOB, { line: 1 }, T0, 9, 1), "appended");
    assert(await store.machineClaims.take({ uuid: MACHINE, host: "simulated", job_uuid: JOB }));
    assertEquals((await store.machineClaims.get(MACHINE))?.job_uuid, JOB);
    assert(await record(store, job, { kind: "continue" }, 2));
    assert(await record(store, job, { kind: "succeed" }, 3));
    assertEquals(await rowsOf(host), 5);
    assertEquals((await present(other)).chain_results.length, 1);
    await assertRejects(() => store.jobs.claim(LIFE, 1), AgentError, "Cannot reach the database");
    relay.mend();
    await delivered(host);
    const after = await present(other);
    assertEquals(after.execution, "succeeded");
    assertEquals(namesOf(after), ["task 0", "task 1", "task 2", "task 3"]);
    assertEquals(await other.info.list(JOB), [{ line: 1 }]);
    assertEquals((await store.machineClaims.get(MACHINE))?.host, "simulated");
  },
);

outageTest(
  "a result whose commit was not answered is one result, whether it was delivered or not",
  async (host) => {
    const { store, relay, other } = host;
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    const lost = relay.loseAnswer(COMMIT).then(() => relay.cut());
    assert(await record(store, job, { kind: "continue" }, 0));
    await lost;
    assertEquals(await rowsOf(host), 1);
    assertEquals(namesOf(await present(other)), ["task 0"]);
    assert(await record(store, job, { kind: "continue" }, 1));
    relay.mend();
    await delivered(host);
    assertEquals(namesOf(await present(other)), ["task 0", "task 1"]);
  },
);

outageTest(
  "a cancel by another host wins over what the journal holds, and the host hears of it",
  async (host) => {
    const { store, relay, other } = host;
    const workflow = workflowOf({ chain: CHAIN.chain, oncancel: [taskOf("undo")] });
    const job = await run(store, jobOf(1, { workflow }));
    const notices: JobNotice[] = [];
    const end = store.jobs.follow((notice) => void notices.push(notice));
    relay.cut();
    assert(await record(store, job, { kind: "continue" }, 0));
    assert(await record(store, job, { kind: "succeed" }, 1));
    assertEquals((await other.jobs.cancel(JOB)).kind, "changed");
    relay.mend();
    await delivered(host);
    await until("the host to hear of it", () => notices.some(({ kind }) => kind === "canceled"));
    end();
    const canceled = await present(other);
    assertEquals([canceled.execution, canceled.chain_results], ["canceled", []]);
    // The runner has left the job: it gets it back, to undo it.
    const renewed = await store.jobs.renew(LIFE, [], 60_000);
    assert(renewed.kind === "renewed");
    assertEquals(renewed.unknown.map(({ uuid, phase }) => [uuid, phase]), [[JOB, "oncancel"]]);
    relay.cut();
    const [undoing] = renewed.unknown;
    assert(undoing !== undefined && await record(store, undoing, { kind: "succeed" }, 0));
    relay.mend();
    await delivered(host);
    assertEquals((await present(other)).oncancel_results.map(({ name }) => name), ["task 0"]);
  },
);

outageTest(
  "the journal of an ended agent is delivered before the next one claims a job",
  async (host) => {
    const { store, relay, other } = host;
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    const drained = await run(store, jobOf(2, { workflow: CHAIN }));
    relay.cut();
    assert(await record(store, job, { kind: "continue" }, 0));
    assert(await record(store, drained, { kind: "continue" }, 0));
    assert(await store.jobs.release(holdOf(drained), 5));
    const again = await host.reopen();
    assertEquals(await rowsOf(host), 3);
    const begin = () => again.jobs.begin(lifeOf(RUNNER, 2), [LIFE.incarnation], 60_000);
    await assertRejects(begin, AgentError, "Cannot reach the database");
    relay.mend();
    const begun = await until("the runner to begin", () => begin().catch(() => undefined));
    assertEquals([begun, await rowsOf(host)], [{ kind: "begun", rescued: 1 }, 0]);
    const { jobs } = await again.jobs.claim(lifeOf(RUNNER, 2), 9);
    // The interrupted task counts as started, that of the job that was given back does not.
    const shown = jobs.map((one) => [one.uuid, namesOf(one), one.starts]);
    assertEquals(shown.toSorted(), [[JOB, ["task 0"], 2], [drained.uuid, ["task 0"], 1]]);
    assertEquals((await present(other)).lease, job.lease + 1);
  },
);

outageTest(
  "a full journal refuses the next result, and loses none that it has",
  async (host) => {
    const { store, relay, other } = host;
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    relay.cut();
    assert(await record(store, job, { kind: "continue" }, 0));
    const note = () => store.info.append(JOB, { line: "x".repeat(500) }, T0, 9, 1);
    await assertRejects(note, AgentError, "Cannot write to the journal: it has");
    const large = { ...recordOf(job, { kind: "continue" }), position: 1 };
    const entry = resultOf("task 1", { result: "x".repeat(2_000) });
    const write = () => store.jobs.recordTask({ ...large, entry });
    const refused = await assertRejects(write, AgentError);
    assertEquals(refused.code, "storage_full");
    assertEquals(await rowsOf(host), 1);
    relay.mend();
    assert(await until("the result to be taken", () => write().catch(() => false)));
    await delivered(host);
    assertEquals(namesOf(await present(other)), ["task 0", "task 1"]);
  },
  { journalBytesMax: 1_000 },
);

/** Has the database refuse rows of a table whose column has a word. @returns has it take them again */
async function refuse(
  table: string,
  word: string,
  state: string,
  column = "entry",
): Promise<() => Promise<unknown>> {
  const database = `outage_${made}`;
  await server.sql(
    `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF NEW.${column} LIKE '%${word}%' THEN RAISE 'no room for it' USING ERRCODE = '${state}'; END IF;
       RETURN NEW; END $$;
     CREATE TRIGGER refuse BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION refuse()`,
    database,
  );
  return () => server.sql(`DROP TRIGGER refuse ON ${table}`, database);
}

outageTest(
  "a result that the database can never take fails its job once, as any other failure does",
  async (host) => {
    const { store, relay, other } = host;
    const undone = workflowOf({ chain: CHAIN.chain, onerror: [taskOf("undo")] });
    const job = await run(store, jobOf(1, { workflow: CHAIN, target: "/t" }));
    const undoing = await run(store, jobOf(2, { workflow: undone }));
    const notices: JobNotice[] = [];
    const end = store.jobs.follow((notice) => void notices.push(notice));
    await refuse("task_results", "odd", "22P05");
    relay.cut();
    for (const one of [job, undoing]) {
      assert(await record(store, one, { kind: "continue" }, 0));
      const odd = resultOf("odd", { result: "odd" });
      const position = 1;
      assert(
        await store.jobs.recordTask(recordOf(one, { kind: "continue" }, { position, entry: odd })),
      );
      await store.machineClaims.take({
        uuid: one === job ? MACHINE : uuidOf<MachineUuid>(902),
        host: "simulated",
        job_uuid: one.uuid,
      });
      assert(await record(store, one, { kind: "succeed" }, 2));
    }
    relay.mend();
    await delivered(host);
    await until("the host to hear of both", () => notices.length >= 2);
    end();
    const failed = await present(other);
    const error = "Cannot write the end of the task: no room for it";
    assertEquals(failed.execution, "failed");
    assertEquals((await other.jobs.summary(JOB))?.error, error);
    assertEquals(failed.chain_results.map(({ name, error }) => [name, error]), [
      ["task 0", ""],
      ["b", error],
    ]);
    // Its target and its machine are free for others, and what it left is looked for.
    assertEquals((await other.machineClaims.left()).map(({ uuid }) => uuid), [MACHINE]);
    await create(other, jobOf(3, { workflow: CHAIN, target: "/t" }));
    // The other one goes on to undo, once its runner asks.
    const renewed = await store.jobs.renew(LIFE, [], 60_000);
    assert(renewed.kind === "renewed");
    assertEquals(renewed.unknown.map(({ uuid, phase }) => [uuid, phase]), [
      [undoing.uuid, "onerror"],
    ]);
    const claimed = await store.jobs.claim(LIFE, 9);
    assertEquals(claimed.jobs, []);
  },
);

outageTest(
  "an entry that the database refuses for now delays no renewal, and is not lost",
  async (host) => {
    const { store, relay, other } = host;
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    await create(store, jobOf(2));
    const take = await refuse("task_results", "task 1", "P0001");
    relay.cut();
    assert(await record(store, job, { kind: "continue" }, 0));
    assert(await record(store, job, { kind: "continue" }, 1));
    const again = await host.reopen();
    relay.mend();
    const life = lifeOf(RUNNER, 2);
    const begin = () => again.jobs.begin(life, [LIFE.incarnation], 60_000);
    const begun = await until("the runner to begin", () => begin().catch(() => undefined));
    // The job stays as it is, or what it did would be done again.
    assertEquals([begun, await rowsOf(host)], [{ kind: "begun", rescued: 0 }, 1]);
    const renewed = await again.jobs.renew(life, [], 60_000);
    assert(renewed.kind === "renewed");
    assertEquals(renewed.unknown, []);
    assertEquals(await again.jobs.claim(life, 9), { jobs: [], due: { kind: "none" } });
    assertEquals((await again.jobs.ready(life, 9, new Set())).jobs, []);
    const words = "rejects an entry of the journal: no room for it";
    await assertRejects(() => again.measures.check(), AgentError, words);
    assertEquals(namesOf(await present(other)), ["task 0"]);
    await take();
    const after = await again.jobs.renew(life, [], 60_000);
    assertEquals([after.kind === "renewed" && after.unknown, await rowsOf(host)], [[], 0]);
    await again.measures.check();
    const { jobs } = await again.jobs.claim(life, 9);
    const shown = jobs.map((one) => [one.uuid, namesOf(one), one.starts]);
    assertEquals(shown.toSorted(), [
      [JOB, ["task 0", "task 1"], 2],
      [uuidOf<JobUuid>(2), [], 1],
    ]);
  },
);

const FULL_DISK = "a full disk refuses the next result, and what is kept comes once there is room";
if (isMissing) outageTest(FULL_DISK, () => Promise.resolve());
else {smallDiskTest(FULL_DISK, () =>
    withFolder((disk) =>
      withSmallDisk(disk, 6, () =>
        withHost(
          async (host) => {
            const { store, relay, other } = host;
            const job = await run(store, jobOf(1, { workflow: CHAIN }));
            relay.cut();
            assert(await record(store, job, { kind: "continue" }, 0));
            const filler = `${disk}/filler`;
            await assertRejects(() => Deno.writeFile(filler, new Uint8Array(8 << 20)));
            const large = { ...recordOf(job, { kind: "continue" }), position: 1 };
            const entry = resultOf("task 1", { result: "x".repeat(500_000) });
            const write = () => store.jobs.recordTask({ ...large, entry });
            const refused = await assertRejects(write, AgentError);
            assertEquals(refused.code, "storage_full");
            await Deno.remove(filler);
            assert(await write());
            assertEquals(await rowsOf(host), 2);
            relay.mend();
            await delivered(host);
            assertEquals(namesOf(await present(other)), ["task 0", "task 1"]);
          },
          {},
          disk,
        ))
    ));}

outageTest(
  "jobs that run here, or were shown lately, are shown while the database is away; others are refused",
  async ({ store, relay }) => {
    await create(store, jobOf(2, { workflow: workflowOf({ name: "shown" }) }));
    assert(await store.jobs.cancel(uuidOf<JobUuid>(2)));
    await create(store, jobOf(3));
    assert(await store.jobs.cancel(uuidOf<JobUuid>(3)));
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    await store.jobs.text(uuidOf<JobUuid>(2), SHOWING);
    relay.cut();
    assert(await record(store, job, { kind: "continue" }, 0));
    const shown = async (number: number) => {
      const text = await store.jobs.text(uuidOf<JobUuid>(number), SHOWING);
      assert(text?.staleMs !== undefined && text.parts[0] instanceof Uint8Array);
      return JSON.parse(new TextDecoder().decode(text.parts[0]));
    };
    const running = await shown(1);
    assertEquals([running.execution, running.chain_results[0].name], ["running", "task 0"]);
    const { name, execution } = await shown(2);
    assertEquals([name, execution], ["shown", "canceled"]);
    await assertRejects(() => shown(3), AgentError, "Cannot reach the database");
    await assertRejects(() => shown(4), AgentError, "Cannot reach the database");
    assert(await record(store, job, { kind: "cb_wait" }, 1));
    assertEquals((await shown(1)).execution, "waiting");
  },
);

outageTest(
  "no call waits longer than its deadline on a server that is stopped",
  async ({ store }) => {
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    await server.pause();
    try {
      const calls = callsOf(store, job);
      const ends = await Promise.allSettled(calls.map((call) => call()));
      const words = ends.map((end) =>
        end.status === "fulfilled"
          ? "answered"
          : end.reason instanceof AgentError
          ? end.reason.code
          : String(end.reason)
      );
      assertEquals(kindsOf(words.map((kind) => ({ kind }))), { overloaded: calls.length });
      // It counts as away now: nobody waits for it.
      const why = "Cannot reach the database: the server did not answer in time, or hung up";
      await assertRejects(() => store.jobs.get(JOB), AgentError, why);
    } finally {
      await server.resume();
    }
    await until("the server to be heard", () => store.jobs.get(JOB).catch(() => undefined));
  },
);

outageTest(
  "a host that was forgotten meanwhile claims no machine as it delivers its journal",
  async (host) => {
    const { store, relay } = host;
    const life = lifeOf(HOST as RunnerId);
    await register(store, life);
    await create(store, jobOf(1, { workflow: CHAIN }));
    const { jobs: [job] } = await store.jobs.claim(life, 1);
    assert(job !== undefined);
    const kept = uuidOf<MachineUuid>(902);
    await store.machineClaims.take({ uuid: kept, host: "simulated", job_uuid: JOB });
    relay.cut();
    assert(await store.machineClaims.take({ uuid: MACHINE, host: "simulated", job_uuid: JOB }));
    await store.machineClaims.release(kept, JOB);
    await server.sql(
      `UPDATE hosts SET forgotten = true WHERE uuid = '${HOST}'`,
      `outage_${made}`,
    );
    relay.mend();
    await delivered(host);
    assertEquals(await store.machineClaims.get(MACHINE), undefined);
    assertEquals((await store.machineClaims.get(kept))?.job_uuid, JOB);
  },
);

outageTest(
  "a journal of an earlier claim of a job claims no machine for the later one",
  async (host) => {
    const { store, relay } = host;
    await run(store, jobOf(1, { workflow: CHAIN }));
    relay.cut();
    assert(await store.machineClaims.take({ uuid: MACHINE, host: "simulated", job_uuid: JOB }));
    await server.sql(`UPDATE jobs SET lease = lease + 1`, `outage_${made}`);
    relay.mend();
    await delivered(host);
    assertEquals(await store.machineClaims.get(MACHINE), undefined);
  },
);

outageTest(
  "a claim on a machine that the database can never take fails its job, by the journal or not",
  async (host) => {
    const { store, relay, other } = host;
    await refuse("machine_claims", "odd", "22P05", "host");
    await run(store, jobOf(1, { workflow: CHAIN }));
    const second = await run(store, jobOf(2, { workflow: CHAIN }));
    const take = (job_uuid: JobUuid) =>
      store.machineClaims.take({ uuid: MACHINE, host: "odd", job_uuid });
    assertEquals(await take(JOB), false);
    relay.cut();
    assert(await take(second.uuid));
    relay.mend();
    await delivered(host);
    for (const uuid of [JOB, second.uuid]) {
      assertEquals(
        (await other.jobs.summary(uuid))?.error,
        `Cannot write the claim on machine ${MACHINE}: no room for it`,
      );
    }
  },
);

outageTest(
  "a claim on a machine waits while the journal is full, and is taken once there is room",
  async (host) => {
    const { store, relay, other } = host;
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    relay.cut();
    const entry = resultOf("task 0", { result: "x".repeat(500) });
    assert(await store.jobs.recordTask(recordOf(job, { kind: "continue" }, { entry })));
    const take = () =>
      store.machineClaims.take({ uuid: MACHINE, host: "simulated", job_uuid: JOB });
    const refused = await assertRejects(take, AgentError);
    assertEquals(refused.code, "storage_full");
    assertEquals(await store.machineClaims.get(MACHINE).catch(() => undefined), undefined);
    relay.mend();
    assert(await until("the claim to be taken", () => take().catch(() => false)));
    await delivered(host);
    assertEquals((await store.machineClaims.get(MACHINE))?.job_uuid, JOB);
    assertEquals(namesOf(await present(other)), ["task 0"]);
  },
  // The result fits, and a claim beside it does not.
  { journalBytesMax: 1_000 },
);

outageTest(
  "an attempt that failed while the database was away keeps its delay, also for the next agent",
  async (host) => {
    const { store, relay, other } = host;
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    relay.cut();
    assert(await store.jobs.recordAttempt(waiting(job, 3_600)));
    const again = await host.reopen();
    relay.mend();
    const life = lifeOf(RUNNER, 2);
    await until(
      "the runner to begin",
      () => again.jobs.begin(life, [LIFE.incarnation], 60_000).catch(() => undefined),
    );
    const after = await present(other);
    assertEquals([after.failures, after.starts], [1, 1]);
    // By the clock of the database, from the delivery on: a delay is never cut short.
    assert(after.retry_at !== null && Date.parse(after.retry_at) > Date.now() + 3_500_000);
  },
);

outageTest(
  "a result that the database can never take fails its job, also while the journal is empty",
  async (host) => {
    const { store, other } = host;
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    const free = await run(store, jobOf(2, { workflow: CHAIN, props: { placement: "any" } }));
    await refuse("task_results", "odd", "22P05");
    for (const one of [job, free]) {
      const entry = resultOf("odd", { result: "odd" });
      const odd = recordOf(one, { kind: "continue" }, { position: 0, entry });
      // Its runner learns that the job is not its own any more.
      assertEquals(await store.jobs.recordTask(odd), false);
      assertEquals(
        (await other.jobs.summary(one.uuid))?.error,
        "Cannot write the end of the task: no room for it",
      );
    }
    assertEquals(await rowsOf(host), 0);
  },
);

outageTest(
  "a late write under an earlier claim of a job takes nothing from the later one",
  async ({ store, relay }) => {
    const first = await run(store, jobOf(1, { workflow: CHAIN }));
    assert(await store.jobs.release(holdOf(first), 5));
    const again = await store.jobs.claim(LIFE, 1);
    const [job] = again.jobs;
    assert(job !== undefined && job.lease === first.lease + 1);
    assert(await store.machineClaims.take({ uuid: MACHINE, host: "simulated", job_uuid: JOB }));
    assertEquals(await record(store, first, { kind: "continue" }, 0), false);
    await store.jobs.abandon(holdOf(first));
    relay.cut();
    assertEquals((await store.machineClaims.get(MACHINE))?.job_uuid, JOB);
    assert(await record(store, job, { kind: "continue" }, 0));
  },
);

outageTest(
  "claims on machines that could not be read are read again, and one that was given up is gone",
  async ({ store, relay }) => {
    const first = await run(store, jobOf(1, { workflow: CHAIN }));
    assert(await store.machineClaims.take({ uuid: MACHINE, host: "simulated", job_uuid: JOB }));
    assert(await store.jobs.release(holdOf(first), 5));
    // The claim of the job is written, and what it has claimed cannot be read.
    const cut = relay.loseAnswer(COMMIT).then(() => relay.cut());
    const { jobs: none } = await store.jobs.claim(LIFE, 1).catch(() => ({ jobs: [] }));
    await cut;
    assertEquals(none, []);
    relay.mend();
    const renewed = await until(
      "the lease to be renewed",
      () => store.jobs.renew(LIFE, [], 60_000).catch(() => undefined),
    );
    assert(renewed.kind === "renewed");
    const [job] = renewed.unknown;
    assert(job !== undefined && job.starts === first.starts);
    relay.cut();
    assertEquals((await store.machineClaims.get(MACHINE))?.job_uuid, JOB);
    await store.machineClaims.release(MACHINE, JOB);
    assertEquals(await store.machineClaims.get(MACHINE), undefined);
  },
);

outageTest("nothing of a job that any host may run waits in the journal", async (host) => {
  const { store, relay } = host;
  const job = await run(store, jobOf(1, { workflow: CHAIN, props: { placement: "any" } }));
  relay.cut();
  await assertRejects(
    () => record(store, job, { kind: "continue" }, 0),
    AgentError,
    "Cannot reach the database",
  );
  const note = () => store.info.append(JOB, { line: 1 }, T0, 9, 1);
  await assertRejects(note, AgentError, "Cannot reach the database");
  assertEquals(await rowsOf(host), 0);
});

outageTest(
  "a session that stands still fails one call at its deadline, and the next call has another",
  async (host) => {
    const { store, other } = host;
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    await store.jobs.get(JOB);
    const stopped = (await server.sql(
      `SELECT pid FROM pg_stat_activity WHERE datname = 'outage_${made}'`,
    )).split("\n").map(Number);
    for (const pid of stopped) Deno.kill(pid, "SIGSTOP");
    try {
      const [read, written] = await Promise.allSettled([
        store.jobs.get(JOB),
        store.jobs.cancel(uuidOf<JobUuid>(9)),
        record(store, job, { kind: "continue" }, 0),
      ]);
      for (const end of [read, written]) {
        assert(end?.status === "rejected" && end.reason instanceof AgentError);
        assertEquals(end.reason.code, "overloaded");
      }
      await until("another session", () => store.jobs.get(JOB).catch(() => undefined));
      await delivered(host);
    } finally {
      for (const pid of stopped) Deno.kill(pid, "SIGCONT");
    }
    assertEquals(namesOf(await present(other)), ["task 0"]);
  },
);

/** Every call of the store that needs the database, and has no other answer. */
function callsOf(store: Store, job: Job): (() => Promise<unknown>)[] {
  const { jobs, workflows, info, log, events, callbacks, machineClaims } = store;
  const workflow = workflowOf({ uuid: uuidOf<WorkflowUuid>(7) });
  const other = uuidOf<JobUuid>(7);
  const page = { limit: 1 };
  return [
    () => jobs.create(jobOf(2), NO_LIMIT),
    () => jobs.retry(JOB, jobOf(3), NO_LIMIT),
    () => jobs.get(JOB),
    () => jobs.text(other, SHOWING),
    () => jobs.bytes(JOB),
    () => jobs.execution(JOB),
    () => jobs.list({}),
    () => jobs.texts({}, page, SHOWING),
    () => jobs.keys({}),
    () => jobs.summaries({ searchesParams: false }, page),
    () => jobs.summaryCounts({ searchesParams: false }),
    () => jobs.summary(JOB),
    () => jobs.ofTarget("/t", 1),
    () => jobs.count({}),
    () => jobs.hasParam("p"),
    () => jobs.claim(LIFE, 1),
    () => jobs.ready(LIFE, 1, new Set()),
    () => jobs.hold(LIFE, []),
    () => jobs.begin(LIFE, [], 60_000),
    () => jobs.renew(LIFE, [holdOf(job)], 60_000),
    () => jobs.rescue(RUNNER),
    () => jobs.cancel(JOB),
    () => jobs.resume(JOB, { kind: "result", result: "OK" }),
    () => jobs.stats(),
    () => jobs.finished(T0),
    () => jobs.prune({ age_ms: null, finished_max: 0, limit: 1 }),
    () => jobs.pruneKeys(1),
    () => jobs.pruneInfo(1),
    () => workflows.create(workflow, { max: NO_LIMIT }),
    () => workflows.replace(workflow),
    () => workflows.remove(workflow.uuid),
    () => workflows.get(workflow.uuid),
    () => workflows.list({}),
    () => workflows.text(workflow.uuid, "shown"),
    () => workflows.count({}),
    () => info.append(JOB, { line: 1 }, T0, NO_LIMIT),
    () => info.list(JOB),
    () => log.lines(JOB, page),
    () => log.attempts(JOB),
    () => events.bounds(),
    () => events.after(0, 1),
    () =>
      events.append({ kind: "host", payload: { host_uuid: HOST, change: "started", detail: "x" } }),
    () => callbacks.take(1, 1),
    () => callbacks.nextDue(),
    () => machineClaims.left(),
    () => machineClaims.settle(),
    () => machineClaims.drop(MACHINE, JOB),
    () => store.measures.check(),
  ];
}

outageTest(
  "calls whose commit got no answer return what was committed",
  async ({ store, relay }) => {
    await create(store, jobOf(1));
    const workflow = workflowOf({ uuid: uuidOf<WorkflowUuid>(7) });
    const unanswered = async <T>(call: () => Promise<T>): Promise<T> => {
      const lost = relay.loseAnswer(COMMIT);
      const answer = await call();
      await lost;
      return answer;
    };
    assertEquals((await unanswered(() => store.jobs.cancel(JOB))).kind, "changed");
    assertEquals((await store.jobs.cancel(JOB)).kind, "made");
    const post = () => store.workflows.create(workflow, { max: NO_LIMIT });
    assertEquals(await unanswered(post), { kind: "created" });
    assertEquals(await post(), { kind: "uuid_taken" });
    const remove = () => store.workflows.remove(workflow.uuid);
    assertEquals([await unanswered(remove), await remove()], [true, false]);
    assertEquals((await unanswered(() => store.jobs.create(jobOf(2), NO_LIMIT))).kind, "created");
  },
);
