// What a job costs in processor time, beside the bare server or other binaries, in many short turns:
//
//   cpu.ts [BINARY...]   the binaries (dist/zonewright by itself when none is given), and the bare server
//   cpu.ts --compare     dist/zonewright alone, against the last entry of results.md; it never fails
//
// Processor time holds beside other work, where a rate does not; what the machine is worth is taken out by the
// bare server, which does the same each time.

import { fromFileUrl, join } from "@std/path";
import { startAgent, startBare } from "./agent_rounds.ts";
import { BINARY } from "./agent_under_test.ts";
import type { Contestant } from "./contestant.ts";
import {
  measureDelayed,
  measureExecuted,
  measureMemory,
  type Metrics,
  warmUp,
} from "./http_rounds.ts";
import { LoadGenerator } from "./load_generator.ts";
import { figure, tableLines } from "./numbers.ts";
import { OthersWatch } from "./process_use.ts";
import { withRunFolder } from "./run_folder.ts";

const CONNECTIONS = 32;
const WARM_UP = 500;
/** Jobs of one turn, and turns of each contestant. */
const JOBS = 400;
const ROUNDS = 8;
/** A loss that is reported. */
const LOSS_MAX = 0.15;

const BARE = "bare server";

/** Milliseconds of processor time a job; the mean of the turns of a contestant. */
interface Cost {
  readonly name: string;
  readonly accepting: number;
  readonly agent: number;
  readonly guests: number;
  /** The most that the process had resident, MiB. */
  readonly peakMib: number;
  /** What the largest guest had for itself at the end of a turn, MiB. */
  readonly guestMib: number;
}

async function turn(contestant: Contestant, load: LoadGenerator): Promise<Metrics> {
  return {
    ...await measureDelayed(contestant, load, CONNECTIONS, JOBS),
    ...await measureExecuted(contestant, load, CONNECTIONS, JOBS),
    ...measureMemory(contestant),
  };
}

function costOf(name: string, turns: readonly Metrics[]): Cost {
  // The clock of /proc has ticks of 10 ms: only many turns together say something.
  const mean = (key: string) => turns.reduce((sum, one) => sum + (one[key] ?? NaN), 0) / ROUNDS;
  return {
    name,
    accepting: mean("accept_cpu_ms"),
    agent: mean("server_cpu_ms"),
    guests: mean("tasks_cpu_ms"),
    peakMib: turns.at(-1)?.server_peak_mib ?? NaN,
    guestMib: mean("child_private_mib"),
  };
}

async function measure(binaries: readonly string[]): Promise<Cost[]> {
  const load = new LoadGenerator();
  const contestants = new Map<string, Contestant>();
  try {
    return await withRunFolder(async (folder) => {
      try {
        for (const [index, binary] of binaries.entries()) {
          const own = join(folder, `${index}`);
          await Deno.mkdir(own);
          // A build meanwhile does no harm to a copy.
          await Deno.copyFile(binary, join(own, "zonewright"));
          contestants.set(binary, await startAgent(own, join(own, "zonewright"), []));
        }
        contestants.set(BARE, await startBare(folder));
        for (const one of contestants.values()) await warmUp(one, load, WARM_UP);
        const turns = new Map<string, Metrics[]>();
        for (let round = 0; round < ROUNDS; round++) {
          for (const [name, one] of contestants) {
            turns.set(name, [...turns.get(name) ?? [], await turn(one, load)]);
          }
        }
        return Array.from(turns, ([name, each]) => costOf(name, each));
      } finally {
        for (const one of contestants.values()) await one.stop();
      }
    });
  } finally {
    await load.close();
  }
}

/** Processor time of a job as a multiple of what the bare server needs for one. */
function multiple({ agent, guests }: Cost, bare: Cost): number {
  return (agent + guests) / bare.agent;
}

function tell(costs: readonly Cost[], bare: Cost): void {
  const rows = costs.map((cost) => [
    cost.name,
    figure(cost.accepting),
    figure(cost.agent),
    figure(cost.guests),
    figure(multiple(cost, bare)),
    figure(cost.peakMib),
    figure(cost.guestMib),
  ]);
  const head = [
    "CPU, ms a job",
    "accepting",
    "agent",
    "guests",
    "of the bare server",
    "peak, MiB",
    "guest, MiB",
  ];
  console.log(tableLines([head, ...rows]).join("\n"));
}

const RESULTS = fromFileUrl(new URL("results.md", import.meta.url));
/** The heading of that table. */
const HEADING = "## Processor time a job";

interface ResultsEntry {
  readonly name: string;
  /** Processor time of a job, agent and guests, over that of the bare server. */
  readonly multiple: number;
}

/** The newest entry, which is the last row of its table. @throws {Error} when there is none */
async function latestEntry(): Promise<ResultsEntry> {
  const whole = await Deno.readTextFile(RESULTS);
  const [, after = ""] = whole.split(`${HEADING}\n`);
  const [section = ""] = after.split("\n## ");
  const rows = section.split("\n").flatMap((line) => {
    // The name stands in the first column, the multiple in the last one.
    const cells = line.split("|").slice(1, -1).map((cell) => cell.trim());
    const [name, multiple] = [cells[0] ?? "", Number(cells.at(-1))];
    return multiple > 0 ? [{ name, multiple }] : [];
  });
  const last = rows.at(-1);
  if (last === undefined) throw new Error(`Cannot compare: results.md has no row in "${HEADING}"`);
  return last;
}

/** One line: whether a job costs more than at the last entry. */
async function compare(cost: Cost, bare: Cost): Promise<void> {
  const entry = await latestEntry();
  const now = multiple(cost, bare);
  const change = now / entry.multiple - 1;
  const percent = `${change < 0 ? "" : "+"}${(change * 100).toFixed(0)} %`;
  const words = `a job costs ${figure(now)} times what the bare server needs for one, at ` +
    `${entry.name} ${figure(entry.multiple)}: ${percent}`;
  console.log(change > LOSS_MAX ? `SLOWER: ${words}` : words);
}

const comparing = Deno.args.includes("--compare");
const binaries = Deno.args.filter((word) => word !== "--compare");
const others = new OthersWatch();
const costs = await measure(binaries.length === 0 ? [BINARY] : binaries);
const [first] = costs;
const bare = costs.at(-1);
if (first === undefined || bare === undefined) throw new Error("Nothing was measured");
if (comparing) await compare(first, bare);
else tell(costs, bare);
console.log(`others used ${figure(others.busyPercent)} % of the machine`);
