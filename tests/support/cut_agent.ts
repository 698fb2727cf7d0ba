// An agent on a shared database that a test cuts off, and a second agent that is not.

import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { type AgentProcess, programOfRun, startAgentProcess } from "./agent_process.ts";
import { type PostgresServer, startPostgres } from "./postgres.ts";
import { openServerRelay, type ServerRelay } from "./server_relay.ts";
import { withFolder } from "./until.ts";

const DATABASE = "fleet";

/** The agents, and what stands between them. */
export interface CutAgent {
  readonly server: PostgresServer;
  /** Between the server and the agents that start() starts. */
  readonly relay: ServerRelay;
  /** A folder of media of all agents. */
  readonly media: string;
  /** Starts the agent of the host that may be cut off, and again after it has ended. */
  start(...flags: readonly string[]): Promise<AgentProcess>;
  /** Starts the agent of another host. */
  startOther(): Promise<AgentProcess>;
  /** The body of a task that does not end before open() is called with the same name. */
  gate(name: string): string;
  open(name: string): Promise<void>;
}

/** The body of a task that ends once a file is there. @param path in a folder of media */
export function gateOf(path: string): string {
  return `async (job, cb) => {
    const file = { path: ${JSON.stringify(path)}, any_format: true };
    while (await media.find(file).then(() => false, () => true)) await sleep(100);
    cb();
  }`;
}

/** Runs with a server of its own, and ends whatever was started. */
export async function withCutAgent(run: (cut: CutAgent) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder);
    const sockets = `${folder}/relay`;
    const media = `${folder}/media`;
    for (const made of [sockets, media]) await Deno.mkdir(made);
    const relay = openServerRelay(sockets, server.folder);
    const started = new Set<AgentProcess>();
    const start = async (name: string, url: string, flags: readonly string[]) => {
      const kept = ["--store", url, "--store-deadline", "2", "--media-dir", media];
      const all = ["--host", "simulated", ...kept, ...flags];
      const agent = await startAgentProcess(programOfRun(), `${folder}/${name}`, all);
      started.add(agent);
      return agent;
    };
    try {
      await server.sql(`CREATE DATABASE ${DATABASE}`);
      await migrateSharedDatabase({ url: server.url(DATABASE), deadlineMs: 60_000 });
      await run({
        server,
        relay,
        media,
        start: (...flags) => start("cut", relay.url(DATABASE), flags),
        startOther: () => start("other", server.url(DATABASE), []),
        gate: (name) => gateOf(`${media}/${name}`),
        open: (name) => Deno.writeTextFile(`${media}/${name}`, "open"),
      });
    } finally {
      for (const agent of started) await agent.stop();
      relay.close();
      await server.stop();
    }
  });
}
