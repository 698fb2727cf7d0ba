// What is shown of the whole program is shown with the compiled binary in `make test`, and with the file
// for Node in `make test-full`; see ../run.ts. A file run by itself shows the program from source and the binary.

import {
  binaryProgram,
  nodeVersion,
  type Program,
  PROGRAM_VARIABLE,
  programNamed,
} from "./agent_process.ts";
import { findProgram, requireProgram } from "./program.ts";

/**
 * Registers a test for the program of the run, or for two; without a binary, its half is skipped by name.
 * @param needs A program of the host; without it the test is skipped by name
 */
export function eachProgram(
  name: string,
  run: (program: Program, t: Deno.TestContext) => Promise<void>,
  needs?: string,
): void {
  const required = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";
  const missing = !required && needs !== undefined && findProgram(needs) === undefined;
  const only = Deno.env.get(PROGRAM_VARIABLE);
  for (const named of only === undefined ? ["source", "binary"] : [only]) {
    const unbuilt = named === "binary" && binaryProgram() === undefined;
    const needed = [needs ?? [], named === "binary" ? "dist/zonewright" : []].flat();
    const words = needed.length === 0 ? "" : ` [needs ${needed.join(", ")}]`;
    Deno.test({
      name: `${name} (${kindOf(named)})${words}`,
      ignore: missing || (unbuilt && !required),
      fn: async (t) => {
        if (needs !== undefined) requireProgram(needs);
        await run(programNamed(named), t);
      },
    });
  }
}

/** The name of a program of PROGRAM_VARIABLE in the names of tests. */
function kindOf(program: string): string {
  if (program === "source") return "from source";
  return program === "binary" ? "compiled" : `on Node ${nodeVersion(program)}`;
}
