// An agent to measure: the compiled binary, or another command, in a folder of its own, on a port that the
// system chose.

import { fromFileUrl, join } from "@std/path";

export const BINARY = fromFileUrl(new URL("../dist/zonewright", import.meta.url));

/** The small tree of the tests: an upstream that is a folder. */
export const INDEX = fromFileUrl(new URL("../tests/fixtures/index", import.meta.url));

export interface AgentUnderTest {
  readonly url: string;
  readonly pid: number;
  /** From the start of the process to its word that it listens, milliseconds. */
  readonly listeningMs: number;
  stop(): Promise<void>;
}

/** Starts `serve` with a simulated host and waits until it says where it listens. */
export async function startAgentUnderTest(
  folder: string,
  flags: readonly string[] = [],
  command: string | readonly string[] = BINARY,
): Promise<AgentUnderTest> {
  const began = performance.now();
  const [program = "", ...before] = typeof command === "string" ? [command] : command;
  const process = new Deno.Command(program, {
    args: [
      ...before,
      "serve",
      "--dev",
      "--listen",
      "127.0.0.1:0",
      "--state-dir",
      join(folder, "state"),
      ...flags,
    ],
    clearEnv: true,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const reader = process.stderr.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let url: string | undefined;
  let listeningMs = 0;
  while (url === undefined) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`The agent ended before it listened:\n${text}`);
    text += decoder.decode(value, { stream: true });
    url = /"agent started".*"urls":"(http:[^" ]+)/.exec(text)?.[1];
    listeningMs = performance.now() - began;
  }
  reader.releaseLock();
  // One line per request: taken as bytes and dropped, since this shares the cores with the agent.
  const drained = process.stderr.pipeTo(new WritableStream());
  return {
    url,
    pid: process.pid,
    listeningMs,
    stop: async () => {
      process.kill("SIGTERM");
      await process.status;
      await drained;
    },
  };
}

/** Resident memory of a process, MiB. */
export function residentMiB(pid: number): number {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) / 1024;
}

/** Processes that this one has started, at any depth. */
export function descendants(pid: number): number[] {
  const children = Array.from(Deno.readDirSync("/proc"), ({ name }) => Number(name))
    .filter((candidate) => parentOf(candidate) === pid);
  return children.flatMap((child) => [child, ...descendants(child)]);
}

function parentOf(pid: number): number | undefined {
  if (!Number.isInteger(pid)) return undefined;
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    // The process ended while we looked.
    return undefined;
  }
}
