// What an agent has started must end with it, however it ends.

import { until } from "../support/until.ts";

/** Processes by their pid, with the words of their command lines. */
function commands(): [pid: number, words: string[]][] {
  return Array.from(Deno.readDirSync("/proc"), ({ name }) => name).flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const line = Deno.readTextFileSync(`/proc/${pid}/cmdline`);
      return [[Number(pid), line.split("\0").filter((word) => word !== "")]];
    } catch {
      return []; // it has ended since the folder was read
    }
  });
}

/** Command lines that name a folder, which guests do: their socket lies in it. */
function commandsAbout(folder: string): string[] {
  return commands().map(([pid, words]) => `${pid} ${words.join(" ")}`)
    .filter((command) => command.includes(folder));
}

/** Processes whose command lines end in these words. */
export function processesOf(ending: readonly string[]): number[] {
  return commands().filter(([, words]) =>
    words.slice(-ending.length).join("\0") === ending.join("\0")
  )
    .map(([pid]) => pid);
}

/** @throws {Error} when processes of a dead agent go on */
export async function expectNoProcesses(stateDir: string): Promise<void> {
  let left: string[] = [];
  await until("the processes of a dead agent to end", () => {
    left = commandsAbout(stateDir);
    return left.length === 0;
  }).catch((error) => {
    throw new Error(`${error.message}: ${left.join("; ")}`);
  });
}
