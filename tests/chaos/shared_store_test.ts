// Three agents on one database that is taken away, crashed and cut off from them while jobs are posted to all. A model
// holds what was acknowledged: every such job ends on the host that accepted it, with one result for each of its
// tasks, and a canceled one stays canceled. No task starts again because of the database; where agents are killed,
// each kill may repeat one.

import { assertEquals } from "@std/assert";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { type PostgresServer, postgresTest, startPostgres } from "../support/postgres.ts";
import { openServerRelay, type ServerRelay } from "../support/server_relay.ts";
import { until, withFolder } from "../support/until.ts";
import { length } from "./agent_under_chaos.ts";
import { CHAIN, FleetBook, type FleetHost, hostOf } from "./fleet_book.ts";
import { type Random, randomOf } from "./random.ts";

const DATABASE = "fleet";
const AGENTS = 3;
const ROUNDS = length({ quick: 4, full: 40 });
/** Posts that are under way at the same time. */
const POSTERS = 4;
/** Jobs that are acknowledged between two faults. */
const JOBS_BETWEEN = 12;
const LEASE_SECONDS = 5;
/** The longest time for which an agent or a session of the server is stopped. */
const STANDSTILL_SECONDS_MAX = length({ quick: 2, full: 40 });
/** In what is sent when an answer is lost: the end of a task, its result, the start of a write, and a commit. */
const LOST_ANSWERS = ["succeeded", "finished_at", "READ WRITE", "COMMIT\0"];

interface Host extends FleetHost {
  readonly folder: string;
  /** Between its agent and the server. */
  readonly relay: ServerRelay;
}

interface Fleet {
  readonly server: PostgresServer;
  readonly hosts: Host[];
  readonly random: Random;
  readonly book: FleetBook;
  kill(at: number): Promise<void>;
}

async function withFleet(seed: number, run: (fleet: Fleet) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    // As in use: what was acknowledged is on the disk when the server is killed.
    const server = await startPostgres(folder, ["fsync=on"]);
    const hosts: Host[] = [];
    const relays: ServerRelay[] = [];
    const start = (folder: string, relay: ServerRelay) =>
      startAgentProcess(programOfRun(), folder, [
        ...["--host", "simulated", "--store", relay.url(DATABASE, userOf(folder))],
        ...["--lease", `${LEASE_SECONDS}`, "--store-deadline", "1"],
      ]);
    try {
      await server.sql(`CREATE DATABASE ${DATABASE}`);
      await migrateSharedDatabase({ url: server.url(DATABASE), deadlineMs: 60_000 });
      for (let at = 0; at < AGENTS; at++) {
        const state = `${folder}/${at}`;
        await server.sql(`CREATE ROLE ${userOf(state)} LOGIN IN ROLE owner`);
        await Deno.mkdir(`${folder}/relay_${at}`);
        const relay = openServerRelay(`${folder}/relay_${at}`, server.folder);
        relays.push(relay);
        const agent = await start(state, relay);
        const begun = { folder: state, relay, agent, kills: 0, logged: "" };
        hosts.push({ ...begun, uuid: await hostOf(agent) });
      }
      const random = randomOf(seed);
      await run({
        server,
        hosts,
        random,
        book: new FleetBook(random, () => hosts),
        async kill(at) {
          const host = hosts[at] as Host;
          await host.agent.kill();
          const logged = host.logged + host.agent.log();
          const agent = await start(host.folder, host.relay);
          hosts[at] = { ...host, kills: host.kills + 1, logged, agent };
        },
      });
    } finally {
      for (const { agent } of hosts) await agent.stop();
      for (const relay of relays) relay.close();
      await server.stop();
    }
  });
}

/** The user of the database that an agent comes as. */
function userOf(folder: string): string {
  return `host_${folder.at(-1)}`;
}

/** The process of a session that an agent has with the server. */
async function backendOf({ server, random }: Fleet): Promise<number> {
  return await until("a session of an agent", async () => {
    const pids = await server.sql(
      `SELECT pid FROM pg_stat_activity WHERE usename LIKE 'host\\_%' AND query NOT LIKE 'LISTEN%'`,
    );
    return pids === "" ? undefined : Number(random.pick(pids.split("\n")));
  });
}

/** Stops something for a while. @param stop returns what lets it go on */
async function standStill(
  fleet: Fleet,
  stop: () => Promise<() => void>,
): Promise<void> {
  const seconds = fleet.random.integer(1, STANDSTILL_SECONDS_MAX);
  const goOn = await stop();
  try {
    // The database's own clock says when it is over, by a session that nothing stops.
    await fleet.server.sql(`SELECT pg_sleep(${seconds})`);
  } finally {
    goOn();
  }
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
    await fleet.server.sql(`ALTER ROLE ${user} NOLOGIN`);
    try {
      await fleet.server.sql(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${user}'`,
      );
      const refused = async () => (await agent.post("/workflows", CHAIN)).status === 503;
      await until("a change to be refused", refused);
      await fleet.book.more(JOBS_BETWEEN, "the others go on");
    } finally {
      await fleet.server.sql(`ALTER ROLE ${user} LOGIN`);
    }
  },
  "an agent stands still": async (fleet) => {
    const { uuid, agent } = fleet.random.pick(fleet.hosts);
    const others = fleet.hosts.filter((host) => host.uuid !== uuid);
    agent.signal("SIGSTOP");
    try {
      // Its last sign stays where it is, and the database's own clock says when the lease is over.
      const left = "extract(epoch FROM seen_at::timestamptz + interval '6 s' - now())";
      await fleet.server.sql(
        `SELECT pg_sleep(${left}) FROM hosts WHERE uuid = '${uuid}'`,
        DATABASE,
      );
      for (const other of others) assertEquals((await other.agent.get("/ping")).status, 200);
    } finally {
      agent.signal("SIGCONT");
    }
  },
  "an agent stands still for a while": (fleet) =>
    standStill(fleet, () => {
      const { agent } = fleet.random.pick(fleet.hosts);
      agent.signal("SIGSTOP");
      return Promise.resolve(() => agent.signal("SIGCONT"));
    }),

  "a session of the server stands still": (fleet) =>
    standStill(fleet, async () => {
      const pid = await backendOf(fleet);
      Deno.kill(pid, "SIGSTOP");
      return () => Deno.kill(pid, "SIGCONT");
    }),
  "a session of the server is killed": async (fleet) => {
    // The server ends all of them, and recovers.
    Deno.kill(await backendOf(fleet), "SIGKILL");
    const answers = () => fleet.server.sql("SELECT 1").then(() => true, () => false);
    await until("the server to recover", answers);
  },
  "answers are lost": async (fleet) => {
    for (const text of LOST_ANSWERS) await fleet.random.pick(fleet.hosts).relay.loseAnswer(text);
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
  const end = fleet.book.postAll(workflow, POSTERS);
  try {
    // Each at least once, in any order, as far as the rounds go.
    const names = Array.from({ length: ROUNDS }).flatMap(() =>
      fleet.random.shuffled(Object.keys(faults))
    );
    for (const name of names.slice(0, Math.max(ROUNDS, Object.keys(faults).length))) {
      await faults[name]?.(fleet);
      await fleet.book.more(JOBS_BETWEEN, name);
    }
  } finally {
    await end();
  }
  await fleet.book.check(fleet.hosts, (text) => fleet.server.sql(text, DATABASE));
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
