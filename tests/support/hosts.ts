// Two hosts, gz01 and gz02, with an agent each on one database, on a server of their own.

import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { SharedDatabase } from "../../src/store/postgres/connection.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import {
  type AgentProcess,
  type Program,
  programOfRun,
  runProgram,
  startAgentProcess,
} from "./agent_process.ts";
import { type PostgresServer, startPostgres } from "./postgres.ts";
import { until, withFolder } from "./until.ts";

const DATABASE = "fleet";
/** Seconds. */
const LEASE = "5";
/** A workflow whose only task sleeps for ten minutes. */
export const SLEEPS = {
  name: "sleeps",
  chain: [{ body: "(job, cb) => sleep(600000).then(() => cb())" }],
};

interface Hosts {
  readonly one: AgentProcess;
  readonly other: AgentProcess;
  readonly server: PostgresServer;
  /** The address of the database. */
  readonly url: string;
  /** Sessions for what a test asks and holds, since each call of `server.sql` starts a program. */
  readonly db: SharedDatabase;
  /** Starts the agent of a host, in the state folder that it had. @param program another one than that of the run */
  start(name: string, program?: Program): Promise<AgentProcess>;
}

/** @param flags further ones of the agent of a host, which keeps its port */
export async function withHosts(
  run: (hosts: Hosts) => Promise<void>,
  flags: (name: string, port: number) => readonly string[] = () => [],
): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder);
    const started = new Set<AgentProcess>();
    const ports = new Map<string, number>();
    const url = server.url(DATABASE);
    const owner = { url, deadlineMs: 60_000 };
    const db = new SharedDatabase(owner);
    try {
      await server.sql(`CREATE DATABASE ${DATABASE}`);
      await migrateSharedDatabase(owner);
      const start = async (name: string, program = programOfRun()) => {
        const host = ["--host", `simulated:${name}`, "--lease", LEASE];
        const agent = await startAtPort({
          program,
          stateDir: `${folder}/${name}`,
          port: ports.get(name),
          flags: (port) => [...host, "--store", url, ...flags(name, port)],
        });
        ports.set(name, Number(new URL(agent.url).port));
        started.add(agent);
        return agent;
      };
      const [one, other] = [await start("gz01"), await start("gz02")];
      await run({ one, other, server, url, db, start });
    } finally {
      await db.close();
      for (const agent of started) {
        const answers = await agent.get("/healthz").then(() => true, () => false);
        await (answers ? agent.stop() : agent.kill());
      }
      await server.stop();
    }
  });
}

/** Starts that are tried: the port that was free may have been taken meanwhile. */
const STARTS_MAX = 5;

interface AtPort {
  /** By default that of the run. */
  readonly program?: Program;
  readonly stateDir: string;
  /** By default a free one. */
  readonly port: number | undefined;
  readonly flags: (port: number) => readonly string[];
}

/** Starts an agent at a port that its flags may name. */
export async function startAtPort(
  { program = programOfRun(), stateDir, port: known, flags }: AtPort,
): Promise<AgentProcess> {
  for (let tries = 1;; tries++) {
    const port = known ?? freePort();
    const listen = ["--listen", `127.0.0.1:${port}`];
    try {
      return await startAgentProcess(program, stateDir, [...listen, ...flags(port)]);
    } catch (error) {
      if (tries === STARTS_MAX || !String(error).includes("Cannot listen on")) throw error;
    }
  }
}

function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  listener.close();
  return listener.addr.port;
}

/** A command that asks an agent. */
export function cli({ url }: AgentProcess, ...words: string[]): ReturnType<typeof runProgram> {
  return runProgram(programOfRun(), [...words, "--url", url]);
}

/** A host as an agent shows it. */
export async function hostAt(agent: AgentProcess, name: string): Promise<JsonObject> {
  const { body } = await agent.get("/agent/v1/hosts");
  const hosts = Array.isArray(body.items) ? body.items : [];
  return hosts.filter(isJsonObject).find((host) => host.name === name) ?? {};
}

/** Waits until a host is in a state, as an agent sees it. */
export async function untilHost(agent: AgentProcess, name: string, state: string): Promise<void> {
  await until(`${name} to be ${state}`, async () => (await hostAt(agent, name)).state === state);
}

/** Makes a job with a target, and waits until it is where it should be. */
export async function newJob(
  agent: AgentProcess,
  target: string,
  execution: string,
  definition: JsonObject = SLEEPS,
): Promise<string> {
  const workflow = String((await agent.post("/workflows", definition)).body.uuid);
  const { body } = await agent.post("/jobs", { workflow, target });
  await agent.job(String(body.uuid), execution);
  return String(body.uuid);
}
