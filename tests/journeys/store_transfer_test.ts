// A host that has worked alone joins others on one database: its jobs are moved there by the command, which is killed
// on its way once, and back again.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SharedDatabase } from "../../src/store/postgres/connection.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import {
  type AgentProcess,
  programOfRun,
  runProgram,
  startAgentProcess,
} from "../support/agent_process.ts";
import { type PostgresServer, postgresTest, startPostgres } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";
import { readEvents } from "../http/event_reader.ts";

/** Two transactions of a move, and more. */
const JOBS = 60;
const NOOP = {
  name: "noop",
  chain: [{ body: "async (job, cb) => { await info({ n: job.params.n }); cb(null, 'done') }" }],
};
const WAITS = {
  name: "waits",
  chain: [{ body: "(job, cb) => cb('wait')" }, { body: "(job, cb) => cb()" }],
};

const SLEEPS = { name: "sleeps", chain: [{ body: "(job, cb) => sleep(600000).then(() => cb())" }] };

interface Move {
  readonly server: PostgresServer;
  readonly store: readonly string[];
  /** Runs `zonewright db move`. */
  move(...flags: string[]): ReturnType<typeof runProgram>;
  /** Starts the agent of the state folder, on its own database unless flags say otherwise. */
  start(...flags: string[]): Promise<AgentProcess>;
  /** Tries that, and returns why it does not come up. */
  refused(...flags: string[]): Promise<string>;
}

async function withMove(run: (move: Move) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder);
    const agents: AgentProcess[] = [];
    const state = `${folder}/agent`;
    const place = ["--host", "simulated", "--state-dir", state];
    try {
      await server.sql("CREATE ROLE runs LOGIN");
      await server.sql("CREATE DATABASE fleet");
      const owner = { url: server.url("fleet"), deadlineMs: 60_000 };
      await migrateSharedDatabase(owner, { agent: "runs" });
      const store = ["--store", server.url("fleet", "runs")];
      await run({
        server,
        store,
        move: (...flags) =>
          runProgram(programOfRun(), [
            ...["db", "move", "--json", "--state-dir", state],
            ...(flags.includes("--store") ? flags : [...store, ...flags]),
          ]),
        start: async (...flags) => {
          const args = ["--host", "simulated", ...flags];
          const agent = await startAgentProcess(programOfRun(), state, args);
          agents.push(agent);
          return agent;
        },
        refused: async (...flags) => {
          const listen = ["--listen", "127.0.0.1:0"];
          const args = ["serve", ...place, ...listen, ...flags];
          const { code, stderr } = await runProgram(programOfRun(), args);
          assertEquals(code, 6, stderr);
          return stderr;
        },
      });
    } finally {
      for (const agent of agents) await agent.stop();
      await server.stop();
    }
  });
}

/** Makes jobs on an agent of its own, the last of which waits. @returns their uuids, and what is said of them */
async function work(agent: AgentProcess) {
  const noop = String((await agent.post("/workflows", NOOP)).body.uuid);
  const waits = String((await agent.post("/workflows", WAITS)).body.uuid);
  const jobs: string[] = [];
  for (let n = 0; n < JOBS; n++) {
    const { body } = await agent.post("/jobs", {
      workflow: noop,
      params: { n },
      target: `/t/${n}`,
    });
    jobs.push(String(body.uuid));
  }
  for (const job of jobs) await agent.job(job, "success");
  const held = String((await agent.post("/jobs", { workflow: waits })).body.uuid);
  await agent.job(held, "waiting");
  const once = await keyed(agent, noop);
  await agent.job(once, "success");
  return { jobs, held, once, said: await saidOf(agent, jobs), noop };
}

/** All that an agent says of jobs, their info and the statistics. */
async function saidOf(agent: AgentProcess, jobs: readonly string[]): Promise<unknown> {
  const said: unknown[] = [];
  for (const job of jobs) {
    const { body } = await agent.get(`/jobs/${job}`);
    said.push([body, (await agent.get(`/jobs/${job}/info`)).body]);
  }
  const { windows: _, ...stats } = (await agent.get("/stats")).body;
  return [said, stats];
}

/** The first event for a reader that has read up to this id. */
async function eventAfter(agent: AgentProcess, id: string) {
  await using reader = await readEvents(agent.url, "", { "last-event-id": id });
  const { kind, data } = await reader.next() ?? {};
  return { kind, reason: data?.reason, position: String(data?.position) };
}

/** A keyed request. */
async function keyed(agent: AgentProcess, workflow: string): Promise<string> {
  const response = await fetch(`${agent.url}/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": "one" },
    body: JSON.stringify({ workflow, params: { keyed: true } }),
  });
  return String((await response.json()).uuid);
}

postgresTest(
  "a move that is killed goes on when it is called again, and all is there as it was",
  () =>
    withMove(async ({ server, store, move, start, refused }) => {
      const alone = await start();
      const { jobs, held, once, said, noop } = await work(alone);
      assertStringIncludes((await move()).stderr, "is using it");
      await alone.stop();

      // A line of the log of a job of the second transaction, not committed: the move waits for it.
      const db = new SharedDatabase({ url: server.url("fleet"), deadlineMs: 60_000 });
      const [holding, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const blocking = db.write(async (tx) => {
        const line = "INSERT INTO job_log (job_id, position, entry, created_at)";
        await tx.run(`${line} VALUES (56, 0, '{}', 'now')`);
        holding.resolve();
        await release.promise;
        throw new Error("not to be committed");
      });
      blocking.catch(() => {});
      await Promise.race([holding.promise, blocking]);
      const killed = await killedMove(server, alone.stateDir, store);
      release.resolve();
      await blocking.catch(() => {});
      await db.close();
      assertEquals(killed, 50);
      for (const flags of [[], store]) {
        assertStringIncludes(await refused(...flags), "a move of the jobs was interrupted");
      }

      const moved = await move();
      assertEquals(moved.code, 0, moved.stderr);
      const whole = JSON.parse(moved.stdout);
      assertEquals(whole, { workflows: 2, jobs: JOBS + 2, claims: 0, passed: 50 + 2 });
      assertStringIncludes(await refused(), "the jobs were moved to");
      assertStringIncludes((await move()).stderr, "already");
      const copy = ["db", "backup", `${alone.stateDir}.copy`, "--state-dir", alone.stateDir];
      const copied = await runProgram(programOfRun(), copy);
      assertEquals(copied.code, 0, copied.stderr);
      assertStringIncludes(copied.stderr, "this file has them as they were before");
      const none = `${alone.stateDir}-none`;
      const misplaced = ["db", "move", ...store, "--state-dir", none];
      assertEquals((await runProgram(programOfRun(), misplaced)).code, 4);
      await assertRejects(() => Deno.stat(none), Deno.errors.NotFound);

      const shared = await start(...store);
      assertEquals(await saidOf(shared, jobs), said);
      assertEquals(await keyed(shared, noop), once);
      assertEquals((await shared.post(`/jobs/${held}/resume`)).status, 200);
      await shared.job(held, "success");
      await shared.stop();
      const back = await move("--back");
      assertEquals(back.code, 6, back.stderr);
      assertStringIncludes(back.stderr, "has gone on since");
    }),
);

/** Starts a move, and kills it as soon as it waits. @returns how many jobs are there */
async function killedMove(
  server: PostgresServer,
  stateDir: string,
  store: readonly string[],
): Promise<number> {
  const { program, args, env } = programOfRun();
  const child = new Deno.Command(program, {
    args: [...args, "db", "move", "--state-dir", stateDir, ...store],
    env,
    clearEnv: true,
    stdout: "null",
    stderr: "null",
  }).spawn();
  const waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
  await until("the move to wait", async () => await server.sql(waits) !== "0");
  child.kill("SIGKILL");
  await child.status;
  return Number(await server.sql("SELECT count(*) FROM jobs", "fleet"));
}

postgresTest(
  "jobs can be moved back until the first new job",
  () =>
    withMove(async ({ server, store, move, start, refused }) => {
      const alone = await start();
      const { jobs, held, said } = await work(alone);
      assert((await eventAfter(alone, "1")).kind !== "reset");
      await alone.stop();
      const none = await move("--back");
      assertStringIncludes(none.stderr, "the jobs are in the state folder");
      assertEquals((await move()).code, 0);
      // An agent that only looks changes nothing.
      const shared = await start(...store);
      assertEquals(await saidOf(shared, jobs), said);
      // The numbers are those of other events.
      const there = await eventAfter(shared, "1");
      assertEquals([there.kind, there.reason], ["reset", "unknown"]);
      assert((await eventAfter(shared, "s1")).kind !== "reset");
      assert((await eventAfter(shared, "0")).kind !== "reset");
      await shared.stop();

      const words = ["db", "move", "--back", "--state-dir", alone.stateDir, ...store];
      const back = await runProgram(programOfRun(), words);
      assertEquals(back.code, 0, back.stderr);
      assertStringIncludes(back.stderr, "still registered there: `zonewright host forget`");
      assertEquals(await server.sql("SELECT count(*) FROM jobs", "fleet"), "0");
      const again = await start();
      assertEquals(await saidOf(again, jobs), said);
      assertEquals((await eventAfter(again, there.position)).kind, "reset");
      assertEquals((await again.post(`/jobs/${held}/resume`)).status, 200);
      await again.job(held, "success");
      await again.stop();

      assertEquals((await move()).code, 0);
      const later = await start(...store);
      const workflow = String((await later.post("/workflows", WAITS)).body.uuid);
      await later.post("/jobs", { workflow });
      await later.stop();
      const late = await move("--back");
      assertEquals(late.code, 6, late.stderr);
      assertStringIncludes(late.stderr, "is new");
      assertStringIncludes(await refused(), "the jobs were moved to");
      assertEquals(await (await start(...store)).stop(), 0);
    }),
);

postgresTest(
  "a job that is changed while it is moved back stays, and nothing is lost",
  () =>
    withMove(async ({ server, move, start }) => {
      const alone = await start();
      const { held } = await work(alone);
      await alone.stop();
      assertEquals((await move()).code, 0);
      // As an agent of another host changes it; the command has looked at all jobs, and waits for this one.
      const db = new SharedDatabase({ url: server.url("fleet"), deadlineMs: 60_000 });
      const [holding, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const canceling = db.write(async (tx) => {
        await tx.run("UPDATE jobs SET lease = lease + 1 WHERE uuid = $1", held);
        holding.resolve();
        await release.promise;
      });
      await Promise.race([holding.promise, canceling]);
      const back = move("--back");
      const waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
      await until("the command to wait", async () => await server.sql(waits) !== "0");
      release.resolve();
      await canceling;
      await db.close();
      const { code, stderr } = await back;
      assertEquals(code, 6, stderr);
      assertStringIncludes(stderr, `job ${held} of this host has gone on since`);
      const kept = `SELECT count(*) FROM jobs WHERE uuid = '${held}'`;
      assertEquals(await server.sql(kept, "fleet"), "1");
      assertEquals((await move()).code, 0);
      assertEquals(await server.sql("SELECT count(*) FROM jobs", "fleet"), String(JOBS + 2));
    }),
);

postgresTest(
  "an agent goes on when its database has another address, and refuses one that does not have its host",
  () =>
    withMove(async ({ server, store, move, start, refused }) => {
      const alone = await start();
      const { jobs, said } = await work(alone);
      await alone.stop();
      assertEquals((await move()).code, 0);
      await (await start(...store)).stop();
      await server.sql("CREATE ROLE other LOGIN");
      const owner = { url: server.url("fleet"), deadlineMs: 60_000 };
      await migrateSharedDatabase(owner, { agent: "other" });
      const moved = ["--store", server.url("fleet", "other")];
      assertStringIncludes(await refused(...moved), "if the database has another address now");
      await server.sql("CREATE DATABASE empty");
      await migrateSharedDatabase({ ...owner, url: server.url("empty") }, { agent: "other" });
      const wrong = await move("--store", server.url("empty", "other"));
      assertEquals(wrong.code, 6, wrong.stderr);
      assertStringIncludes(wrong.stderr, "has no host");
      const right = await move(...moved);
      assertEquals(right.code, 0, right.stderr);
      const again = await start(...moved);
      assertEquals(await saidOf(again, jobs), said);
    }),
);

postgresTest(
  "a job that ran as its agent was killed goes on after the move",
  () =>
    withMove(async ({ store, move, start }) => {
      const alone = await start();
      const workflow = String((await alone.post("/workflows", SLEEPS)).body.uuid);
      const job = String((await alone.post("/jobs", { workflow })).body.uuid);
      await alone.job(job, "running");
      await alone.kill();
      assertEquals((await move()).code, 0);
      const shared = await start(...store);
      await shared.said('"jobs rescued"');
      await shared.job(job, "running");
      assertEquals((await shared.post(`/jobs/${job}/cancel`)).status, 200);
      await shared.said(`"job finished","job_uuid":"${job}"`);
    }),
);
