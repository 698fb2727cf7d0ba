// The sandbox is tested twice: with guests from source, and with those of the compiled binary.

import { binaryProgram, type Program, sourceProgram } from "../support/agent_process.ts";

/** Registers a test for both programs; without a binary, that half is skipped by name. */
export function eachProgram(
  name: string,
  run: (program: Program, t: Deno.TestContext) => Promise<void>,
): void {
  Deno.test(`${name} (from source)`, (t) => run(sourceProgram(), t));
  const binary = binaryProgram();
  const required = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";
  Deno.test({
    name: `${name} (compiled) [needs dist/zonewright]`,
    ignore: binary === undefined && !required,
    fn: async (t) => {
      if (binary === undefined) throw new Error("Cannot run: dist/zonewright was not built");
      await run(binary, t);
    },
  });
}
