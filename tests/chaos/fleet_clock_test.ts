// Hosts of one fleet whose clocks are an hour wrong, in either direction, beside a right one: leases and dates go by the
// clock of the database, so nothing runs early, late or twice, and no host counts as away.

import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { type AgentProcess, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { untilHost } from "../support/hosts.ts";
import { postgresTest, startPostgres } from "../support/postgres.ts";
import { withFolder } from "../support/until.ts";
import { clockTest, fakeClock, findFaketime } from "./faked_clock.ts";

const DATABASE = "fleet";
const HOUR_SECONDS = 3_600;
/** Hosts, with the seconds by which their clocks are wrong. */
const HOSTS: Readonly<Record<string, number>> = {
  right: 0,
  ahead: HOUR_SECONDS,
  behind: -HOUR_SECONDS,
};
const LEASE_SECONDS = 5;
/** Seconds from now; what has this date is due while the test waits. */
const SOON = 2;
/** Seconds from now; a host whose clock is ahead thinks that it is past. */
const LATER = HOUR_SECONDS / 2;
const QUICK = { name: "quick", chain: [{ body: "(job, cb) => cb(null, 'done')" }] };
/** Of an attempt. */
const HELD_MS = LEASE_SECONDS * 600;
/** Repeated by its own rule: the two attempts together take longer than a lease. */
const HELD = {
  name: "held",
  chain: [{
    retry: 1,
    body: `(job, cb) => sleep(${HELD_MS}).then(() => cb(job.attempt < 2 ? 'no' : null))`,
  }],
};

/** Runs with an agent for each host, under its own clock, on one database. */
async function withClocks(run: (agents: ReadonlyMap<string, AgentProcess>) => Promise<void>) {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder);
    const agents = new Map<string, AgentProcess>();
    try {
      await server.sql(`CREATE DATABASE ${DATABASE}`);
      await migrateSharedDatabase({ url: server.url(DATABASE), deadlineMs: 60_000 });
      for (const [name, offset] of Object.entries(HOSTS)) {
        await Deno.mkdir(`${folder}/${name}`);
        const clock = await fakeClock(`${folder}/${name}`);
        await clock.set(offset);
        const flags = ["--host", `simulated:${name}`, "--store", server.url(DATABASE)];
        const lease = ["--lease", `${LEASE_SECONDS}`];
        const words = [...flags, ...lease];
        const state = `${folder}/${name}/state`;
        agents.set(name, await startAgentProcess(programOfRun(), state, words, clock.env));
      }
      await run(agents);
    } finally {
      for (const agent of agents.values()) await agent.stop();
      await server.stop();
    }
  });
}

async function made(agent: AgentProcess, path: string, body: JsonObject): Promise<string> {
  const answer = await agent.post(path, body);
  assertEquals(answer.status, 201, JSON.stringify(answer.body));
  return String(answer.body.uuid);
}

function instantIn(seconds: number): string {
  return new Date(Date.now() + seconds * 1000).toISOString();
}

/** Checks one job with a date: started by no clock but that of the database. */
function expectInTime({ uuid, started_at, exec_after, created_at }: JsonObject, name: string) {
  const words =
    `job ${uuid} of host ${name}: made ${created_at}, due ${exec_after}, started ${started_at}`;
  assert(String(started_at) >= String(exec_after), words);
  const lateMs = Date.parse(String(started_at)) - Date.parse(String(exec_after));
  assert(lateMs < HOUR_SECONDS * 500, words);
}

// It needs both, and is skipped by the name of what is missing.
const bothTest = findFaketime() === undefined ? clockTest : postgresTest;

bothTest(
  "hosts with clocks an hour wrong run everything once, and by the clock of the database",
  () =>
    withClocks(async (agents) => {
      const right = agents.get("right") as AgentProcess;
      const held = await made(right, "/workflows", HELD);
      const quick = await made(right, "/workflows", QUICK);
      const jobs = new Map<string, { held: string; soon: string; later: string }>();
      for (const [name, agent] of agents) {
        jobs.set(name, {
          held: await made(agent, "/jobs", { workflow: held }),
          later: await made(agent, "/jobs", { workflow: quick, exec_after: instantIn(LATER) }),
          soon: await made(agent, "/jobs", { workflow: quick, exec_after: instantIn(SOON) }),
        });
      }
      for (const [name, { held, soon, later }] of jobs) {
        expectInTime(await right.job(soon, "success"), name);
        const { chain_results } = await right.job(held, "success");
        const [entry] = chain_results as JsonObject[];
        assertEquals([name, entry?.attempts], [name, 2]);
        const { execution, started_at } = (await right.get(`/jobs/${later}`)).body;
        assertEquals([name, execution, started_at], [name, "queued", undefined]);
        for (const agent of agents.values()) {
          const { state, reason } = (await agent.get(`/agent/v1/jobs/${later}`)).body;
          assertEquals([name, state, reason], [name, "queued", "scheduled"]);
        }
      }
      for (const agent of agents.values()) {
        for (const other of Object.keys(HOSTS)) {
          await untilHost(agent, other, "connected");
        }
        const log = agent.log().split("\n");
        assertEquals(log.filter((line) => /"\w*ms":-/.test(line)), []);
      }
    }),
);
