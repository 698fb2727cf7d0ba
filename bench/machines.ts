// What `make bench-machines` prints: how much the agent adds to the making of a machine, and how fast
// it places a medium, beside `cp`. README.md tells what each figure means.

import { join } from "@std/path";
import { BINARY } from "./agent_under_test.ts";
import {
  type MachineAgent,
  type MadeMachine,
  makeMachine,
  startMachineAgent,
} from "./machine_agent.ts";
import { type OpenHost, openSimulatorHost, openWaitingHost } from "./machine_host.ts";
import { placeOnce, type Placing } from "./machine_placement.ts";
import { figure, quantile, spread, spreadText, tableLines } from "./numbers.ts";
import { childrenCpuMs, OthersWatch, ownCpuMs } from "./process_use.ts";
import { withFolder, withRunFolder } from "./run_folder.ts";
import { isoBytes } from "../tests/support/medium.ts";

const ROUNDS = 5;
const MACHINES = 10;
/** Small, so that copying it is nothing beside a step. */
const SMALL_BYTES = 64 * 1024;
const MIB = 1_048_576;
const LARGE_BYTES = 512 * MIB;
const OWN_MS_AIM = 20;
const PLACEMENT_AIM = 0.8;

interface Rounds {
  /** The agent's own milliseconds of every step, by task. */
  readonly ownMs: Map<string, number[]>;
  /** Processor time, milliseconds a step: of the agent's process, and of all that it has started. */
  readonly agentCpuMs: number;
  readonly startedCpuMs: number;
}

function progress(words: string): void {
  console.error(words);
}

/** Makes so many machines at once, again and again. */
async function makeMachines(
  folder: string,
  open: OpenHost,
  { machines, rounds }: { machines: number; rounds: number },
): Promise<Rounds> {
  const ownMs: Rounds["ownMs"] = new Map();
  let [agentCpuMs, startedCpuMs, steps] = [0, 0, 0];
  await withMedium(folder, { bytes: SMALL_BYTES, open }, async (agent) => {
    // The first two rounds are not counted: programs are read from the disk, guests are started.
    for (let round = -1; round <= rounds; round += 1) {
      const before = [ownCpuMs(agent.pid), childrenCpuMs(agent.pid)] as const;
      const all = await Promise.all(Array.from({ length: machines }, () => makeMachine(agent)));
      if (round > 0) {
        agentCpuMs += ownCpuMs(agent.pid) - before[0];
        startedCpuMs += childrenCpuMs(agent.pid) - before[1];
        steps += all.reduce((sum, made) => sum + made.steps.length, 0);
        for (const made of all) addSteps(ownMs, made);
      }
      for (const { uuid } of all) await agent.host.remove(uuid);
    }
  });
  return { ownMs, agentCpuMs: agentCpuMs / steps, startedCpuMs: startedCpuMs / steps };
}

function addSteps(ownMs: Rounds["ownMs"], { steps }: MadeMachine): void {
  for (const { task, ms, vmadmMs } of steps) {
    ownMs.set(task, [...ownMs.get(task) ?? [], ms - vmadmMs]);
  }
}

async function placements(folder: string, rounds: number): Promise<Placing[]> {
  const found: Placing[] = [];
  await withMedium(folder, { bytes: LARGE_BYTES, open: openWaitingHost }, async (agent) => {
    for (let round = 0; round <= rounds; round += 1) {
      const placing = await placeOnce(agent, LARGE_BYTES);
      if (round > 0) found.push(placing);
    }
  });
  return found;
}

/** Runs with an agent whose media folder holds one medium of this size. */
async function withMedium(
  parent: string,
  { bytes, open }: { bytes: number; open: OpenHost },
  run: (agent: MachineAgent) => Promise<void>,
): Promise<void> {
  await withFolder(parent, async (folder) => {
    const media = join(folder, "media");
    await Deno.mkdir(media);
    const medium = join(media, "install.iso");
    const file = await Deno.open(medium, { create: true, write: true });
    const chunk = crypto.getRandomValues(new Uint8Array(64 * 1024));
    for (let at = 0; at < bytes; at += chunk.length) {
      // The agent looks for the marks of an ISO image in the first 64 KiB.
      await file.write(at === 0 ? isoBytes(chunk.length) : chunk);
    }
    file.close();
    const host = await open(folder);
    try {
      const agent = await startMachineAgent(folder, { host, medium, slots: MACHINES });
      try {
        await run(agent);
      } finally {
        await agent.stop();
      }
    } finally {
      await host.close();
    }
  });
}

function ownLines(title: string, { ownMs, agentCpuMs, startedCpuMs }: Rounds): string[] {
  const row = (name: string, values: readonly number[]) => [
    name,
    figure(quantile(values, 0.5)),
    figure(quantile(values, 0.95)),
    String(values.length),
  ];
  const rows = [...ownMs].map(([task, values]) => row(task, values));
  return [
    ...tableLines([
      [`own time of a step, ${title}`, "p50 ms", "p95 ms", "steps"],
      ...rows,
      row("all steps", [...ownMs.values()].flat()),
    ]),
    `processor time a step: the agent ${figure(agentCpuMs)} ms, ` +
    `its guests and programs ${figure(startedCpuMs)} ms`,
    "",
  ];
}

function placementLines(placed: readonly Placing[]): string[] {
  const ratio = (of: (it: Placing) => number) => spreadText(spread(placed.map(of)));
  return tableLines([
    [`placement of ${LARGE_BYTES / MIB} MiB`, "min / median / max"],
    ["MiB a second", ratio(({ placeMs }) => LARGE_BYTES / MIB / (placeMs / 1000))],
    ["of cp", ratio(({ placeMs, cpMs }) => cpMs / placeMs)],
    ["of dd conv=fsync", ratio(({ placeMs, cpSyncMs }) => cpSyncMs / placeMs)],
    ["of hashing alone", ratio(({ placeMs, hashMs }) => hashMs / placeMs)],
    ["of the slower of dd and hashing", ratio(slowerRatio)],
    ["processor time of the agent, ms", ratio(({ cpuMs }) => cpuMs)],
  ]);
}

function slowerRatio({ placeMs, cpSyncMs, hashMs }: Placing): number {
  return Math.max(cpSyncMs, hashMs) / placeMs;
}

async function main(): Promise<void> {
  const rounds = Deno.args.includes("--quick") ? 2 : ROUNDS;
  await withRunFolder(async (folder) => {
    const others = new OthersWatch();
    progress("one machine at a time, vmadm waits");
    const alone = await makeMachines(folder, openWaitingHost, { machines: 1, rounds: rounds * 2 });
    progress(`${MACHINES} machines at once, vmadm waits`);
    const crowd = { machines: MACHINES, rounds };
    const crowded = await makeMachines(folder, openWaitingHost, crowd);
    progress(`${MACHINES} machines at once on the simulated host`);
    const simulated = await makeMachines(folder, openSimulatorHost, crowd);
    progress(`placing ${LARGE_BYTES / MIB} MiB`);
    const placed = await placements(folder, rounds);
    const all = [...crowded.ownMs.values()].flat();
    const met = (isMet: boolean) => isMet ? "met" : "missed";
    const toCp = spread(placed.map(({ placeMs, cpMs }) => cpMs / placeMs)).median;
    console.log([
      `${BINARY}, ${navigator.hardwareConcurrency} processors, others used ` +
      `${figure(others.busyPercent)} % of them`,
      "",
      ...ownLines("one machine", alone),
      ...ownLines(`${MACHINES} machines at once`, crowded),
      ...ownLines(`${MACHINES} at once, simulated host`, simulated),
      ...placementLines(placed),
      "",
      `own time p50 below ${OWN_MS_AIM} ms with ${MACHINES} machines at once: ` +
      `${met(quantile(all, 0.5) < OWN_MS_AIM)}, p95: ${met(quantile(all, 0.95) < OWN_MS_AIM)}`,
      `placement at ${PLACEMENT_AIM} of cp: ${
        met(toCp >= PLACEMENT_AIM)
      }, of the slower of dd and ` +
      `hashing: ${met(spread(placed.map(slowerRatio)).median >= PLACEMENT_AIM)}`,
    ].join("\n"));
  });
}

await main();
