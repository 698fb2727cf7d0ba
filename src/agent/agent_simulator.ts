// The engine of the simulated host, as the configuration names it. The choice is the simulator's own
// and stays in its folder; an agent that is told nothing leaves it as it is.

import { join } from "@std/path";
import type { Ground } from "./runner.ts";
import { AgentError } from "../domain/error.ts";
import { runCommand } from "../host/command.ts";

const DEADLINE_MS = 30_000;

/**
 * Chooses the engine of the simulated host before the first machine of this agent starts.
 * @throws {AgentError} `invalid_argument` when the engine cannot be had
 * @see docs/simulator.md, Engines
 */
export async function chooseSimulatedEngine(
  { config, self, log }: Ground,
  stateDir: string,
): Promise<void> {
  const engine = config.simulated_engine.value;
  if (engine === null || config.host.value.kind !== "simulated") return;
  const words = ["simulate", "--state", join(stateDir, "simulator"), "engine", engine];
  const { code, stdout, stderr } = await runCommand(self.program, [...self.args, ...words], {
    // The emulator is looked for where this agent would find it.
    env: { ...self.env, PATH: Deno.env.get("PATH") ?? "" },
    deadlineMs: DEADLINE_MS,
  });
  if (code !== 0) throw new AgentError("invalid_argument", stderr.trim());
  log.info("simulated engine", { engine: JSON.parse(stdout).engine });
}
