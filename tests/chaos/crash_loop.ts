// The crash loop as a program: `deno run -A tests/chaos/crash_loop.ts --seeds 5 --cycles 24`. Prints
// the seed of each run, so that a run that failed can be made again, and ends with 1 when a promise
// was broken.

import { parseArgs } from "@std/cli/parse-args";
import { crashRun } from "./crash_run.ts";
import { programNamed, programOfRun } from "../support/agent_process.ts";

const CYCLES = 24;
const SEED_MAX = 1_000_000_000;

const given = parseArgs(Deno.args, {
  string: ["seed", "seeds", "cycles", "program"],
  unknown: (argument) => {
    throw new Error(`Unknown argument ${argument}, expected --seed, --seeds, --cycles, --program`);
  },
});

function numberOf(name: string, otherwise: number): number {
  const number = Number(given[name] ?? otherwise);
  if (Number.isInteger(number) && number >= 0) return number;
  throw new Error(`Cannot read --${name}, expected a whole number, found ${given[name]}`);
}

const first = numberOf("seed", Math.floor(Math.random() * SEED_MAX));
const cycles = numberOf("cycles", CYCLES);
const program = given.program === undefined ? programOfRun() : programNamed(String(given.program));
const total = { kills: 0, acknowledged: 0, jobs: 0, violations: 0 };
const began = performance.now();
for (let run = 0; run < numberOf("seeds", 1); run++) {
  const used = first + run;
  console.log(`seed ${used}: ${cycles} cycles`);
  try {
    const report = await crashRun({ program, seed: used, cycles });
    const ends = Object.entries(report.ends).map(([end, count]) => `${count} ${end}`).join(", ");
    console.log(
      `seed ${used}: ok, ${ends}; ${report.acknowledged} acknowledged writes, ${report.jobs} jobs, ` +
        `${report.workflows} workflows, ${report.seconds.toFixed(1)} s`,
    );
    total.kills += Object.values(report.ends).reduce((sum, count) => sum + count, 0);
    total.acknowledged += report.acknowledged;
    total.jobs += report.jobs;
  } catch (error) {
    total.violations += 1;
    console.log(`seed ${used}: FAILED\n${error instanceof Error ? error.stack : error}`);
  }
}
const seconds = ((performance.now() - began) / 1000).toFixed(1);
console.log(
  `${total.kills} kills and stops, ${total.acknowledged} acknowledged writes, ${total.jobs} jobs, ` +
    `${total.violations} violations, ${seconds} s`,
);
if (total.violations > 0) Deno.exit(1);
