// What an agent has started must end with it, however it ends.

import { until } from "../support/until.ts";

/** Command lines that name a folder, which guests do: their socket lies in it. */
function commandsAbout(folder: string): string[] {
  return Array.from(Deno.readDirSync("/proc"), ({ name }) => name).flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const command = Deno.readTextFileSync(`/proc/${pid}/cmdline`).replaceAll("\0", " ");
      return command.includes(folder) ? [`${pid} ${command}`] : [];
    } catch {
      return []; // it has ended since the folder was read
    }
  });
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
