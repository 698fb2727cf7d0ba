// The adapter for Node answers as Deno does: one program of calls prints the same on both.

import { assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { eachNode } from "../../support/each_node.ts";
import { withFolder } from "../../support/until.ts";

const ROOT = fromFileUrl(new URL("../../..", import.meta.url));
const CALLS = join(ROOT, "tests/vendors/node/calls.ts");

/** What a program prints: a line for each call. */
async function linesOf(program: string, args: readonly string[]): Promise<string[]> {
  const command = new Deno.Command(program, { args: [...args], cwd: ROOT });
  const { success, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  assertEquals([success, success ? "" : decoder.decode(stderr)], [true, ""]);
  return decoder.decode(stdout).trimEnd().split("\n");
}

/** The program of calls behind the adapter, in one file. */
async function bundle(folder: string): Promise<string> {
  const entry = join(ROOT, "tests/vendors/node/calls_on_node.ts");
  const output = join(folder, "calls.mjs");
  const args = ["bundle", "--quiet", "--output", output, entry];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args, cwd: ROOT }).output();
  assertEquals([success, success ? "" : new TextDecoder().decode(stderr)], [true, ""]);
  return output;
}

eachNode("every call of the adapter answers as Deno's", async ({ program }) => {
  await withFolder(async (folder) => {
    await Deno.mkdir(join(folder, "deno"));
    await Deno.mkdir(join(folder, "node"));
    const own = ["run", "--quiet", "--cached-only", "--unstable-net", "-A", CALLS];
    const expected = await linesOf(Deno.execPath(), [...own, join(folder, "deno")]);
    const found = await linesOf(program, [await bundle(folder), join(folder, "node")]);
    assertEquals(found, expected);
    assertEquals(expected.length > 60, true, expected.join("\n"));
  });
});
