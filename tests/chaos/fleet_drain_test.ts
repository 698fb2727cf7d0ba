// Agents of one fleet drain a backlog together: each job is recorded once, on a host that may run it, and the backlog of
// one host delays no other.

import { assertEquals } from "@std/assert";
import { SharedDatabase } from "../../src/store/postgres/connection.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { type AgentProcess, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { type PostgresServer, postgresTest, startPostgres } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";
import { length } from "./agent_under_chaos.ts";

const DATABASE = "fleet";
const AGENTS = length({ quick: 3, full: 4 });
/** Jobs that are posted at each host at a time; every fourth is free, which any host may run. */
const SHARE = length({ quick: 100, full: 2_900 });
const FREE_EVERY = 4;
const POSTERS = 16;
/** Milliseconds for all to end. */
const ENDED_MS_MAX = 600_000;
const CHAIN = [{ body: "(job, cb) => cb(null, job.params.n)" }];

async function withAgents(
  run: (
    agents: readonly AgentProcess[],
    server: PostgresServer,
    db: SharedDatabase,
  ) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder);
    const agents: AgentProcess[] = [];
    try {
      await server.sql(`CREATE DATABASE ${DATABASE}`);
      await migrateSharedDatabase({ url: server.url(DATABASE), deadlineMs: 60_000 });
      for (let at = 0; at < AGENTS; at++) {
        const flags = ["--host", `simulated:gz${at}`, "--store", server.url(DATABASE)];
        const more = ["--unfinished-jobs-max", `${2 * AGENTS * SHARE}`];
        agents.push(
          await startAgentProcess(programOfRun(), `${folder}/${at}`, [...flags, ...more]),
        );
      }
      const db = new SharedDatabase({ url: server.url(DATABASE), deadlineMs: ENDED_MS_MAX });
      try {
        await run(agents, server, db);
      } finally {
        await db.close();
      }
    } finally {
      for (const agent of agents) await agent.stop();
      await server.stop();
    }
  });
}

/** Posts numbered jobs at one agent, some at the same time. @returns their uuids with their numbers */
async function postAll(
  agent: AgentProcess,
  numbers: readonly number[],
  workflowOf: (n: number) => string,
): Promise<[string, number][]> {
  const left = [...numbers];
  const made: [string, number][] = [];
  await Promise.all(Array.from({ length: POSTERS }, async () => {
    for (let n = left.shift(); n !== undefined; n = left.shift()) {
      const { status, body } = await agent.post("/jobs", { workflow: workflowOf(n), n });
      assertEquals(status, 201, JSON.stringify(body));
      made.push([String(body.uuid), n]);
    }
  }));
  return made;
}

async function workflow(agent: AgentProcess, name: string, placement?: string): Promise<string> {
  const place = placement === undefined ? {} : { placement };
  return String((await agent.post("/workflows", { name, chain: CHAIN, ...place })).body.uuid);
}

postgresTest(
  "agents drain a backlog: each job is recorded once, and other hosts' jobs do not wait for it",
  () =>
    withAgents(async (agents, server, db) => {
      const [held, ...others] = agents as [AgentProcess, ...AgentProcess[]];
      const bound = await workflow(held, "bound");
      const free = await workflow(held, "free", "any");
      const sql = (text: string) => server.sql(text, DATABASE);
      let next = 1;
      const post = async (...at: readonly AgentProcess[]) => {
        const posted = at.map((agent) => {
          const numbers = Array.from({ length: SHARE }, () => next++);
          return postAll(agent, numbers, (n) => n % FREE_EVERY === 0 ? free : bound);
        });
        return (await Promise.all(posted)).flat();
      };
      const untilLeft = async (what: string, left: number) => {
        const count = "SELECT count(*)::integer AS n FROM jobs WHERE finished_at IS NULL";
        const ask = () => db.read((tx) => tx.rows<{ n: number }>(count));
        await until(what, async () => (await ask())[0]?.n === left, ENDED_MS_MAX);
      };

      // Its backlog stands until it is admitted again.
      assertEquals((await held.post("/agent/v1/hosts/gz0/cordon")).status, 200);
      const made = await post(held, ...others);
      const standing = SHARE - SHARE / FREE_EVERY;
      await untilLeft("all but the backlog to end", standing);
      const early = `SELECT count(*) FROM jobs JOIN hosts ON hosts.uuid = host AND name = 'gz0'
        WHERE finished_at IS NOT NULL`;
      assertEquals(await sql(early), "0", "a cordoned host has run jobs");
      assertEquals((await held.post("/agent/v1/hosts/gz0/uncordon")).status, 200);
      made.push(...await post(...others));
      await untilLeft("all jobs to end", 0);

      const ended = await sql(
        `SELECT json_build_object('job', uuid, 'execution', execution, 'tasks',
           (SELECT json_agg(json_build_array(entry::json->'result', entry::json->'attempts'))
             FROM task_results WHERE job_id = jobs.id)) FROM jobs`,
      );
      const rows = ended.split("\n").map((line) => JSON.parse(line));
      const wanted = made.sort(([, a], [, b]) => a - b)
        .map(([job, n]) => ({ job, execution: "succeeded", tasks: [[n, 1]] }));
      assertEquals(rows.sort((a, b) => a.tasks[0][0] - b.tasks[0][0]), wanted);
      const hosts = "SELECT count(DISTINCT host) FROM jobs";
      assertEquals(await sql(hosts), `${AGENTS}`, "a host has run nothing");
    }),
);
