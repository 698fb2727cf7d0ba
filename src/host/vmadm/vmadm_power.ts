// Starting and stopping machines. vmadm words "it is so already" as a failure and exits with 0: that is
// no failure here.

import type { MachineUuid } from "../../domain/id.ts";
import { callVmadm, type VmadmCall, type VmadmHost } from "./call.ts";
import { explained } from "./operations.ts";
import { messageOfOutput, says } from "./output.ts";

type Signal = AbortSignal | undefined;

/** Starts a machine with these boot words; one that runs already is left as it is. */
export async function boot(
  host: VmadmHost,
  uuid: MachineUuid,
  words: readonly string[],
  signal: Signal,
): Promise<void> {
  const call: VmadmCall = {
    operation: "boot",
    action: `Cannot boot machine ${uuid}`,
    args: ["boot", uuid, ...words],
    signal,
  };
  const result = await callVmadm(host, call);
  if (result.code === 0 && says(result, `Successfully started VM ${uuid}`)) return;
  // vmadm words this as a failure and exits with 0.
  const running = `Unable to start VM ${uuid}: VM ${uuid} is already 'running'`;
  if (result.code === 0 && says(result, running)) return;
  throw await explained(host, uuid, call, result);
}

/** How a machine is stopped: at once, or with so many seconds for its guest. */
export interface StopArguments {
  force?: boolean;
  timeoutSeconds?: number;
}

/** Stops a machine; one that is stopped already is left as it is. */
export async function stop(
  host: VmadmHost,
  uuid: MachineUuid,
  { force = false, timeoutSeconds }: StopArguments,
  signal: Signal,
): Promise<void> {
  const given = timeoutSeconds === undefined || force ? [] : ["-t", String(timeoutSeconds)];
  const call = forceable("stop", uuid, force, signal, given);
  const result = await callVmadm(host, call);
  if (result.code === 0 && says(result, `Successfully completed stop for VM ${uuid}`)) return;
  const text = messageOfOutput(result.stderr);
  if (result.code === 0 && text.includes(`VM ${uuid} is already not 'running'`)) return;
  throw await explained(host, uuid, call, result);
}

/**
 * Starts a running machine anew.
 * @throws {AgentError} `conflict` when it is not running
 */
export async function reboot(
  host: VmadmHost,
  uuid: MachineUuid,
  force: boolean,
  signal: Signal,
): Promise<void> {
  const call = forceable("reboot", uuid, force, signal);
  const result = await callVmadm(host, call);
  if (result.code === 0 && says(result, `Successfully completed reboot for VM ${uuid}`)) return;
  throw await explained(host, uuid, call, result);
}

/** With `-F` the guest is not asked. */
function forceable(
  operation: "stop" | "reboot",
  uuid: MachineUuid,
  force: boolean,
  signal: Signal,
  more: readonly string[] = [],
): VmadmCall {
  const args = [operation, uuid, ...(force ? ["-F"] : []), ...more];
  return { operation, action: `Cannot ${operation} machine ${uuid}`, args, signal };
}
