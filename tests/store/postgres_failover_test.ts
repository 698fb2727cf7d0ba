// A standby takes over from a server that was killed: what an agent loses when the standby counts for commits, which is
// nothing, and what when it does not. The servers are real ones.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres_store.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { LocalStore, Store } from "../../src/store/store.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { jobOf, resultOf, RUNNER, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import {
  OUTAGE,
  type PostgresServer,
  postgresTest,
  STANDBY,
  startPostgres,
} from "../support/postgres.ts";
import { openServerRelay } from "../support/server_relay.ts";
import { until, withFolder } from "../support/until.ts";
import { length } from "../chaos/agent_under_chaos.ts";
import { holdOf, present, recordOf, run } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const HOST = "33333333-0000-4000-8000-000000000001";
const LIFE = lifeOf(RUNNER);
const DEADLINE_MS = 5_000;
const CHAIN = workflowOf({ chain: ["a", "b", "c"].map((name) => taskOf(name)) });

interface Failover {
  readonly store: Store;
  readonly local: LocalStore;
  readonly first: PostgresServer;
  readonly standby: PostgresServer;
  /** Kills the first server, and has the standby take over at the same address. */
  takeOver(): Promise<void>;
}

/** Where the kill finds the server is another place each time. */
const ROUNDS = length({ quick: 1, full: 10 });

/** Registers a test with a server and its standby. */
function failoverTest(name: string, run: (failover: Failover) => Promise<void>): void {
  const rounds = Array.from({ length: ROUNDS }, (_, round) => round + 1);
  for (const round of rounds) oneFailover(round === 1 ? name : `${name}, round ${round}`, run);
}

function oneFailover(name: string, run: (failover: Failover) => Promise<void>): void {
  postgresTest(name, () =>
    withFolder(async (folder) => {
      const places = ["first", "standby", "relay"].map((place) => `${folder}/${place}`);
      const [one = "", other = "", sockets = ""] = places;
      for (const place of places) await Deno.mkdir(place);
      await Deno.chmod(folder, 0o711);
      const first = await startPostgres(one);
      await first.sql("CREATE DATABASE fleet");
      await migrateSharedDatabase({ url: first.url("fleet"), deadlineMs: 60_000 });
      const standby = await startPostgres(other, undefined, undefined, { of: first });
      const relay = openServerRelay(sockets, first.folder);
      const local = await openSqliteStore(`${sockets}/host.db`);
      const options = { ...OUTAGE, deadlineMs: DEADLINE_MS, host: HOST };
      const store = await openPostgresStore(local, { ...options, url: relay.url("fleet") });
      try {
        await run({
          store,
          local,
          first,
          standby,
          async takeOver() {
            await first.kill();
            relay.cut();
            await standby.sql("SELECT pg_promote()");
            relay.mend(standby.folder);
            await until("the standby to be reached", () =>
              store.jobs.count({}).then(() => true, () => false));
          },
        });
      } finally {
        await store.close();
        await local.close();
        relay.close();
        await standby.stop();
        await first.stop();
      }
    }));
}

/** Whether the first server knows its standby in this way. */
async function untilStandby(first: PostgresServer, states: string): Promise<void> {
  const sql = "SELECT coalesce(string_agg(sync_state, ','), '') FROM pg_stat_replication " +
    `WHERE application_name = '${STANDBY}' AND state = 'streaming'`;
  await until(
    `the standby to be ${JSON.stringify(states)}`,
    async () => await first.sql(sql) === states,
  );
}

failoverTest(
  "with a standby that counts for commits, nothing that was acknowledged is lost",
  async ({ store, local, first, takeOver }) => {
    await first.sql(`ALTER SYSTEM SET synchronous_standby_names = '${STANDBY}'`);
    await first.sql("SELECT pg_reload_conf()");
    await untilStandby(first, "sync");
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    assert(
      await store.jobs.recordTask(
        recordOf(job, { kind: "continue" }, { position: 0, entry: resultOf("a") }),
      ),
    );
    const acknowledged: JobUuid[] = [];
    let isOver = false;
    const posting = Promise.all([1, 2, 3, 4].map(async (caller) => {
      for (let number = 0; !isOver; number++) {
        const made = jobOf(caller * 10_000 + number);
        const outcome = await store.jobs.create(made, NO_LIMIT).catch(() => undefined);
        if (outcome?.kind === "created") acknowledged.push(made.uuid);
        // What was refused is refused at once from then on.
        else break;
      }
    }));
    await until("some jobs to be accepted", () => acknowledged.length > 50);
    const takingOver = takeOver();
    const entry = resultOf("b");
    assert(
      await until(
        "the next result to be kept",
        () =>
          store.jobs.recordTask(recordOf(job, { kind: "continue" }, { position: 1, entry }))
            .catch(() => undefined),
      ),
    );
    await takingOver;
    isOver = true;
    await posting;
    for (const uuid of acknowledged) assertEquals((await store.jobs.get(uuid))?.uuid, uuid);
    await until("the journal to be delivered", async () => (await local.journal.size()).rows === 0);
    assertEquals((await present(store)).chain_results.map(({ name }) => name), ["a", "b"]);
    const renewed = await store.jobs.renew(LIFE, [holdOf(await present(store))], 60_000);
    assertEquals(renewed.kind === "renewed" && renewed.lost, []);
  },
);

postgresTest(
  "while a standby that counts for commits is away, writes are refused, reads go on, and few sessions wait",
  () =>
    withFolder(async (folder) => {
      const server = await startPostgres(folder);
      await server.sql("CREATE DATABASE fleet");
      const options = { url: server.url("fleet"), deadlineMs: 1_000 };
      await migrateSharedDatabase({ ...options, deadlineMs: 60_000 });
      const local = await openSqliteStore(":memory:");
      const store = await openPostgresStore(local, { ...options, ...OUTAGE, host: HOST });
      const standby = async (sql: string) => {
        await server.sql(`ALTER SYSTEM ${sql}`);
        await server.sql("SELECT pg_reload_conf()");
      };
      const create = (number: number) =>
        store.jobs.create(jobOf(number), NO_LIMIT).catch(() => undefined);
      try {
        await run(store, jobOf(1));
        await standby("SET synchronous_standby_names = 'gone'");
        await until("a commit to wait", async () => await create(2) === undefined);
        for (let number = 3; number < 9; number++) assertEquals(await create(number), undefined);
        assertEquals((await present(store)).execution, "running");
        const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        assert(Number(await server.sql(waiting)) <= 2);
        await standby("RESET synchronous_standby_names");
        await until("writes to be taken again", () => create(9));
        assertEquals((await present(store, uuidOf<JobUuid>(2))).execution, "queued");
      } finally {
        await store.close();
        await local.close();
        await server.stop();
      }
    }),
);

failoverTest(
  "with a standby that lags, what it has not received is lost, and a task whose result is lost runs again",
  async ({ store, first, standby, takeOver }) => {
    await untilStandby(first, "async");
    const job = await run(store, jobOf(1, { workflow: CHAIN }));
    const position = "SELECT pg_wal_lsn_diff(sent_lsn, replay_lsn) FROM pg_stat_replication";
    await until("the standby to have it", async () => await first.sql(position) === "0");
    await standby.sql("ALTER SYSTEM SET primary_conninfo = ''");
    await standby.sql("SELECT pg_reload_conf()");
    await untilStandby(first, "");
    assert(
      await store.jobs.recordTask(
        recordOf(job, { kind: "continue" }, { position: 0, entry: resultOf("a") }),
      ),
    );
    const late = await run(store, jobOf(2));
    await takeOver();
    assertEquals(await store.jobs.get(uuidOf<JobUuid>(2)), undefined);
    // The runner has left the first job: it gets it back, at the task whose result is lost.
    const renewed = await store.jobs.renew(LIFE, [holdOf(late)], 60_000);
    assert(renewed.kind === "renewed");
    assertEquals(renewed.lost, [late.uuid]);
    assertEquals(renewed.unknown.map(({ uuid, chain_results }) => [uuid, chain_results]), [[
      job.uuid,
      [],
    ]]);
  },
);
