// The crash loop: promises P1 to P5, P8 and P10 under kill -9, SIGTERM and load. crash_loop.ts runs
// the same from any seed.

import { assert } from "@std/assert";
import { chaosProgram, length } from "./agent_under_chaos.ts";
import { crashRun } from "./crash_run.ts";

for (const seed of length({ quick: [1], full: [1, 2, 3, 4, 5] })) {
  Deno.test(`an agent that is killed again and again under load keeps every promise, seed ${seed}`, async () => {
    const cycles = length({ quick: 8, full: 24 });
    const report = await crashRun({ program: chaosProgram(), seed, cycles });
    assert(report.acknowledged > 0, "nothing was acknowledged");
    console.log(JSON.stringify(report));
  });
}
