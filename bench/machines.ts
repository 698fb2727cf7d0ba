// What `make bench-machines` prints: how much the agent adds to the making of a machine, and how fast
// it places a medium, beside `cp`. README.md tells what each figure means.

import { join } from "@std/path";
import { BINARY } from "./agent_under_test.ts";
import {
  type MachineAgent,
  type MadeMachine,
  makeMachine,
  removeMachine,
  startMachineAgent,
} from "./machine_agent.ts";
import { figure, quantile, spread, spreadText, tableLines } from "./numbers.ts";
import { OthersWatch, ownCpuMs } from "./process_use.ts";
import { withFolder, withRunFolder } from "./run_folder.ts";

const ROUNDS = 5;
/** Machines at one time. */
const MACHINES = 10;
/** Small, so that copying it is nothing beside a step. */
const SMALL_BYTES = 64 * 1024;
const MIB = 1_048_576;
const LARGE_BYTES = 512 * MIB;
const OVERHEAD_MS_AIM = 20;
const PLACEMENT_AIM = 0.8;

/** The agent's own milliseconds of every step, by task. */
type Overheads = Map<string, number[]>;

function progress(words: string): void {
  console.error(words);
}

interface Crowd {
  readonly overheads: Overheads;
  /** Processor time of the agent's own process, without guests and vmadm, milliseconds a step. */
  readonly cpuMs: number;
}

async function tenAtOnce(folder: string, rounds: number): Promise<Crowd> {
  const overheads: Overheads = new Map();
  let [cpuMs, steps] = [0, 0];
  await withMedium(folder, SMALL_BYTES, async (agent) => {
    // The first round is not counted: programs are read from the disk, guests are started.
    for (let round = 0; round <= rounds; round += 1) {
      const before = ownCpuMs(agent.pid);
      const machines = await Promise.all(
        Array.from({ length: MACHINES }, () => makeMachine(agent)),
      );
      if (round > 0) {
        cpuMs += ownCpuMs(agent.pid) - before;
        steps += machines.reduce((sum, made) => sum + made.steps.length, 0);
        for (const made of machines) addOverheads(overheads, made);
      }
      for (const { uuid } of machines) await removeMachine(agent, uuid);
    }
  });
  return { overheads, cpuMs: cpuMs / steps };
}

async function oneByOne(folder: string, rounds: number): Promise<Overheads> {
  const overheads: Overheads = new Map();
  await withMedium(folder, SMALL_BYTES, async (agent) => {
    for (let round = 0; round <= rounds; round += 1) {
      const made = await makeMachine(agent);
      if (round > 0) addOverheads(overheads, made);
      await removeMachine(agent, made.uuid);
    }
  });
  return overheads;
}

function addOverheads(overheads: Overheads, { steps }: MadeMachine): void {
  for (const { task, ms, vmadmMs } of steps) {
    overheads.set(task, [...overheads.get(task) ?? [], ms - vmadmMs]);
  }
}

/** Milliseconds of the placement and of `cp` with and without waiting for the disk, by round. */
async function placements(folder: string, rounds: number) {
  const found: { placeMs: number; cpMs: number; cpSyncMs: number }[] = [];
  await withMedium(folder, LARGE_BYTES, async (agent) => {
    for (let round = 0; round <= rounds; round += 1) {
      const made = await makeMachine(agent);
      const step = made.steps.find(({ task }) => task === "place_medium");
      if (step === undefined) throw new Error("No medium was placed");
      await removeMachine(agent, made.uuid);
      const copy = join(agent.folder, "copy");
      const cpMs = await timed("/bin/cp", [agent.medium, copy]);
      await Deno.remove(copy);
      const words = [`if=${agent.medium}`, `of=${copy}`, "bs=1M", "conv=fsync", "status=none"];
      const cpSyncMs = await timed("/bin/dd", words);
      await Deno.remove(copy);
      if (round > 0) found.push({ placeMs: step.ms - step.vmadmMs, cpMs, cpSyncMs });
    }
  });
  return found;
}

async function timed(program: string, args: readonly string[]): Promise<number> {
  const began = performance.now();
  const { success } = await new Deno.Command(program, { args: [...args] }).output();
  if (!success) throw new Error(`${program} failed`);
  return performance.now() - began;
}

/** Runs with an agent whose media folder holds one medium of this size. */
async function withMedium(
  parent: string,
  bytes: number,
  run: (agent: MachineAgent) => Promise<void>,
): Promise<void> {
  await withFolder(parent, async (folder) => {
    const media = join(folder, "media");
    await Deno.mkdir(media);
    const medium = join(media, "install.iso");
    const file = await Deno.open(medium, { create: true, write: true });
    const chunk = crypto.getRandomValues(new Uint8Array(64 * 1024));
    for (let at = 0; at < bytes; at += chunk.length) await file.write(chunk);
    file.close();
    const agent = await startMachineAgent(folder, medium, MACHINES);
    try {
      await run(agent);
    } finally {
      await agent.stop();
    }
  });
}

function overheadLines(title: string, overheads: Overheads): string[] {
  const row = (name: string, values: readonly number[]) => [
    name,
    figure(quantile(values, 0.5)),
    figure(quantile(values, 0.95)),
    String(values.length),
  ];
  const rows = [...overheads].map(([task, values]) => row(task, values));
  return tableLines([
    [title, "p50 ms", "p95 ms", "steps"],
    ...rows,
    row("all steps", [...overheads.values()].flat()),
  ]);
}

async function main(): Promise<void> {
  const rounds = Deno.args.includes("--quick") ? 2 : ROUNDS;
  await withRunFolder(async (folder) => {
    progress("one machine at a time");
    const others = new OthersWatch();
    const alone = await oneByOne(folder, rounds * 2);
    progress(`${MACHINES} machines at once`);
    const crowded = await tenAtOnce(folder, rounds);
    progress(`placing ${LARGE_BYTES / MIB} MiB`);
    const placed = await placements(folder, rounds);
    const all = [...crowded.overheads.values()].flat();
    const ratio = (of: (it: typeof placed[number]) => number) => spread(placed.map(of));
    const toCp = ratio(({ placeMs, cpMs }) => cpMs / placeMs);
    const speed = ratio(({ placeMs }) => LARGE_BYTES / MIB / (placeMs / 1000));
    const p50 = quantile(all, 0.5);
    console.log([
      `${BINARY}, ${navigator.hardwareConcurrency} processors, others used ` +
      `${figure(others.busyPercent)} % of them`,
      "",
      ...overheadLines("own time of a step, one machine", alone),
      "",
      ...overheadLines(`own time of a step, ${MACHINES} machines at once`, crowded.overheads),
      `processor time of the agent a step: ${figure(crowded.cpuMs)} ms`,
      "",
      ...tableLines([
        ["placement", "min / median / max"],
        ["MiB a second", spreadText(speed)],
        ["of cp", spreadText(toCp)],
        ["of dd conv=fsync", spreadText(ratio(({ placeMs, cpSyncMs }) => cpSyncMs / placeMs))],
      ]),
      "",
      `own time p50 below ${OVERHEAD_MS_AIM} ms: ${p50 < OVERHEAD_MS_AIM ? "met" : "missed"}, ` +
      `p95: ${quantile(all, 0.95) < OVERHEAD_MS_AIM ? "met" : "missed"}`,
      `placement at ${PLACEMENT_AIM} of cp: ${toCp.median >= PLACEMENT_AIM ? "met" : "missed"}`,
    ].join("\n"));
  });
}

await main();
