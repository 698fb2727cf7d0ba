// One round of zonewright, or of the bare server that stands for what the machine can do.

import { fromFileUrl, join } from "@std/path";
import { INDEX, startAgentUnderTest } from "./agent_under_test.ts";
import { type Contestant, postWorkflows } from "./contestant.ts";
import {
  measureDelayed,
  measureDrained,
  measureExecuted,
  measureMemory,
  measureSingles,
  type Metrics,
  type Sizes,
  warmUp,
} from "./http_rounds.ts";
import type { LoadGenerator } from "./load_generator.ts";

const BARE = fromFileUrl(new URL("bare.ts", import.meta.url));
/** Connections whose rate says how long posting takes. */
const DRAIN_CONNECTIONS = 32;

export interface StartedAgent extends Contestant {
  /** From the start of the process to its word that it listens. */
  readonly listeningMs: number;
}

/** An agent with the two workflows that the measurements post jobs of. */
export async function startAgent(
  folder: string,
  binary: string,
  flags: readonly string[],
): Promise<StartedAgent> {
  const agent = await startAgentUnderTest(folder, ["--index", INDEX, ...flags], binary);
  try {
    const workflows = await postWorkflows(agent.url);
    const { url, pid, listeningMs, stop } = agent;
    return { url, watchUrl: url, waits: true, pid, listeningMs, stop, ...workflows };
  } catch (error) {
    await agent.stop();
    throw error;
  }
}

/** The bare server over a new file in the folder, or over none. */
export async function startBare(folder?: string): Promise<Contestant> {
  const file = folder === undefined ? "none" : join(folder, "bare.db");
  const access = folder === undefined ? [] : [`--allow-read=${folder}`, `--allow-write=${folder}`];
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--cached-only", "--allow-net=127.0.0.1", ...access, BARE, file],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const { value } = await reader.read();
  if (value === undefined) throw new Error("The bare server ended before it listened");
  const url = value.trim();
  const workflow = crypto.randomUUID();
  return {
    url,
    watchUrl: url,
    waits: true,
    pid: process.pid,
    noop: { workflow },
    noting: { workflow },
    stop: async () => {
      process.kill("SIGTERM");
      await process.status;
      await reader.cancel();
    },
  };
}

/** Every figure of a contestant that takes POST /jobs and GET /jobs/:job_uuid/wait. */
export async function measureAll(
  contestant: Contestant,
  load: LoadGenerator,
  sizes: Sizes,
): Promise<Metrics> {
  await warmUp(contestant, load, sizes.warmUp);
  let metrics = await measureSingles(contestant, load, sizes.singles);
  for (const [connections, jobs] of sizes.posts) {
    metrics = { ...metrics, ...await measureExecuted(contestant, load, connections, jobs) };
  }
  const memory = measureMemory(contestant);
  for (const [connections, jobs] of sizes.posts) {
    metrics = { ...metrics, ...await measureDelayed(contestant, load, connections, jobs) };
  }
  return { ...metrics, ...memory };
}

/** How fast jobs that are due at the same instant are worked off. */
export async function measureBacklog(
  contestant: Contestant,
  load: LoadGenerator,
  sizes: Sizes,
  metrics: Metrics,
): Promise<Metrics> {
  const jobs = sizes.posts.get(DRAIN_CONNECTIONS) ?? 0;
  const perSecond = metrics[`delayed_${DRAIN_CONNECTIONS}`] ?? jobs;
  return await measureDrained(contestant, load, jobs, perSecond);
}

/** The measurements that a full store must not spoil. */
export async function measureKey(
  contestant: Contestant,
  load: LoadGenerator,
  sizes: Sizes,
): Promise<Metrics> {
  return {
    ...await measureSingles(contestant, load, sizes.singles),
    ...await measureExecuted(contestant, load, 1, sizes.posts.get(1) ?? 0),
    ...await measureExecuted(contestant, load, 32, sizes.posts.get(32) ?? 0),
  };
}
