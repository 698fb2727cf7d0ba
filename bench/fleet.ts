// What `make bench-fleet` prints: agents that share a PostgreSQL server beside graphile-worker on the same server,
// in turns in one run. README.md tells what each figure means.

import { join } from "@std/path";
import { startAgent, type StartedAgent } from "./agent_rounds.ts";
import { BINARY } from "./agent_under_test.ts";
import { ratiosOf, type Rounds } from "./aims.ts";
import type { Watcher } from "./contestant.ts";
import {
  measureIdle,
  openPsql,
  stopNotices,
  stopStatistics,
  watchDatabase,
} from "./fleet_costs.ts";
import { measureSingles, type Metrics, warmUp } from "./http_rounds.ts";
import { LoadGenerator } from "./load_generator.ts";
import { figure, spread, spreadText, tableLines } from "./numbers.ts";
import { installPackages, nodeFor } from "./peer_install.ts";
import { PEERS } from "./peer_list.ts";
import { runInProcess } from "./peer_rounds.ts";
import { newDatabase, type Service, serviceCpuMs, startPostgres } from "./peer_services.ts";
import type { PreparedPeer } from "./peers.ts";
import { OthersWatch } from "./process_use.ts";
import { contestantLines } from "./report.ts";
import { withFolder, withRunFolder } from "./run_folder.ts";

const PEER = "graphile-worker";
const ONE = "one agent";
const FOUR = "four agents";
const HELD = "one agent, a snapshot held";
const UNCOUNTED = "one agent, without statistics";
const UNHEARD = "one agent, without notifications";
const FLEET = 4;
/** Requests in flight, over all agents. */
const CONNECTIONS = 32;
const ROUNDS = 5;
const DRAIN_SECONDS = 300;
const MS_PER_SECOND = 1000;
const DAY_MS = 24 * 60 * 60 * MS_PER_SECOND;
/** Time to post the jobs that become due together, over what the same number has just taken, and at least. */
const PRELOAD_MARGIN = 2;
const PRELOAD_MS_MIN = 1_000;

interface FleetSizes {
  readonly warmUp: number;
  readonly singles: number;
  readonly posts: number;
  /** How long jobs are posted and worked off while the snapshot is held, before it is measured. */
  readonly heldSeconds: number;
}

const FULL: FleetSizes = { warmUp: 500, singles: 200, posts: 4_000, heldSeconds: 120 };
const QUICK: FleetSizes = { warmUp: 100, singles: 60, posts: 800, heldSeconds: 10 };

function progress(words: string): void {
  console.error(`bench: ${words}`);
}

/** graphile-worker on the server of the run. @throws {Error} telling why it cannot be measured */
async function preparePeer(service: Service): Promise<PreparedPeer> {
  const peer = PEERS.find(({ name }) => name === PEER);
  if (peer === undefined) throw new Error("it is not among the peers");
  const node = await nodeFor(peer.nodeMinimum);
  const packagesFolder = await installPackages(peer.option, peer.packages);
  return { peer, node, packagesFolder, service };
}

interface BenchStore {
  /** With which agents use it. */
  readonly flags: readonly string[];
  /** As the owner of the server reaches it. */
  readonly address: string;
}

/** Makes a database with its tables. */
async function openStore(folder: string, binary: string, service: Service): Promise<BenchStore> {
  const owned = await newDatabase(service);
  const address = new URL(owned);
  const passwordFile = join(folder, "password");
  await Deno.writeTextFile(passwordFile, address.password, { mode: 0o600 });
  address.password = "";
  const flags = ["--store", address.href, "--store-password-file", passwordFile];
  const { success, stderr } = await new Deno.Command(binary, { args: ["db", "migrate", ...flags] })
    .output();
  if (!success) throw new Error(`Cannot make the tables: ${new TextDecoder().decode(stderr)}`);
  return { flags, address: owned };
}

async function startFleet(
  folder: string,
  binary: string,
  flags: readonly string[],
  agents: number,
): Promise<StartedAgent[]> {
  const started: StartedAgent[] = [];
  try {
    for (let host = 1; host <= agents; host++) {
      const own = join(folder, `host${host}`);
      await Deno.mkdir(own, { mode: 0o755 });
      started.push(
        await startAgent(own, binary, [...flags, "--host", `simulated:gz${host}`]),
      );
    }
    return started;
  } catch (error) {
    await stopAll(started);
    throw error;
  }
}

async function stopAll(agents: readonly StartedAgent[]): Promise<void> {
  await Promise.all(agents.map((agent) => agent.stop()));
}

/** Agents, each with the load generator that posts to it. */
type Fleet = readonly (readonly [agent: StartedAgent, load: LoadGenerator])[];

interface Posted {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Posts the jobs to all agents alike, each with a key; the slowest part says what the whole took. */
async function post(fleet: Fleet, jobs: number, more: object = {}): Promise<Posted> {
  const began = performance.now();
  const share = { connections: CONNECTIONS / fleet.length, requests: jobs / fleet.length };
  const parts = await Promise.all(
    fleet.map(([{ url, noop }, load]) =>
      load.burst({ url, body: { ...noop, ...more }, keyed: true, ...share })
    ),
  );
  return {
    perSecond: jobs / ((performance.now() - began) / MS_PER_SECOND),
    p50Ms: spread(parts.map(({ p50_ms }) => p50_ms)).median,
    p99Ms: Math.max(...parts.map(({ p99_ms }) => p99_ms)),
  };
}

function dueAt(ms: number) {
  return { exec_after: new Date(ms).toISOString() };
}

/** Accepting while nothing runs, accepting while all runs, and working off what fell due at one instant. */
async function measureFleet(
  fleet: Fleet,
  watcher: Watcher,
  service: Service,
  jobs: number,
): Promise<Metrics> {
  const accepted = await post(fleet, jobs, dueAt(Date.now() + DAY_MS));
  const delayed = await watcher.unfinished();
  const databaseMs = serviceCpuMs(service);
  const began = performance.now();
  const executed = await post(fleet, jobs);
  await watcher.until(delayed, DRAIN_SECONDS);
  const seconds = (performance.now() - began) / MS_PER_SECOND;
  const service_cpu_ms = (serviceCpuMs(service) - databaseMs) / jobs;
  const expectedMs = jobs / accepted.perSecond * MS_PER_SECOND;
  const dueMs = Date.now() + PRELOAD_MS_MIN + PRELOAD_MARGIN * expectedMs;
  await post(fleet, jobs, dueAt(dueMs));
  if (Date.now() >= dueMs) throw new Error(`${jobs} jobs could not be posted before they were due`);
  await new Promise((resolve) => setTimeout(resolve, dueMs - Date.now()));
  await watcher.until(delayed, DRAIN_SECONDS);
  return {
    delayed_32: accepted.perSecond,
    delayed_32_p50_ms: accepted.p50Ms,
    delayed_32_p99_ms: accepted.p99Ms,
    accepted_32: executed.perSecond,
    accepted_32_p50_ms: executed.p50Ms,
    accepted_32_p99_ms: executed.p99Ms,
    finished_32: jobs / seconds,
    drained: jobs / ((Date.now() - dueMs) / MS_PER_SECOND),
    service_cpu_ms,
  };
}

/** A reader whose snapshot keeps every row version since, as a dump does. @returns what ends it */
async function holdSnapshot(address: string): Promise<() => Promise<void>> {
  const reader = openPsql(address);
  await reader.ask("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs");
  return reader.close;
}

/** Posts and works off jobs for so long. */
async function churn(fleet: Fleet, watcher: Watcher, { posts, heldSeconds }: FleetSizes) {
  const end = performance.now() + heldSeconds * MS_PER_SECOND;
  while (performance.now() < end) {
    await post(fleet, posts);
    await watcher.until(0, DRAIN_SECONDS);
  }
}

interface Run {
  readonly binary: string;
  readonly service: Service;
  readonly loads: readonly LoadGenerator[];
  readonly sizes: FleetSizes;
}

async function fleetRound(
  { binary, service, loads, sizes }: Run,
  folder: string,
  name: string,
): Promise<Metrics> {
  const { flags, address } = await openStore(folder, binary, service);
  const psql = openPsql(address);
  if (name === UNHEARD) await stopNotices(psql);
  const agents = await startFleet(folder, binary, flags, name === FOUR ? FLEET : 1);
  const fleet = agents.flatMap((agent, at): Fleet => {
    const load = loads[at];
    return load === undefined ? [] : [[agent, load]];
  });
  try {
    const [[first, load] = []] = fleet;
    if (first === undefined || load === undefined) throw new Error("No agent was started");
    for (const [agent, own] of fleet) await warmUp(agent, own, sizes.warmUp);
    // Of every contestant, so that what is measured next begins alike: after them a job costs the server a tenth more.
    const measured = await measureSingles(first, load, sizes.singles);
    const singles = name === ONE ? measured : {};
    if (name === UNCOUNTED) await stopStatistics(psql);
    const watcher = watchDatabase(address);
    const release = name === HELD ? await holdSnapshot(address) : undefined;
    try {
      if (release !== undefined) await churn(fleet, watcher, sizes);
      return { ...singles, ...await measureFleet(fleet, watcher, service, sizes.posts) };
    } finally {
      await release?.();
      watcher.close();
    }
  } finally {
    await stopAll(agents);
    await psql.close();
  }
}

/** Every contestant once in each round; each other round goes the other way. One that fails is skipped from then on. */
async function measureRounds(
  folder: string,
  run: Run,
  peer: PreparedPeer | undefined,
  skipped: Map<string, string>,
): Promise<Rounds> {
  const rounds = new Map<string, Metrics[]>();
  const names = [ONE, ...(peer === undefined ? [] : [PEER]), FOUR, HELD, UNCOUNTED, UNHEARD];
  for (let round = 1; round <= ROUNDS; round++) {
    for (const name of round % 2 === 1 ? names : names.toReversed()) {
      if (skipped.has(name)) continue;
      progress(`round ${round} of ${ROUNDS}: ${name}`);
      const others = new OthersWatch();
      try {
        const metrics = await withFolder(
          folder,
          (each) =>
            name === PEER && peer?.peer.kind === "in process"
              ? runInProcess(peer, peer.peer.sizes, each)
              : fleetRound(run, each, name),
        );
        const others_busy_percent = others.busyPercent;
        rounds.set(name, [...(rounds.get(name) ?? []), { ...metrics, others_busy_percent }]);
      } catch (error) {
        // Ratios pair the rounds of two contestants: one that lacks a round has none.
        rounds.delete(name);
        skipped.set(name, error instanceof Error ? error.message : `${error}`);
        progress(`skipped ${name}: ${skipped.get(name)}`);
      }
    }
  }
  return rounds;
}

interface Compared {
  readonly words: string;
  readonly ours: readonly [contestant: string, figure: string];
  readonly theirs: readonly [contestant: string, figure: string];
  readonly wanted: string;
}

const COMPARED: readonly Compared[] = [
  {
    words: "accepted/s with key, 32 in flight / addJob, 32 in flight",
    ours: [ONE, "delayed_32"],
    theirs: [PEER, "accepted_32"],
    wanted: "at least 5",
  },
  {
    words: "no-op jobs/s, preloaded, one agent / graphile-worker",
    ours: [ONE, "drained"],
    theirs: [PEER, "drained"],
    wanted: "at least 0.6",
  },
  {
    words: "no-op jobs/s, preloaded, four agents / one",
    ours: [FOUR, "drained"],
    theirs: [ONE, "drained"],
    wanted: "at least 1",
  },
  {
    words: "accepted to body begun, p50 / graphile-worker",
    ours: [ONE, "pickup_p50_ms"],
    theirs: [PEER, "pickup_p50_ms"],
    wanted: "at most 1.5",
  },
  {
    words: "accepted to body begun, p99 / graphile-worker",
    ours: [ONE, "pickup_p99_ms"],
    theirs: [PEER, "pickup_p99_ms"],
    wanted: "at most 1.5",
  },
  {
    words: "accepted/s with a snapshot held / without",
    ours: [HELD, "delayed_32"],
    theirs: [ONE, "delayed_32"],
    wanted: "at least 0.5",
  },
  {
    words: "no-op jobs/s with a snapshot held / without",
    ours: [HELD, "drained"],
    theirs: [ONE, "drained"],
    wanted: "at least 0.5",
  },
  ...([["statistics", UNCOUNTED, 0.8, 1.2], ["notifications", UNHEARD, 0.9, 1.1]] as const)
    .flatMap(([part, without, least, most]): Compared[] => [
      {
        words: `no-op jobs/s with ${part} / without`,
        ours: [ONE, "drained"],
        theirs: [without, "drained"],
        wanted: `at least ${least}`,
      },
      {
        words: `CPU of the database a job with ${part} / without`,
        ours: [ONE, "service_cpu_ms"],
        theirs: [without, "service_cpu_ms"],
        wanted: `at most ${most}`,
      },
    ]),
];

function ratioRows(rounds: Rounds): string[][] {
  return COMPARED.flatMap(({ words, ours, theirs, wanted }) => {
    const [our, their] = [rounds.get(ours[0]) ?? [], rounds.get(theirs[0]) ?? []];
    const values = ratiosOf(our, ours[1], their, theirs[1]);
    return values.length === 0 ? [] : [[words, spreadText(spread(values)), wanted]];
  });
}

function aboutOf(name: string): string {
  return PEERS.find((peer) => peer.name === name)?.about ??
    "the compiled binary over HTTP, every request with a key, every task sandboxed";
}

async function measure(folder: string, sizes: FleetSizes): Promise<string[]> {
  // A copy, so that a build meanwhile does not change what is measured.
  const binary = join(folder, "zonewright");
  await Deno.copyFile(BINARY, binary);
  const service = await startPostgres(folder);
  const loads = Array.from({ length: FLEET }, () => new LoadGenerator());
  try {
    const skipped = new Map<string, string>();
    const peer = await preparePeer(service).catch((error: Error) => {
      skipped.set(PEER, error.message);
    });
    const run = { binary, service, loads, sizes };
    const rounds = await measureRounds(folder, run, peer ?? undefined, skipped);
    progress("agents without work");
    const idle = await measureIdle(
      folder,
      async (own, service) => (await openStore(own, binary, service)).address,
    );
    const busy = spread(
      [...rounds.values()].flat().flatMap((one) => one.others_busy_percent ?? []),
    );
    return [
      `${ROUNDS} rounds in turns, ${navigator.hardwareConcurrency} processors, ${service.version}`,
      `others used ${figure(busy.median)} % of this machine in the median round, ` +
      `${figure(busy.max)} % in the worst`,
      `the snapshot was held for ${sizes.heldSeconds} s of jobs before it was measured`,
      "",
      ...[...rounds].flatMap(([name, each]) => contestantLines(name, aboutOf(name), each)),
      ...tableLines([["", "min / median / max", "aim"], ...ratioRows(rounds)]),
      `${idle.agents} idle agents, by ${idle.stores} stores in one process: ` +
      `${figure(idle.server)} % of a processor for the server, aim 10, ` +
      `${figure(idle.clients)} % for all of these agents`,
      ...[...skipped].map(([name, reason]) => `skipped ${name}: ${reason}`),
    ];
  } finally {
    await Promise.all(loads.map((load) => load.close()));
    await service.stop();
  }
}

const [word, ...others] = Deno.args;
if ((word !== undefined && word !== "--quick") || others.length > 0) {
  console.error(`bench, expected --quick or nothing, found "${Deno.args.join(" ")}"`);
  Deno.exit(2);
}
const sizes = word === undefined ? FULL : QUICK;
console.log((await withRunFolder((folder) => measure(folder, sizes))).join("\n"));
