// The journeys are made twice: with the program from source, and with the compiled binary.

import { binaryProgram, type Program, sourceProgram } from "../support/agent_process.ts";
import { findProgram, requireProgram } from "../support/program.ts";

/**
 * Registers a journey for both programs; without a binary, that half is skipped by name.
 * @param needs A program of the host; without it both halves are skipped by name
 */
export function journey(
  name: string,
  run: (program: Program) => Promise<void>,
  needs?: string,
): void {
  const strict = { sanitizeOps: true, sanitizeResources: true };
  const binary = binaryProgram();
  const required = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";
  const missing = !required && needs !== undefined && findProgram(needs) === undefined;
  const play = async (program: Program) => {
    if (needs !== undefined) requireProgram(needs);
    await run(program);
  };
  Deno.test({
    ...strict,
    name: `${name} (from source)${needs === undefined ? "" : ` [needs ${needs}]`}`,
    ignore: missing,
    fn: () => play(sourceProgram()),
  });
  Deno.test({
    ...strict,
    name: `${name} (compiled) [needs ${needs === undefined ? "" : `${needs}, `}dist/zonewright]`,
    ignore: missing || (binary === undefined && !required),
    fn: async () => {
      if (binary === undefined) throw new Error("Cannot run: dist/zonewright was not built");
      await play(binary);
    },
  });
}
