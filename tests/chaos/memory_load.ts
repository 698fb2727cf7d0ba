// One load on one fresh agent, the compiled binary over loopback: whether it lives, how long it was silent,
// and how much memory it has taken at the most.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { binaryProgram, programNamed } from "../support/agent_process.ts";
import { until, withDeadline, withFolder } from "../support/until.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { type ChaosAgent, endAgent, length, startChaosAgent } from "./agent_under_chaos.ts";
import { peakMiB } from "./memory.ts";
import type { Watched } from "./stats_watch.ts";

/** With this variable set to `all`, a missing binary fails its tests. */
const REQUIRE_VARIABLE = "ZONEWRIGHT_TEST_REQUIRE";
/** Resident memory that the agent may have under any load, without its guests and decoders, MiB. */
const PEAK_MIB_MAX = 400;
/** Milliseconds in which `GET /stats` is answered under any load. */
const SILENCE_MS_MAX = 1_000;
/** Milliseconds between two looks at the peak, which the system keeps meanwhile. */
const PEAK_LOOK_MS = 250;
/** How much slower a machine may be whose processors other tests share. */
const SHARED_MACHINE = length({ quick: 10, full: 2 });

/** How an agent is started for a load, and what it may come to. */
export interface LoadOptions {
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Whether the load itself ends the agent. */
  readonly ends?: boolean;
  /** Makes what the agent finds at its start. @returns further flags */
  readonly prepare?: (folder: string) => Promise<readonly string[]>;
}

/** What a load works with. */
export interface Load {
  readonly agent: ChaosAgent;
  /** A folder of this load's own, with the agent's `state` in it. */
  readonly folder: string;
}

/** Registers a load. Without the binary it is skipped, and its name says so. */
export function loadTest(
  name: string,
  run: (load: Load) => Promise<void>,
  options: LoadOptions = {},
): void {
  Deno.test({
    name: `${name} [needs dist/zonewright]`,
    ignore: binaryProgram() === undefined && Deno.env.get(REQUIRE_VARIABLE) !== "all",
    fn: () => withFolder((folder) => underLoad(name, folder, options, run)),
  });
}

async function underLoad(
  name: string,
  folder: string,
  { flags = [], env = {}, ends = false, prepare = () => Promise.resolve([]) }: LoadOptions,
  run: (load: Load) => Promise<void>,
): Promise<void> {
  const program = programNamed("binary");
  const all = [...flags, ...await prepare(folder)];
  const stateDir = join(folder, "state");
  const agent = await startChaosAgent({ program, stateDir, flags: all, env });
  try {
    const watch = await watchStats(agent);
    const peaks = watchPeak(agent.pid);
    let failure: unknown;
    await run({ agent, folder }).catch((error) => failure = error);
    const seen = await watch.stop();
    const peak = peaks.stop();
    console.log(
      `${name}: /stats silent for ${Math.round(seen.longestMs)} ms at the longest of ` +
        `${seen.looks} looks, peak ${Math.round(peak)} MiB`,
    );
    if (!ends) assert(isAlive(agent.pid), `the agent has ended:\n${agent.log().slice(-2_000)}`);
    if (failure !== undefined) throw failure;
    if (!ends) assertEquals(seen.failure, undefined);
    assert(peak <= PEAK_MIB_MAX, `the agent has taken ${Math.round(peak)} MiB`);
    const bound = SILENCE_MS_MAX * SHARED_MACHINE;
    assert(ends || seen.longestMs <= bound, `GET /stats was silent for ${seen.longestMs} ms`);
  } finally {
    await endAgent(agent);
  }
}

/** The peak of a process, which may end before it is asked for. */
function watchPeak(pid: number): { stop(): number } {
  let peak = 0;
  const look = () => {
    try {
      if (isAlive(pid)) peak = peakMiB(pid);
    } catch {
      // The process has ended meanwhile.
    }
  };
  const looking = setInterval(look, PEAK_LOOK_MS);
  return {
    stop() {
      clearInterval(looking);
      look();
      return peak;
    },
  };
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(Deno.readTextFileSync(`/proc/${pid}/status`));
  } catch {
    return false;
  }
}

/** A look that is under way when a load ends may take so long. */
const LAST_LOOK_MS_MAX = 180_000;

/** Looks at /stats on a connection of its own until it is stopped. */
async function watchStats(agent: ChaosAgent): Promise<{ stop(): Promise<Watched> }> {
  const worker = new Worker(new URL("stats_watch.ts", import.meta.url), { type: "module" });
  const ready = Promise.withResolvers<void>();
  const watched = Promise.withResolvers<Watched>();
  worker.onmessage = ({ data }: MessageEvent<Watched | "ready">) =>
    data === "ready" ? ready.resolve() : watched.resolve(data);
  worker.postMessage(agent.url);
  await Promise.race([ready.promise, watched.promise]);
  return {
    async stop() {
      worker.postMessage("stop");
      try {
        const what = () => "an answer to GET /stats";
        return await withDeadline(watched.promise, LAST_LOOK_MS_MAX, what);
      } finally {
        worker.terminate();
      }
    },
  };
}

/** Time in which there must be room for another large job, milliseconds. */
const ROOM_MS_MAX = 120_000;

/** Posts a large job, again while the agent has no room for it. @returns its uuid */
export async function makeLargeJob(
  agent: ChaosAgent,
  job: JsonObject,
): Promise<string> {
  return await until("room for a large job", async () => {
    const { status, body } = await agent.ask("POST", "/jobs", job);
    if (status === 201) return String((body as JsonObject).uuid);
    assertEquals(status, 503, JSON.stringify(body).slice(0, 300));
    return undefined;
  }, ROOM_MS_MAX);
}

/** Runs a load's calls, so many at the same time. */
export async function atOnce(count: number, call: (at: number) => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, (_, at) => call(at)));
}

/** Counts answers by their status, and holds them against what the documents allow. */
export class Answers {
  readonly #counts = new Map<number, number>();
  readonly #allowed: readonly number[];

  /** @param allowed statuses that are documented for the load */
  constructor(allowed: readonly number[]) {
    this.#allowed = allowed;
  }

  /** @throws {Error} for a status that is not allowed, or a refusal that is none of the API's */
  add(status: number, text: string): void {
    this.#counts.set(status, (this.#counts.get(status) ?? 0) + 1);
    if (!this.#allowed.includes(status)) {
      throw new Error(`Answered ${status} ${text.slice(0, 300)}`);
    }
    if (status < 400) return;
    const refusal: unknown = JSON.parse(text);
    const code = typeof refusal === "object" && refusal !== null && Reflect.get(refusal, "code");
    if (typeof code !== "string") throw new Error(`Refused by ${text.slice(0, 300)}`);
  }

  of(status: number): number {
    return this.#counts.get(status) ?? 0;
  }
}
