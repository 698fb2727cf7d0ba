// A process of its own for what belongs to a whole process, such as its umask: test files that run
// beside each other share one.

import { fromFileUrl } from "@std/path";

const ROOT = fromFileUrl(new URL("../..", import.meta.url));

/**
 * Runs the text of a module in a process of its own; it imports the program as `./src/...`.
 * @returns what it has printed
 * @throws {Error} with its words when it fails
 */
export async function inOwnProcess(text: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", "--cached-only", "--config", "deno.json", "--ext=ts", text],
    cwd: ROOT,
    env: { NO_COLOR: "1" },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  if (!success) throw new Error(decoder.decode(stderr));
  return decoder.decode(stdout);
}
