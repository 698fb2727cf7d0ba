// The drill of a shared database: dumped while agents work, lost, and restored; the agents go on without a restart.

import { assertEquals } from "@std/assert";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { type AgentProcess, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { type PostgresServer, postgresTest, startPostgres } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";

const WAITS = {
  name: "waits",
  chain: [{ body: "(job, cb) => cb('wait')" }, { body: "(job, cb) => cb()" }],
};
const NOOP = { name: "noop", chain: [{ body: "(job, cb) => cb()" }] };
const JOBS = 20;

async function created(agent: AgentProcess, workflow: string): Promise<string> {
  return String((await agent.post("/jobs", { workflow })).body.uuid);
}

/** Puts a dump in the place of the database, as docs/scale.md says. */
async function restore(server: PostgresServer, dump: string): Promise<void> {
  await server.sql("ALTER DATABASE fleet ALLOW_CONNECTIONS false");
  await server.sql(
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = 'fleet'",
  );
  await server.sql("ALTER DATABASE fleet RENAME TO fleet_lost");
  await server.sql("CREATE DATABASE fleet_restored OWNER tables");
  await server.run("pg_restore", "--exit-on-error", "-d", "fleet_restored", dump);
  await server.sql("ALTER DATABASE fleet_restored RENAME TO fleet");
}

postgresTest(
  "a database that was dumped while agents worked is restored, and they go on",
  () =>
    withFolder(async (folder) => {
      const server = await startPostgres(folder);
      await server.sql("CREATE ROLE runs LOGIN");
      await server.sql("CREATE ROLE tables LOGIN");
      await server.sql("CREATE DATABASE fleet OWNER tables");
      const owner = { url: server.url("fleet", "tables"), deadlineMs: 60_000 };
      await migrateSharedDatabase(owner, { agent: "runs" });
      const flags = [
        ...["--host", "simulated", "--store", server.url("fleet", "runs")],
        ...["--lease", "5"],
      ];
      const start = (name: string) => startAgentProcess(programOfRun(), `${folder}/${name}`, flags);
      const [one, other] = [await start("one"), await start("other")];
      let late: AgentProcess | undefined;
      try {
        const waits = String((await one.post("/workflows", WAITS)).body.uuid);
        const noop = String((await one.post("/workflows", NOOP)).body.uuid);
        const before = await created(one, noop);
        await one.job(before, "success");
        const held = await created(other, waits);
        await other.job(held, "waiting");

        const dump = `${server.folder}/fleet.dump`;
        const during = Array.from({ length: JOBS }, () => created(one, noop));
        await Promise.race(during);
        await server.run("pg_dump", "-Fc", "-f", dump, "fleet");
        await Promise.all(during);
        const after = await created(other, noop);
        await other.job(after, "success");
        late = await start("late");
        const known = async () => Number(await server.sql("SELECT count(*) FROM hosts", "fleet"));
        assertEquals(await known(), 3);

        await restore(server, dump);
        const next = String(
          (await until("a job to be taken", async () => {
            const answer = await one.post("/jobs", { workflow: noop });
            return answer.status === 201 ? answer : undefined;
          })).body.uuid,
        );
        await one.job(next, "success");
        assertEquals((await one.get(`/jobs/${after}`)).status, 404);
        await other.job(before, "success");
        assertEquals((await one.post(`/jobs/${held}/resume`)).status, 200);
        await other.job(held, "success");
        // Those of the dump are run to their end, and the counters are those of the rows.
        const unfinished = "SELECT count(*) FROM jobs WHERE finished_at IS NULL";
        await until("no job to be left", async () => await server.sql(unfinished, "fleet") === "0");
        const rows = Number(await server.sql("SELECT count(*) FROM jobs", "fleet"));
        const stats = (await other.get("/stats")).body as Record<string, Record<string, number>>;
        const succeeded = Object.values(stats).map((window) => window.succeeded ?? 0);
        assertEquals(succeeded.reduce((sum, count) => sum + count, 0), rows);
        await until(
          "the host of the agent that has started since",
          async () => await known() === 3,
        );
        // The roles of the dump are those of before.
        assertEquals(
          await server.sql("SELECT has_table_privilege('runs', 'jobs', 'TRUNCATE')", "fleet"),
          "f",
        );
      } finally {
        await one.stop();
        await other.stop();
        await late?.stop();
        await server.stop();
      }
    }),
);
