// `make fleet`: three agents with simulated hosts on one PostgreSQL database, to try what an operator of many hosts
// does. Everything is in a temporary folder; after Ctrl-C nothing is left of it.

import {
  type AgentProcess,
  programOfRun,
  runProgram,
  startAgentProcess,
} from "./support/agent_process.ts";
import { postgresFolder, type PostgresServer, startPostgres } from "./support/postgres.ts";
import { withFolder } from "./support/until.ts";

const DATABASE = "fleet";
const HOSTS = ["gz01", "gz02", "gz03"];
/** Short, so that a host that was killed is soon away. */
const LEASE_SECONDS = 10;
/** Where the first agent listens, and the others behind it, unless that is taken. */
const FIRST_PORT = 8780;
/** A job that runs for a while. */
const NAP = {
  name: "nap",
  chain: [{ name: "sleep", body: "(job, cb) => sleep(60000).then(() => cb(null, 'rested'))" }],
};

/** Settles with the signal that ends the fleet. */
function interrupted(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  // They stay: a second Ctrl-C must not end this process before its children.
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, resolve);
  return promise;
}

/** The address of the database for agents, which may use its tables and no more. */
async function openDatabase(server: PostgresServer): Promise<string> {
  await server.sql("CREATE ROLE agent LOGIN");
  await server.sql(`CREATE DATABASE ${DATABASE}`);
  const flags = ["db", "migrate", "--store", server.url(DATABASE), "--agent-role", "agent"];
  const { code, stderr } = await runProgram(programOfRun(), flags);
  if (code !== 0) throw new Error(`Cannot make the tables: ${stderr}`);
  return server.url(DATABASE, "agent");
}

/** Starts the agent of a host; the first one where people look for it. One on another port is not called by the others. */
async function startHost(name: string, folder: string, store: string): Promise<AgentProcess> {
  const settings = { host: `simulated:${name}`, store, lease: String(LEASE_SECONDS) };
  const flags = [
    "--dev",
    ...Object.entries(settings).flatMap(([key, value]) => [`--${key}`, value]),
  ];
  const start = (...more: string[]) =>
    startAgentProcess(programOfRun(), `${folder}/${name}`, [...flags, ...more], {}, {
      detached: true,
    });
  const place = `127.0.0.1:${FIRST_PORT + HOSTS.indexOf(name)}`;
  return await start("--listen", place, "--address", `http://${place}`).catch(() => start());
}

/** What to look at and to try. */
async function tour(agents: readonly AgentProcess[]): Promise<string> {
  const pids = await Promise.all(
    agents.map(async (agent) => Number((await agent.get("/agent/v1/host")).body.pid)),
  );
  const program = programOfRun().name === "binary" ? "dist/zonewright" : "zonewright";
  const [first, second] = agents.map(({ url }) => url);
  const at = (url: string | undefined, ...words: string[]) =>
    [program, ...words, "--url", url].join(" ");
  return `
Three hosts share one database: ${HOSTS.join(", ")}. The console of all: ${first}/ui
Try, in another terminal:
  ${at(first, "host", "list")}
  ${at(second, "job", "run", "nap")}     # a minute of work for gz02
  ${at(first, "host", "drain", "gz02")}  # waits for it; then: host uncordon gz02
  kill -9 ${pids[2]}                     # gz03 is away after ${LEASE_SECONDS} s
  ${at(first, "host", "forget", "gz03")}

Ctrl-C ends all of it.
`;
}

/** Ends an agent, if nobody has, and the machines of one that was killed. */
async function endHost(agent: AgentProcess): Promise<void> {
  const answers = await agent.get("/healthz").then(() => true, () => false);
  await (answers ? agent.stop() : agent.kill());
  await agent.simulate("stop-all");
}

async function runFleet(folder: string, ended: Promise<void>): Promise<void> {
  const server = await startPostgres(folder, undefined, undefined, { detached: true });
  const agents: AgentProcess[] = [];
  try {
    const store = await openDatabase(server);
    for (const name of HOSTS) agents.push(await startHost(name, folder, store));
    await agents[0]?.post("/workflows", NAP);
    console.log(await tour(agents));
    await ended;
  } finally {
    await Promise.all(agents.map(endHost));
    await server.stop();
  }
}

if (import.meta.main) {
  if (postgresFolder() === undefined) {
    console.error(
      "Cannot start the fleet: PostgreSQL is not installed, expected /usr/lib/postgresql/VERSION/bin,\n" +
        "as the package postgresql of Debian has it",
    );
    Deno.exit(1);
  }
  const ended = interrupted();
  await withFolder((folder) => runFleet(folder, ended));
  console.log("The agents, their machines and the database have ended.");
  Deno.exit(0);
}
