// Processes of tests, as the system shows them.

import { fromFileUrl } from "@std/path";

/** Whether a process runs: one that has ended but was not reaped does not. */
export function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX] /s.test(Deno.readTextFileSync(`/proc/${pid}/stat`));
  } catch {
    return false; // Gone, before it was opened or while it was read.
  }
}

/** Starts a program of the tests that prints ids of processes in one line. @returns it with the ids */
export async function startPrinting(
  program: URL,
  ...args: string[]
): Promise<{ agent: Deno.ChildProcess; ids: number[] }> {
  const flags = ["--quiet", "--cached-only", "--no-check", "-A"];
  const agent = new Deno.Command(Deno.execPath(), {
    args: ["run", ...flags, fromFileUrl(program), ...args],
    stdout: "piped",
    stdin: "null",
  }).spawn();
  let text = "";
  for await (const piece of agent.stdout.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (text.includes("\n")) break;
  }
  return { agent, ids: text.trim().split(" ").map(Number) };
}
