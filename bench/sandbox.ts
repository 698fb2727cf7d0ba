// What `make bench-sandbox` prints: what the wall around tasks costs, with guests from source and
// with those of the compiled binary, measured in turns in one run. README.md tells what each figure
// means.

import { join } from "@std/path";
import { type SelfCommand, selfCommand } from "../src/runtime/executable.ts";
import { BINARY } from "./agent_under_test.ts";
import { figure, type Spread, spread, spreadText, tableLines } from "./numbers.ts";
import { withRunFolder } from "./run_folder.ts";
import {
  GUESTS,
  measureSandbox,
  type SandboxFigures,
  type SandboxSizes,
  TURNS,
} from "./sandbox_rounds.ts";

const SANDBOX_USAGE = "usage: bench/sandbox.ts [--quick] [--program source|binary|both] [--json]";

const PROGRAMS = ["source", "binary"] as const;
/** A way in which guests are run. */
type ProgramName = typeof PROGRAMS[number];

interface SandboxOptions {
  readonly quick: boolean;
  readonly programs: readonly ProgramName[];
  readonly json: boolean;
}

/** @throws {Error} telling what is wrong */
function parseSandboxOptions(args: readonly string[]): SandboxOptions {
  let [quick, json] = [false, false];
  let programs: readonly ProgramName[] = PROGRAMS;
  const rest = [...args];
  for (let option = rest.shift(); option !== undefined; option = rest.shift()) {
    if (option === "--quick") quick = true;
    else if (option === "--json") json = true;
    else if (option === "--program") programs = parsePrograms(rest.shift());
    else throw new Error(`unknown option ${option}`);
  }
  return { quick, json, programs };
}

function parsePrograms(value: string | undefined): readonly ProgramName[] {
  if (value === "both") return PROGRAMS;
  const program = PROGRAMS.find((name) => name === value);
  if (program === undefined) throw new Error(`--program wants both, ${PROGRAMS.join(" or ")}`);
  return [program];
}

const ROUNDS = 3;
const FULL: SandboxSizes = { seconds: 4, starts: 5, kills: 20, calls: 20_000, firsts: 15 };
const QUICK: SandboxSizes = { seconds: 1, starts: 3, kills: 5, calls: 3_000, firsts: 5 };
/** Above this share of the machine, the load of others is reported. */
const OTHERS_PERCENT = 10;

const FIGURES: readonly (readonly [name: string, what: string])[] = [
  ...GUESTS.flatMap((guests) =>
    [
      [`tasks_${guests}`, `no-op tasks/s, ${guests} at a time`],
      [`guest_cpu_${guests}`, `CPU of the guests, ms a task, ${guests} at a time`],
      [`agent_cpu_${guests}`, `CPU of the trusted side, ms a task, ${guests} at a time`],
    ] as const
  ),
  ["first_task_ms", "opening the pool to the end of its first task, ms"],
  ["other_spare_ms", "first task of another workflow, a spare is there, ms"],
  ["other_none_ms", "the same, none is there, ms"],
  ...TURNS.map((count) =>
    [`turns_${count}`, `no-op tasks/s, 2 at a time, ${count} workflows in turns`] as const
  ),
  ["recorded_ms", "cancel to its outcome, ms, worst of a round"],
  ["late_ms", "end of a task's time to its outcome, ms, worst of a round"],
  ["usable_ms", "cancel to the end of the slot's next task, ms, worst of a round"],
  ["calls_1", "capability calls/s, one after the other"],
  ["calls_32", "capability calls/s, 32 under way"],
  ["fresh_mib", "private memory of a guest, fresh, MiB"],
  ["worked_mib", "private memory of a guest that works, MiB"],
  ["rested_mib", "private memory after a rest, MiB"],
  ["decoder_start_ms", "opening the decoders to the end of the first piece of work, ms"],
  ["decoder_sources_ms", "the unknown sources of a workflow in a warm decoder, ms"],
  ["decoder_hash_mib", "digest of a stream in a decoder, MiB/s"],
];

/** What a median must be at least, or at most. */
const AIMS: readonly (readonly [name: string, at: "least" | "most", value: number])[] = [
  ["tasks_2", "least", 2_500],
  ["usable_ms", "most", 20],
  ["recorded_ms", "most", 100],
  ["decoder_sources_ms", "most", 2],
  ["late_ms", "most", 100],
  ["calls_32", "least", 20_000],
  ["fresh_mib", "most", 20],
  ["rested_mib", "most", 20],
];

type Results = ReadonlyMap<ProgramName, readonly SandboxFigures[]>;

async function commandOf(program: ProgramName, folder: string): Promise<SelfCommand> {
  if (program === "source") return selfCommand();
  // A copy, so that a build meanwhile does not change what is measured.
  const binary = join(folder, "zonewright");
  await Deno.copyFile(BINARY, binary);
  return { program: binary, args: [], env: {}, compiled: true };
}

async function measure(folder: string, { quick, programs }: SandboxOptions): Promise<Results> {
  const commands = new Map<ProgramName, SelfCommand>();
  for (const program of programs) commands.set(program, await commandOf(program, folder));
  const results = new Map<ProgramName, SandboxFigures[]>();
  for (let round = 1; round <= ROUNDS; round++) {
    for (const [program, self] of commands) {
      console.error(`bench: round ${round} of ${ROUNDS}: ${program}`);
      const metrics = await measureSandbox(folder, self, quick ? QUICK : FULL);
      results.set(program, [...(results.get(program) ?? []), metrics]);
    }
  }
  return results;
}

function spreadOf(rounds: readonly SandboxFigures[], name: string): Spread {
  return spread(rounds.map((metrics) => metrics[name] ?? NaN));
}

function lines(results: Results): string[] {
  const programs = [...results];
  const rows = FIGURES.map(([name, what]) => [
    what,
    ...programs.map(([, rounds]) => spreadText(spreadOf(rounds, name))),
  ]);
  const aims = AIMS.map(([name, at, value]) => {
    const what = FIGURES.find(([known]) => known === name)?.[1] ?? name;
    const met = programs.map(([, rounds]) => {
      const { median } = spreadOf(rounds, name);
      const reached = at === "least" ? median >= value : median <= value;
      return `${reached ? "met" : "missed"}: ${figure(median)}`;
    });
    return [`${what}: at ${at} ${figure(value)}`, ...met];
  });
  const others = spread(
    programs.flatMap(([, rounds]) =>
      rounds.map(({ others_busy_percent }) => others_busy_percent ?? NaN)
    ),
  );
  return [
    ...tableLines([["min / median / max", ...programs.map(([name]) => name)], ...rows]),
    "",
    ...tableLines([["aims", ...programs.map(([name]) => name)], ...aims]),
    ...(others.max < OTHERS_PERCENT ? [] : [
      "",
      `others used ${figure(others.median)} % of this machine in the median round and ` +
      `${figure(others.max)} % in the worst: repeat this when it is quiet`,
    ]),
  ];
}

let options: SandboxOptions;
try {
  options = parseSandboxOptions(Deno.args);
} catch (error) {
  console.error(`bench: ${error instanceof Error ? error.message : error}\n${SANDBOX_USAGE}`);
  Deno.exit(2);
}
await withRunFolder(async (folder) => {
  const results = await measure(folder, options);
  if (options.json) console.log(JSON.stringify(Object.fromEntries(results)));
  else for (const line of lines(results)) console.log(line);
});
