// The journeys are made twice: with the program from source, and with the compiled binary.

import { binaryProgram, type Program, sourceProgram } from "../support/agent_process.ts";

/** Registers a journey for both programs; without a binary, that half is skipped by name. */
export function journey(name: string, run: (program: Program) => Promise<void>): void {
  const strict = { sanitizeOps: true, sanitizeResources: true };
  Deno.test({ ...strict, name: `${name} (from source)`, fn: () => run(sourceProgram()) });
  const binary = binaryProgram();
  const required = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";
  Deno.test({
    ...strict,
    name: `${name} (compiled) [needs dist/zonewright]`,
    ignore: binary === undefined && !required,
    fn: async () => {
      if (binary === undefined) throw new Error("Cannot run: dist/zonewright was not built");
      await run(binary);
    },
  });
}
