// Many agents on one database, as their stores: each registers, lists the others and runs a job of its own, the statistics
// of all are the same, and the sessions are counted.

import { assert, assertEquals } from "@std/assert";
import type { RunnerId } from "../../src/domain/id.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres_store.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { length } from "./agent_under_chaos.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { OUTAGE, postgresTest, startPostgres } from "../support/postgres.ts";
import { withFolder } from "../support/until.ts";
import { LEASE, register } from "../store/host_suite.ts";
import { create, holdOf, recordOf } from "../store/store_case.ts";
import { jobOf, uuidOf } from "../support/job.ts";

const DATABASE = "fleet";
const AGENTS = length({ quick: 40, full: 200 });
/** As the documentation says. */
const SESSIONS_MAX = 5;
const hostOf = (number: number) =>
  `33333333-0000-4000-8000-${`${number}`.padStart(12, "0")}` as RunnerId;

postgresTest(
  "many agents register, are heard and run their jobs, with at most five sessions each",
  () =>
    withFolder(async (folder) => {
      const room = AGENTS * SESSIONS_MAX + 10;
      const server = await startPostgres(folder, ["fsync=off", `max_connections=${room}`]);
      const stores: Store[] = [];
      try {
        await server.sql(`CREATE DATABASE ${DATABASE}`);
        const options = { url: server.url(DATABASE), deadlineMs: 60_000 };
        await migrateSharedDatabase(options);
        const hosts = Array.from({ length: AGENTS }, (_, at) => hostOf(at + 1));
        for (const host of hosts) {
          const local = await openSqliteStore(":memory:");
          stores.push(await openPostgresStore(local, { ...options, ...OUTAGE, host }));
        }
        const registered = await Promise.all(
          stores.map((store, at) =>
            register(store, lifeOf(hosts[at] as RunnerId), [], { name: `gz${at}` })
          ),
        );
        assertEquals(new Set(registered.map(({ kind }) => kind)), new Set(["registered"]));
        const lists = await Promise.all(stores.map((store) => store.hosts.list()));
        for (const list of lists) {
          const heard = list.filter(({ state }) => state === "connected");
          assertEquals(heard.length, AGENTS);
        }
        await Promise.all(stores.map(async (store, at) => {
          const life = lifeOf(hosts[at] as RunnerId);
          await store.jobs.begin(life, [], LEASE);
          await create(store, jobOf(at + 1));
          const [job, ...others] = (await store.jobs.claim(life, AGENTS)).jobs;
          assert(job !== undefined && job.uuid === uuidOf(at + 1) && others.length === 0);
          const record = recordOf(job, { kind: "succeed" }, holdOf(job, life.runner_id));
          assert(await store.jobs.recordTask(record));
        }));
        for (const store of stores) {
          const { current } = await store.jobs.stats();
          assertEquals([current.queued, current.running, current.succeeded], [0, 0, AGENTS]);
        }
        const sessions = Number(
          await server.sql(
            `SELECT count(*) FROM pg_stat_activity WHERE datname = '${DATABASE}'`,
          ),
        );
        assert(sessions <= AGENTS * SESSIONS_MAX, `${AGENTS} agents have ${sessions} sessions`);
      } finally {
        await Promise.all(stores.map((store) => store.close()));
        await server.stop();
      }
    }),
);
