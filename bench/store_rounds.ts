// What a full store costs: the same measurements of agents that differ only in what their store holds,
// taken in many short turns, so that what else happens on the machine falls on all of them alike.

import { join } from "@std/path";
import { measureKey, startAgent, type StartedAgent } from "./agent_rounds.ts";
import { type Contestant, Watcher } from "./contestant.ts";
import { fillWithFinishedJobs } from "./fill.ts";
import { type Metrics, type Sizes, warmUp } from "./http_rounds.ts";
import type { LoadGenerator } from "./load_generator.ts";
import { OthersWatch } from "./process_use.ts";

export interface StoreSizes {
  readonly finishedJobs: number;
  readonly delayedJobs: number;
  readonly rounds: number;
  readonly starts: number;
  readonly round: Sizes;
}

/**
 * `finished` keeps what it has; `removing` has as many and may keep no more, so that every job
 * that ends puts out an older one.
 */
export const STORES = ["empty", "finished", "removing", "delayed"] as const;
export type StoreName = typeof STORES[number];

export interface StoreResults {
  readonly rounds: Readonly<Record<StoreName, readonly Metrics[]>>;
  /** Start to listening, milliseconds, one for each start. */
  readonly listeningMs: Readonly<Record<"empty" | "finished", readonly number[]>>;
}

const DATABASE = "state/zonewright.db";
const DELAY_MS = 24 * 60 * 60 * 1000;
const DELAYED_CONNECTIONS = 32;
/** By then a job that does nothing has ended. */
const FIRST_JOB_SECONDS = 10;

export async function measureStores(
  folder: string,
  binary: string,
  flags: readonly string[],
  load: LoadGenerator,
  sizes: StoreSizes,
): Promise<StoreResults> {
  const start = (name: StoreName) => {
    // Elsewhere far more than a run adds, so that nothing is removed.
    const most = name === "removing" ? sizes.finishedJobs : 2 * sizes.finishedJobs;
    return startAgent(join(folder, name), binary, [...flags, "--finished-jobs-max", `${most}`]);
  };
  for (const name of STORES) await Deno.mkdir(join(folder, name));
  await runOneJob(await start("finished"), load);
  console.error(`bench: filling a store with ${sizes.finishedJobs} finished jobs`);
  fillWithFinishedJobs(join(folder, "finished", DATABASE), sizes.finishedJobs);
  await (await start("removing")).stop();
  await Deno.copyFile(join(folder, "finished", DATABASE), join(folder, "removing", DATABASE));
  await (await start("empty")).stop();
  const listeningMs = await measureStarts(start, sizes.starts);

  const agents = new Map<StoreName, Contestant>();
  try {
    for (const name of STORES) agents.set(name, await start(name));
    const delayed = agents.get("delayed");
    if (delayed !== undefined) await postDelayed(delayed, load, sizes.delayedJobs);
    for (const agent of agents.values()) await warmUp(agent, load, sizes.round.warmUp);
    return { rounds: await measureTurns(agents, load, sizes), listeningMs };
  } finally {
    for (const agent of agents.values()) await agent.stop();
  }
}

/** The key measurements of each agent in many short turns. */
async function measureTurns(
  agents: ReadonlyMap<StoreName, Contestant>,
  load: LoadGenerator,
  sizes: StoreSizes,
): Promise<StoreResults["rounds"]> {
  const rounds: Record<StoreName, Metrics[]> = {
    empty: [],
    finished: [],
    removing: [],
    delayed: [],
  };
  for (let round = 0; round < sizes.rounds; round++) {
    for (const [name, agent] of turned([...agents], round)) {
      const others = new OthersWatch();
      const metrics = await measureKey(agent, load, sizes.round);
      rounds[name].push({ ...metrics, others_busy_percent: others.busyPercent });
    }
  }
  return rounds;
}

/** The same in another order each round, so that none is always first. */
function turned<T>(items: readonly T[], round: number): T[] {
  const first = round % items.length;
  return [...items.slice(first), ...items.slice(0, first)];
}

/** Runs one job and stops the agent. */
async function runOneJob(agent: Contestant, load: LoadGenerator): Promise<void> {
  try {
    const watcher = await Watcher.open(agent);
    await load.burst({ url: agent.url, body: agent.noop, connections: 1, requests: 1 });
    await watcher.until(0, FIRST_JOB_SECONDS);
    watcher.close();
  } finally {
    await agent.stop();
  }
}

async function postDelayed(
  { url, noop }: Contestant,
  load: LoadGenerator,
  requests: number,
): Promise<void> {
  const body = { ...noop, exec_after: new Date(Date.now() + DELAY_MS).toISOString() };
  await load.burst({ url, body, connections: DELAYED_CONNECTIONS, requests });
}

/** Starts on the empty store and on the full one, in turns. */
async function measureStarts(
  start: (name: StoreName) => Promise<StartedAgent>,
  starts: number,
): Promise<StoreResults["listeningMs"]> {
  const listeningMs = { empty: [] as number[], finished: [] as number[] };
  for (let number = 0; number < starts; number++) {
    for (const name of ["empty", "finished"] as const) {
      const agent = await start(name);
      listeningMs[name].push(agent.listeningMs);
      await agent.stop();
    }
  }
  return listeningMs;
}
