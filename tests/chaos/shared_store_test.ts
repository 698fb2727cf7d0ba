// Three agents on one database that is taken away, crashed and cut off from them while jobs are posted to all. A model
// holds what was acknowledged: every such job ends on the host that accepted it, with one result for each of its
// tasks, and a canceled one stays canceled. No task starts again because of the database; where agents are killed,
// each kill may repeat one.

import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { type AgentProcess, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { type PostgresServer, postgresTest, startPostgres } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";
import { length } from "./agent_under_chaos.ts";
import { type Random, randomOf } from "./random.ts";

const DATABASE = "fleet";
const AGENTS = 3;
const ROUNDS = length({ quick: 4, full: 40 });
/** Posts that are under way at the same time. */
const POSTERS = 4;
/** Jobs that are acknowledged between two faults. */
const JOBS_BETWEEN = 12;
/** One of so many jobs is canceled once it is acknowledged. */
const CANCEL_EVERY = 4;
/** Tasks that end by themselves, and one that a fault may meet while it runs. */
const CHAIN = {
  name: "chain",
  chain: [
    { name: "first", body: "(job, cb) => cb(null, job.params.n)" },
    { name: "long", body: "(job, cb) => sleep(200).then(() => cb(null, job.params.n))" },
    { name: "last", body: "(job, cb) => cb(null, job.params.n)" },
  ],
};

/** After which a request to an agent that stands still is sent to another. */
const ANSWER_MS_MAX = 20_000;

interface Host {
  readonly uuid: string;
  readonly folder: string;
  readonly kills: number;
  readonly agent: AgentProcess;
  /** What its earlier agents have logged. */
  readonly logged: string;
}

interface Fleet {
  readonly server: PostgresServer;
  readonly hosts: Host[];
  readonly random: Random;
  /** The number of each acknowledged job. */
  readonly acknowledged: Map<string, number>;
  /** Jobs whose cancel was acknowledged. */
  readonly canceled: Set<string>;
  kill(at: number): Promise<void>;
}

async function withFleet(seed: number, run: (fleet: Fleet) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    // As in use: what was acknowledged is on the disk when the server is killed.
    const server = await startPostgres(folder, ["fsync=on"]);
    const hosts: Host[] = [];
    const start = (folder: string) =>
      startAgentProcess(programOfRun(), folder, [
        ...["--host", "simulated", "--store", server.url(DATABASE, userOf(folder))],
        ...["--lease", "5", "--store-deadline", "1"],
      ]);
    try {
      await server.sql(`CREATE DATABASE ${DATABASE}`);
      await migrateSharedDatabase({ url: server.url(DATABASE), deadlineMs: 60_000 });
      for (let at = 0; at < AGENTS; at++) {
        const user = userOf(`${folder}/${at}`);
        await server.sql(`CREATE ROLE ${user} LOGIN IN ROLE owner`);
        const agent = await start(`${folder}/${at}`);
        const own = (await agent.get("/agent/v1/hosts")).body.items as JsonObject[];
        const uuid = String(own.find(({ this_host }) => this_host)?.uuid);
        hosts.push({ uuid, folder: `${folder}/${at}`, kills: 0, agent, logged: "" });
      }
      await run({
        server,
        hosts,
        random: randomOf(seed),
        acknowledged: new Map(),
        canceled: new Set(),
        async kill(at) {
          const host = hosts[at] as Host;
          await host.agent.kill();
          const logged = host.logged + host.agent.log();
          hosts[at] = { ...host, kills: host.kills + 1, logged, agent: await start(host.folder) };
        },
      });
    } finally {
      for (const { agent } of hosts) await agent.stop();
      await server.stop();
    }
  });
}

/** The user of the database that an agent comes as. */
function userOf(folder: string): string {
  return `host_${folder.at(-1)}`;
}

/** Posts a job until it is acknowledged, always with one key, and cancels some. */
async function post(fleet: Fleet, workflow: string, n: number): Promise<void> {
  const { status, text } = await ask(fleet, "/jobs", { workflow, n }, `job-${n}`);
  assertEquals(status, 201, text);
  const job = String(JSON.parse(text).uuid);
  fleet.acknowledged.set(job, n);
  if (n % CANCEL_EVERY > 0) return;
  const cancel = await ask(fleet, `/jobs/${job}/cancel`, {}, `cancel-${n}`);
  // It had ended before.
  if (cancel.status === 409) return;
  assertEquals(cancel.status, 200, cancel.text);
  fleet.canceled.add(job);
}

/** Asks any agent, again and again, until one has answered. */
async function ask(
  fleet: Fleet,
  path: string,
  body: JsonObject,
  key: string,
): Promise<{ readonly status: number; readonly text: string }> {
  return await until(`an answer to ${path}`, async () => {
    const { url } = fleet.random.pick(fleet.hosts).agent;
    const response = await fetch(url + path, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": key },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    }).catch(() => undefined);
    const text = await response?.text().catch(() => undefined);
    if (response === undefined || text === undefined) return undefined;
    if (response.status !== 503) return { status: response.status, text };
    assert(response.headers.has("retry-after"), text);
    return undefined;
  });
}

type Fault = (fleet: Fleet) => Promise<void>;

/** What happens to the database and to its connections; no agent ends. */
const OUTAGES: Readonly<Record<string, Fault>> = {
  "the server stands still": async (fleet) => {
    await fleet.server.pause();
    try {
      await until("a change to be refused", async () => {
        const answer = await fleet.random.pick(fleet.hosts).agent.post("/workflows", CHAIN);
        return answer.status === 503;
      });
    } finally {
      await fleet.server.resume();
    }
  },
  "the server crashes": async ({ server }) => {
    await server.kill();
    // Its sessions end by themselves when it is gone, and the next server waits for that.
    await until(
      "the server to start again",
      () => server.restart().then(() => true, () => false),
    );
  },
  "all sessions are ended": async ({ server }) => {
    await server.sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${DATABASE}'`,
    );
  },
  "an agent is cut off": async (fleet) => {
    const { folder, agent } = fleet.random.pick(fleet.hosts);
    const user = userOf(folder);
    const before = fleet.acknowledged.size;
    await fleet.server.sql(`ALTER ROLE ${user} NOLOGIN`);
    try {
      await fleet.server.sql(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${user}'`,
      );
      const refused = async () => (await agent.post("/workflows", CHAIN)).status === 503;
      await until("a change to be refused", refused);
      const goOn = () => fleet.acknowledged.size >= before + JOBS_BETWEEN;
      await until("the others to go on", goOn);
    } finally {
      await fleet.server.sql(`ALTER ROLE ${user} LOGIN`);
    }
  },
  "an agent stands still": async (fleet) => {
    const { uuid, agent } = fleet.random.pick(fleet.hosts);
    const others = fleet.hosts.filter((host) => host.uuid !== uuid);
    agent.signal("SIGSTOP");
    try {
      const away = "SELECT count(*) FROM hosts WHERE uuid = '" + uuid +
        "' AND seen_at::timestamptz < now() - interval '6 s'";
      await until("its lease to end", async () => await fleet.server.sql(away, DATABASE) === "1");
      for (const other of others) assertEquals((await other.agent.get("/ping")).status, 200);
    } finally {
      agent.signal("SIGCONT");
    }
  },
};

const KILLS: Readonly<Record<string, Fault>> = {
  ...OUTAGES,
  "an agent is killed": (fleet) => fleet.kill(fleet.random.integer(0, AGENTS - 1)),
  "an agent is killed while the server stands still": async (fleet) => {
    await fleet.server.pause();
    const killed = fleet.kill(fleet.random.integer(0, AGENTS - 1));
    await fleet.server.resume();
    await killed;
  },
};

/** Posts all along, does one thing after the other, and checks everything that was acknowledged. */
async function chaos(fleet: Fleet, faults: Readonly<Record<string, Fault>>): Promise<void> {
  const [first] = fleet.hosts;
  const workflow = String((await first?.agent.post("/workflows", CHAIN))?.body.uuid);
  let next = 1;
  let posting = true;
  const poster = async () => {
    while (posting) await post(fleet, workflow, next++);
  };
  const posters = Promise.all(Array.from({ length: POSTERS }, poster));
  try {
    // Each at least once, in any order, as far as the rounds go.
    const names = Array.from({ length: ROUNDS }).flatMap(() =>
      fleet.random.shuffled(Object.keys(faults))
    );
    for (const name of names.slice(0, Math.max(ROUNDS, Object.keys(faults).length))) {
      const before = fleet.acknowledged.size;
      await faults[name]?.(fleet);
      await until(
        `jobs to be acknowledged after: ${name}`,
        () => fleet.acknowledged.size >= before + JOBS_BETWEEN,
      );
    }
  } finally {
    posting = false;
    await posters;
  }
  await check(fleet, next - 1);
}

async function check(
  { hosts, acknowledged, canceled, server }: Fleet,
  posted: number,
): Promise<void> {
  assertEquals(acknowledged.size, posted, "a key made two jobs, or a job is missing");
  const bound = await server.sql("SELECT uuid || ' ' || host FROM jobs", DATABASE);
  const hostOf = new Map(bound.split("\n").map((line) => line.split(" ") as [string, string]));
  assertEquals(hostOf.size, posted, "a refused post has left a job");
  for (const [job, n] of acknowledged) {
    const host = hosts.find(({ uuid }) => uuid === hostOf.get(job));
    assert(host !== undefined, `job ${job} has no host`);
    const end = canceled.has(job) ? "canceled" : "success";
    const { chain_results } = await host.agent.job(job, end);
    const results = chain_results as JsonObject[];
    const ended = end === "success" ? CHAIN.chain : CHAIN.chain.slice(0, results.length);
    assertEquals(
      results.map(({ name, result }) => ({ name, result })),
      ended.map(({ name }) => ({ name, result: n })),
    );
    for (const { name, attempts } of results) {
      const most = 1 + host.kills;
      assert(Number(attempts) <= most, `task ${name} of job ${job} was run ${attempts} times`);
    }
    for (const other of hosts) {
      const said = `"job finished","job_uuid":"${job}"`;
      const elsewhere = other !== host && (other.logged + other.agent.log()).includes(said);
      assert(!elsewhere, `job ${job} of host ${host.uuid} was run by ${other.uuid}`);
    }
  }
}

const SEED = Number(Deno.env.get("ZONEWRIGHT_CHAOS_SEED") ?? Date.now() % 1_000_000);

postgresTest(
  `outages of the database lose no job and repeat no task (seed ${SEED})`,
  () => withFleet(SEED, (fleet) => chaos(fleet, OUTAGES)),
);

postgresTest(
  `kills of agents lose no job and leave one result for each task (seed ${SEED})`,
  () => withFleet(SEED, (fleet) => chaos(fleet, KILLS)),
);
