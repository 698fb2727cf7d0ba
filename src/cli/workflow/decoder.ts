// Checks workflows with a decoder of one's own: the command line parses sources as an agent does, within the
// limits of a decoder.

import { openDecoders } from "../../decoder/pool.ts";
import { openSourceChecks } from "../../decoder/source_checks.ts";
import { selfCommand } from "../../runtime/executable.ts";
import { silentLog } from "../../metrics/log.ts";
import { type CheckedWorkflow, checkWorkflow } from "./check.ts";

/**
 * Runs a function that checks texts as checkWorkflow() does, and ends the decoder afterwards.
 * @throws {AgentError} `internal` when no decoder can be started; whatever the function throws
 */
export async function withWorkflowCheck<T>(
  run: (check: (text: string) => Promise<CheckedWorkflow>) => Promise<T>,
): Promise<T> {
  const decoders = openDecoders({ self: selfCommand(), log: silentLog });
  const { acceptable } = openSourceChecks(decoders);
  const { signal } = new AbortController();
  try {
    return await run((text) => checkWorkflow(text, acceptable, signal));
  } finally {
    await decoders.close();
  }
}
