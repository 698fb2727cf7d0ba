// What the tests of an installation begin with.

import { join } from "@std/path";
import { withFolder } from "../support/until.ts";

/** A downloaded program, and a root to install it below. */
export async function withProgram(
  run: (program: string, root: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const program = join(folder, "download");
    await Deno.writeTextFile(program, "x");
    await run(program, join(folder, "root"));
  });
}

/** The rights of a file. */
export async function modeOf(path: string): Promise<number> {
  return ((await Deno.stat(path)).mode ?? 0) & 0o777;
}
