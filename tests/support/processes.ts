// Processes of tests, as the system shows them.

import { fromFileUrl, join } from "@std/path";

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

/** Processor time of the agent's own process, in ticks. @see proc_pid_stat(5) */
export async function cpuOfAgent(stateDir: string): Promise<number> {
  const stat = await Deno.readTextFile(`/proc/${await agentPidOf(stateDir)}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

async function agentPidOf(stateDir: string): Promise<string> {
  return (await Deno.readTextFile(join(stateDir, "agent.pid"))).trim();
}

/** Processor time of the agent's children, in ticks, by process. @see proc_pid_stat(5) */
export async function cpuOfChildren(stateDir: string): Promise<Map<number, number>> {
  return await childrenOf(await agentPidOf(stateDir));
}

/** The children of a process, with their processor time in ticks. */
export async function childrenOf(pid: string): Promise<Map<number, number>> {
  const found = new Map<number, number>();
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await Deno.readTextFile(`/proc/${name}/stat`).catch(() => "");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (fields[1] === pid) found.set(Number(name), Number(fields[11]) + Number(fields[12]));
  }
  return found;
}
