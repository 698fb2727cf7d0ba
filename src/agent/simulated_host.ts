// Ends a simulated host. Its machines are processes that outlive the calls that started them, as they
// do on a real host; when the agent that owns the host ends, they end too, as by a power cut.

import { AgentError } from "../domain/error.ts";
import type { SelfCommand } from "../program/executable.ts";
import { runCommand } from "../host/command.ts";

const STOP_ALL_MS_MAX = 30_000;

/** @throws {AgentError} `host` when machines may be left running */
export async function powerOffSimulator(self: SelfCommand, stateDir: string): Promise<void> {
  const args = [...self.args, "simulate", "--state", stateDir, "stop-all"];
  const { code, stderr } = await runCommand(self.program, args, {
    env: { ...self.env },
    deadlineMs: STOP_ALL_MS_MAX,
  });
  if (code === 0) return;
  throw new AgentError("host", `Cannot end the machines of the simulated host: ${stderr.trim()}`);
}
