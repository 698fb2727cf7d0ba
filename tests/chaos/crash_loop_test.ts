// The crash loop: promises P1 to P5, P8 and P10 under kill -9, SIGTERM and load. crash_loop.ts runs
// the same from any seed.

import { assert } from "@std/assert";
import { length } from "./agent_under_chaos.ts";
import type { Program } from "../support/agent_process.ts";
import { eachNode } from "../support/each_node.ts";
import { crashRun } from "./crash_run.ts";
import { programNamed, programOfRun } from "../support/agent_process.ts";

for (const seed of length({ quick: [1], full: [1, 2, 3, 4, 5] })) {
  Deno.test(`an agent that is killed again and again under load keeps every promise, seed ${seed}`, async () => {
    await crash(programOfRun(), seed, length({ quick: 6, full: 24 }));
  });
}

eachNode("an agent that is killed again and again keeps every promise", async ({ program }) => {
  await crash(programNamed(program), 1, length({ quick: 3, full: 24 }));
});

async function crash(program: Program, seed: number, cycles: number): Promise<void> {
  const report = await crashRun({ program, seed, cycles });
  assert(report.acknowledged > 0, "nothing was acknowledged");
  console.log(JSON.stringify(report));
}
