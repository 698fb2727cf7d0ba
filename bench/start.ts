// What an agent costs before anybody asks it for anything: start to listening, size, and the processor
// and memory of one that idles, with its guests. Compiled, and from source.

import { fromFileUrl, join } from "@std/path";
import { selfCommand } from "../src/runtime/executable.ts";
import { BINARY, descendants, INDEX, residentMiB } from "./agent_under_test.ts";
import { figure, quantile, tableLines } from "./numbers.ts";
import { childrenCpuMs, OthersWatch, ownCpuMs, privateMiB } from "./process_use.ts";

const STARTS = 20;
const QUICK_STARTS = 5;
const IDLE_SECONDS = 10;
const QUICK_IDLE_SECONDS = 3;
/** Guests warm up, the index is synced and the heap settles before the idling is measured. */
const SETTLE_SECONDS = 3;
const DEADLINE_MS = 60_000;

interface Program {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

interface Started {
  readonly pid: number;
  /** From the start of the process to its word that it listens, milliseconds. */
  readonly listeningMs: number;
  stop(): Promise<void>;
}

const pauseSeconds = (seconds: number) =>
  new Promise((resolve) => setTimeout(resolve, seconds * 1000));

async function start({ program, args, env }: Program, stateDir: string): Promise<Started> {
  const began = performance.now();
  const words = ["serve", "--dev", "--listen", "127.0.0.1:0", "--state-dir", stateDir];
  const process = new Deno.Command(program, {
    args: [...args, ...words, "--index", INDEX, "--log-format", "json"],
    env: { ...env },
    clearEnv: true,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const lines = process.stderr.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes('"agent started"')) {
    const { value, done } = await lines.read();
    if (done) throw new Error(`The agent ended before it listened:\n${text}`);
    text += value;
  }
  const listeningMs = performance.now() - began;
  const drained = (async () => {
    while (!(await lines.read()).done);
  })();
  const stop = async () => {
    process.kill("SIGTERM");
    await process.status;
    await drained;
  };
  return { pid: process.pid, listeningMs, stop };
}

async function withFolder<T>(run: (folder: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "zonewright-bench-" });
  try {
    return await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Starts on one state folder, which the first start fills; that one is not counted. */
async function startTimes(program: Program, starts: number): Promise<number[]> {
  return await withFolder(async (folder) => {
    const times: number[] = [];
    for (let round = 0; round <= starts; round++) {
      const agent = await start(program, join(folder, "state"));
      await agent.stop();
      if (round > 0) times.push(agent.listeningMs);
    }
    return times;
  });
}

interface Idle {
  readonly agentCpuMs: number;
  readonly guestsCpuMs: number;
  readonly agentMiB: number;
  readonly agentPrivateMiB: number;
  readonly guestsMiB: readonly number[];
  readonly guestsPrivateMiB: readonly number[];
}

async function idleUse(program: Program, seconds: number): Promise<Idle> {
  return await withFolder(async (folder) => {
    const agent = await start(program, join(folder, "state"));
    try {
      await firstGuest(agent.pid);
      await pauseSeconds(SETTLE_SECONDS);
      const guests = guestsOf(agent.pid);
      const before = [ownCpuMs(agent.pid), childrenCpuMs(agent.pid)] as const;
      await pauseSeconds(seconds);
      return {
        agentCpuMs: (ownCpuMs(agent.pid) - before[0]) / seconds,
        guestsCpuMs: (childrenCpuMs(agent.pid) - before[1]) / seconds,
        agentMiB: residentMiB(agent.pid),
        agentPrivateMiB: privateMiB(agent.pid),
        guestsMiB: guests.map(residentMiB),
        guestsPrivateMiB: guests.map(privateMiB),
      };
    } finally {
      await agent.stop();
    }
  });
}

async function firstGuest(pid: number): Promise<void> {
  const end = performance.now() + DEADLINE_MS;
  while (guestsOf(pid).length === 0) {
    if (performance.now() > end) throw new Error(`Found no guest in ${DEADLINE_MS / 1000} seconds`);
    await pauseSeconds(0.05);
  }
}

/** The processes that run tasks: what stands around them is only their start. */
function guestsOf(pid: number): number[] {
  return descendants(pid).filter(isGuest);
}

function isGuest(pid: number): boolean {
  try {
    const words = Deno.readTextFileSync(`/proc/${pid}/cmdline`).split("\0");
    // Whatever sets its limits has the same words behind its own.
    return /\/(?:zonewright|deno)$/.test(words[0] ?? "") && words.includes("guest");
  } catch {
    return false; // It ended while we looked.
  }
}

async function measure(program: Program, quick: boolean): Promise<string[]> {
  const times = await startTimes(program, quick ? QUICK_STARTS : STARTS);
  const idle = await idleUse(program, quick ? QUICK_IDLE_SECONDS : IDLE_SECONDS);
  const median = (values: readonly number[]) => figure(quantile(values, 0.5));
  return [
    program.name,
    figure(quantile(times, 0.5)),
    figure(quantile(times, 0.99)),
    `${figure(idle.agentCpuMs)} + ${figure(idle.guestsCpuMs)}`,
    `${figure(idle.agentMiB)} (${figure(idle.agentPrivateMiB)})`,
    `${median(idle.guestsMiB)} (${median(idle.guestsPrivateMiB)})`,
  ];
}

const quick = Deno.args.includes("--quick");
const others = new OthersWatch();
const compiled: Program = { name: "compiled", program: BINARY, args: [], env: {} };
const rows = [
  await measure(compiled, quick),
  await measure({ name: "from source", ...selfCommand() }, quick),
];
const head = [
  "",
  "start p50, ms",
  "p99, ms",
  "idle CPU, ms/s (agent + guests)",
  "agent, MiB (private)",
  "a guest, MiB (private)",
];
console.log(tableLines([head, ...rows]).join("\n"));
const { size } = await Deno.stat(BINARY);
const bundle = fromFileUrl(new URL("../dist/bundle", import.meta.url));
let scripts = 0;
for await (const { name } of Deno.readDir(bundle)) {
  scripts += (await Deno.stat(join(bundle, name))).size;
}
console.log(`\nbinary ${figure(size / 1e6)} MB, of it bundle ${figure(scripts / 1e3)} kB`);
console.log(`others used ${figure(others.busyPercent)} % of the machine`);
