// What `make bench-jobs` prints: the job engine of the compiled binary beside its peers, measured in
// turns in one run, as ratios. README.md tells what each figure means.

import { join } from "@std/path";
import { measureAll, measureBacklog, startAgent, startBare } from "./agent_rounds.ts";
import { BINARY } from "./agent_under_test.ts";
import { BARE, OURS, type Rounds, verdicts } from "./aims.ts";
import { measureExecuted, type Metrics, type Sizes, warmUp } from "./http_rounds.ts";
import { LoadGenerator } from "./load_generator.ts";
import { figure, spread } from "./numbers.ts";
import { PEERS } from "./peer_list.ts";
import { runHttpPeer, runInProcess } from "./peer_rounds.ts";
import { PeerStage, type PreparedPeer } from "./peers.ts";
import { OthersWatch } from "./process_use.ts";
import { aimLines, contestantLines, ratioLines, storeLines } from "./report.ts";
import { withFolder, withRunFolder } from "./run_folder.ts";
import { measureStores, type StoreResults, type StoreSizes } from "./store_rounds.ts";

const USAGE = "usage: bench/jobs.ts [--quick] [--peers all|none|NAME,...] [--slots N] [--json]";

interface Options {
  readonly quick: boolean;
  /** Names as in `PEERS`. */
  readonly peers: readonly string[];
  /** Jobs that the agent runs at the same time; its own default when undefined. */
  readonly slots: number | undefined;
  readonly json: boolean;
}

const SLOTS_MAX = 1024;

/** @throws {Error} telling what is wrong */
function parseOptions(args: readonly string[]): Options {
  let [quick, json] = [false, false];
  let peers: readonly string[] | undefined;
  let slots: number | undefined;
  const rest = [...args];
  for (let option = rest.shift(); option !== undefined; option = rest.shift()) {
    if (option === "--quick") quick = true;
    else if (option === "--json") json = true;
    else if (option === "--peers") peers = parsePeers(rest.shift());
    else if (option === "--slots") slots = parseSlots(rest.shift());
    else throw new Error(`unknown option ${option}`);
  }
  return { quick, json, slots, peers: peers ?? parsePeers(quick ? "plainjob" : "all") };
}

function parsePeers(value: string | undefined): string[] {
  const known = [...new Set(PEERS.map(({ option }) => option))];
  if (value === "all") return known;
  if (value === "none") return [];
  if (value === undefined || value === "") throw new Error("--peers wants all, none or names");
  const names = value.split(",");
  for (const name of names) {
    if (known.includes(name)) continue;
    throw new Error(`--peers does not know "${name}", expected all, none or ${known.join(", ")}`);
  }
  return names;
}

function parseSlots(value: string | undefined): number {
  const slots = /^\d+$/.test(value ?? "") ? Number(value) : NaN;
  if (slots >= 1 && slots <= SLOTS_MAX) return slots;
  throw new Error(`--slots wants a number from 1 to ${SLOTS_MAX}`);
}

const ROUNDS = 3;
/** Above this share of the machine, the load of others is reported. */
const OTHERS_PERCENT = 10;
const CEILING_REQUESTS = 20_000;

const FULL_SIZES: Sizes = {
  warmUp: 500,
  singles: 300,
  posts: new Map([[1, 1_000], [32, 5_000], [128, 5_000]]),
};
const QUICK_SIZES: Sizes = {
  warmUp: 200,
  singles: 100,
  posts: new Map([[1, 300], [32, 1_500], [128, 1_000]]),
};

const FULL_STORES: StoreSizes = {
  finishedJobs: 1_000_000,
  delayedJobs: 10_000,
  rounds: 20,
  starts: 5,
  round: { warmUp: 1_000, singles: 30, posts: new Map([[1, 100], [32, 600]]) },
};
const QUICK_STORES: StoreSizes = {
  finishedJobs: 100_000,
  delayedJobs: 10_000,
  rounds: 8,
  starts: 3,
  round: { warmUp: 500, singles: 20, posts: new Map([[1, 60], [32, 400]]) },
};

interface Results {
  /** What the load generator reaches when nothing is done for a request. */
  readonly ceilingPerSecond: number;
  readonly rounds: Rounds;
  readonly stores: StoreResults;
  /** Peers that were asked for and could not be measured, each with the reason. */
  readonly skipped: ReadonlyMap<string, string>;
}

function progress(words: string): void {
  console.error(`bench: ${words}`);
}

/** Installs and starts what the chosen peers need; who cannot is skipped by name. */
async function preparePeers(stage: PeerStage, names: readonly string[]) {
  const prepared: PreparedPeer[] = [];
  const skipped = new Map<string, string>();
  for (const peer of PEERS.filter(({ option }) => names.includes(option))) {
    try {
      prepared.push(await stage.prepare(peer));
    } catch (error) {
      const reason = error instanceof Error ? error.message : `${error}`;
      skipped.set(peer.name, reason);
      progress(`skipped ${peer.name}: ${reason}`);
    }
  }
  return { prepared, skipped };
}

async function measureCeiling(load: LoadGenerator): Promise<number> {
  const server = await startBare();
  try {
    await warmUp(server, load, CEILING_REQUESTS);
    const { accepted_32 } = await measureExecuted(server, load, 32, CEILING_REQUESTS);
    return accepted_32 ?? NaN;
  } finally {
    await server.stop();
  }
}

async function agentRound(
  folder: string,
  binary: string,
  flags: readonly string[],
  load: LoadGenerator,
  sizes: Sizes,
): Promise<Metrics> {
  const agent = await startAgent(folder, binary, flags);
  try {
    const metrics = await measureAll(agent, load, sizes);
    return { ...metrics, ...await measureBacklog(agent, load, sizes, metrics) };
  } finally {
    await agent.stop();
  }
}

async function bareRound(folder: string, load: LoadGenerator, sizes: Sizes): Promise<Metrics> {
  const server = await startBare(folder);
  try {
    return await measureAll(server, load, sizes);
  } finally {
    await server.stop();
  }
}

async function peerRound(
  prepared: PreparedPeer,
  folder: string,
  load: LoadGenerator,
): Promise<Metrics> {
  const { peer } = prepared;
  return peer.kind === "over HTTP"
    ? await runHttpPeer(prepared, peer.sizes, load)
    : await runInProcess(prepared, peer.sizes, folder);
}

/** Measures in a folder of its own, and how busy others were meanwhile. */
async function watched(
  folder: string,
  round: (folder: string) => Promise<Metrics>,
): Promise<Metrics> {
  const others = new OthersWatch();
  const metrics = await withFolder(folder, round);
  return { ...metrics, others_busy_percent: others.busyPercent };
}

/** Every contestant once in each round. A peer that fails is skipped from then on. */
async function measureRounds(
  folder: string,
  ours: (folder: string) => Promise<Metrics>,
  load: LoadGenerator,
  sizes: Sizes,
  peers: readonly PreparedPeer[],
  skipped: Map<string, string>,
): Promise<Rounds> {
  const rounds = new Map<string, Metrics[]>([[OURS, []], [BARE, []]]);
  for (let round = 1; round <= ROUNDS; round++) {
    progress(`round ${round} of ${ROUNDS}: ${OURS}`);
    rounds.get(OURS)?.push(await watched(folder, ours));
    progress(`round ${round} of ${ROUNDS}: ${BARE}`);
    rounds.get(BARE)?.push(await watched(folder, (each) => bareRound(each, load, sizes)));
    for (const prepared of peers) {
      const { name } = prepared.peer;
      if (skipped.has(name)) continue;
      progress(`round ${round} of ${ROUNDS}: ${name}`);
      try {
        const metrics = await watched(folder, (each) => peerRound(prepared, each, load));
        rounds.set(name, [...(rounds.get(name) ?? []), metrics]);
      } catch (error) {
        const reason = error instanceof Error ? error.message : `${error}`;
        skipped.set(name, reason);
        rounds.delete(name);
        progress(`skipped ${name}: ${reason}`);
      }
    }
  }
  return rounds;
}

async function measure(folder: string, options: Options): Promise<Results> {
  // A copy, so that a build meanwhile does not change what is measured.
  const binary = join(folder, "zonewright");
  await Deno.copyFile(BINARY, binary);
  const flags = options.slots === undefined ? [] : ["--slots", `${options.slots}`];
  const sizes = options.quick ? QUICK_SIZES : FULL_SIZES;
  const load = new LoadGenerator();
  const stage = new PeerStage(folder);
  try {
    const { prepared, skipped } = await preparePeers(stage, options.peers);
    const ceilingPerSecond = await measureCeiling(load);
    const ours = (each: string) => agentRound(each, binary, flags, load, sizes);
    const rounds = await measureRounds(folder, ours, load, sizes, prepared, skipped);
    const storeSizes = options.quick ? QUICK_STORES : FULL_STORES;
    progress("what a full store costs");
    const stores = await withFolder(
      folder,
      (each) => measureStores(each, binary, flags, load, storeSizes),
    );
    return { ceilingPerSecond, rounds, stores, skipped };
  } finally {
    await stage.stop();
    await load.close();
  }
}

function aboutOf(name: string, { slots }: Options): string {
  if (name === OURS) {
    const running = slots === undefined ? "default slots" : `--slots ${slots}`;
    return `the compiled binary over HTTP, durable, every task sandboxed; ${running}`;
  }
  if (name === BARE) return "group commit into SQLite behind HTTP, nothing validated or isolated";
  return PEERS.find((peer) => peer.name === name)?.about ?? name;
}

/** A warning when something else was at work: the measurements are of that too, then. */
function othersLines(rounds: Rounds): string[] {
  const shares = [...rounds.values()].flat().flatMap((each) => each.others_busy_percent ?? []);
  const { median, max } = spread(shares);
  if (max < OTHERS_PERCENT) return [];
  return [
    `others used ${figure(median)} % of this machine in the median round and ${figure(max)} % ` +
    "in the worst: repeat this when it is quiet",
  ];
}

function printTables(results: Results, options: Options): void {
  const { finishedJobs, delayedJobs } = options.quick ? QUICK_STORES : FULL_STORES;
  const { rounds, stores, skipped, ceilingPerSecond } = results;
  const lines = [
    `${ROUNDS} rounds in turns, ${navigator.hardwareConcurrency} processors`,
    `the load generator reaches ${figure(ceilingPerSecond)} requests/s at 32 connections`,
    ...othersLines(rounds),
    "",
    ...[...rounds].flatMap(([name, each]) => contestantLines(name, aboutOf(name, options), each)),
    ...ratioLines(rounds),
    ...storeLines(stores, finishedJobs, delayedJobs),
    ...aimLines(rounds),
    ...[...skipped].map(([name, reason]) => `skipped ${name}: ${reason}`),
  ];
  console.log(lines.join("\n").trimEnd());
}

function printJson(results: Results, options: Options): void {
  const { rounds, skipped } = results;
  console.log(JSON.stringify({
    options,
    processors: navigator.hardwareConcurrency,
    ...results,
    rounds: Object.fromEntries(rounds),
    skipped: Object.fromEntries(skipped),
    aims: verdicts(rounds),
  }));
}

async function main(): Promise<number> {
  let options: Options;
  try {
    options = parseOptions(Deno.args);
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : error}\n${USAGE}`);
    return 2;
  }
  const results = await withRunFolder((folder) => measure(folder, options));
  if (options.json) printJson(results, options);
  else printTables(results, options);
  return 0;
}

Deno.exit(await main());
