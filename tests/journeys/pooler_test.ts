// Two agents on one database by PgBouncer in transaction mode: all sessions share a few of the server's, but one of
// each agent, which listens.

import { assert, assertEquals } from "@std/assert";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { pgbouncerTest, startPgbouncer } from "../support/pgbouncer.ts";
import { postgresFolder, startPostgres } from "../support/postgres.ts";
import { withFolder } from "../support/until.ts";

const WAITS = {
  name: "waits",
  chain: [{ body: "(job, cb) => cb('wait')" }, { body: "(job, cb) => cb()" }],
};
const SLEEPS = { name: "sleeps", chain: [{ body: "(job, cb) => sleep(600000).then(() => cb())" }] };
const NOOP = { name: "noop", chain: [{ body: "(job, cb) => cb()" }] };
/** More than the pooler has sessions with the server. */
const AT_ONCE = 24;

pgbouncerTest(
  "two agents by a pooler in transaction mode run, resume, cancel and wait as without it",
  postgresFolder() === undefined,
  () =>
    withFolder(async (folder) => {
      const server = await startPostgres(folder);
      await server.sql("CREATE ROLE runs LOGIN");
      await server.sql("CREATE DATABASE fleet");
      await migrateSharedDatabase({ url: server.url("fleet"), deadlineMs: 60_000 }, {
        agent: "runs",
      });
      const pooler = await startPgbouncer(server, `${folder}/pooler`, ["runs"]);
      const flags = [
        ...["--host", "simulated", "--store", pooler.url("fleet", "runs")],
        ...["--store-notices", server.url("fleet", "runs")],
      ];
      const start = (name: string) => startAgentProcess(programOfRun(), `${folder}/${name}`, flags);
      const [one, other] = [await start("one"), await start("other")];
      try {
        const workflowOf = async (definition: typeof WAITS) =>
          String((await one.post("/workflows", definition)).body.uuid);
        const [waits, sleeps, noop] = [
          await workflowOf(WAITS),
          await workflowOf(SLEEPS),
          await workflowOf(NOOP),
        ];
        const jobs = await Promise.all(Array.from({ length: AT_ONCE }, async (_, n) => {
          const agent = n % 2 === 0 ? one : other;
          const answer = await agent.post("/jobs", { workflow: noop, params: { n } });
          assertEquals(answer.status, 201, JSON.stringify(answer.body));
          return String(answer.body.uuid);
        }));
        for (const job of jobs) await other.job(job, "success");

        const held = String((await one.post("/jobs", { workflow: waits })).body.uuid);
        await other.job(held, "waiting");
        assertEquals((await other.post(`/jobs/${held}/resume`, { result: "yes" })).status, 200);
        await other.job(held, "success");

        const asleep = String((await one.post("/jobs", { workflow: sleeps })).body.uuid);
        await other.job(asleep, "running");
        assertEquals((await other.post(`/jobs/${asleep}/cancel`)).status, 200);
        await one.said(`"job finished","job_uuid":"${asleep}"`);

        const sessions = await server.sql(
          `SELECT count(*) FILTER (WHERE query LIKE 'LISTEN zonewright%'), count(*)
             FROM pg_stat_activity WHERE usename = 'runs'`,
        );
        const [listening, all] = sessions.split("|").map(Number);
        assertEquals(listening, 2);
        assert(all !== undefined && all <= 2 + 3, sessions);
      } finally {
        await one.stop();
        await other.stop();
        await pooler.stop();
        await server.stop();
      }
    }),
);
