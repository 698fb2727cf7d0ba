// What is shown of the whole program is shown with the program from source in `make test`, which needs
// no build, and with the compiled binary in `make test-full`; see ../run.ts. A file run by itself shows both.

import {
  binaryProgram,
  nodeProgram,
  nodeVersion,
  type Program,
  PROGRAM_VARIABLE,
  sourceProgram,
} from "./agent_process.ts";
import { findProgram, requireProgram } from "./program.ts";

/** The path of a Node: every test is registered for the file for Node as well. */
const NODE_VARIABLE = "ZONEWRIGHT_TEST_NODE";

/**
 * Registers a test for both programs; without a binary, that half is skipped by name.
 * @param needs A program of the host; without it both halves are skipped by name
 */
export function eachProgram(
  name: string,
  run: (program: Program, t: Deno.TestContext) => Promise<void>,
  needs?: string,
): void {
  const required = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";
  const missing = !required && needs !== undefined && findProgram(needs) === undefined;
  const play = async (program: Program, t: Deno.TestContext) => {
    if (needs !== undefined) requireProgram(needs);
    await run(program, t);
  };
  const only = Deno.env.get(PROGRAM_VARIABLE);
  if (only !== "binary") {
    Deno.test({
      name: `${name} (from source)${needs === undefined ? "" : ` [needs ${needs}]`}`,
      ignore: missing,
      fn: (t) => play(sourceProgram(), t),
    });
  }
  const node = Deno.env.get(NODE_VARIABLE) ?? "";
  if (node !== "") {
    Deno.test({
      name: `${name} (on Node ${nodeVersion(node)})${
        needs === undefined ? "" : ` [needs ${needs}]`
      }`,
      ignore: missing,
      fn: async (t) => {
        const program = nodeProgram(node);
        if (program === undefined) throw new Error("Cannot run: dist/zonewright.mjs was not built");
        await play(program, t);
      },
    });
  }
  if (only === "source") return;
  const binary = binaryProgram();
  Deno.test({
    name: `${name} (compiled) [needs ${needs === undefined ? "" : `${needs}, `}dist/zonewright]`,
    ignore: missing || (binary === undefined && !required),
    fn: async (t) => {
      if (binary === undefined) throw new Error("Cannot run: dist/zonewright was not built");
      await play(binary, t);
    },
  });
}
