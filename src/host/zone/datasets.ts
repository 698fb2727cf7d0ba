// The datasets of one machine, asked of zfs: vmadm has no call that removes what a create or a delete
// of its own has left behind. Only names that vmadm gives are ever touched, and only where the caller
// knows that they are this machine's: they hold its uuid, and a uuid is chosen for one machine.

import { AgentError } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { CommandResult } from "../command.ts";
import type { Transport } from "../transport.ts";
import { describeResult } from "../vmadm/output.ts";

/** Milliseconds that a call of zfs may take; a pool that is busy may take long to destroy. */
const ZFS_MS_MAX = 120_000;

/** How vmadm names them: the zone, and disks beside it (kvm) or below it (bhyve). */
const AFTER_UUID = /^(?:[-/]disk\d{1,3})?$/;
/** Below it, cores of the zone's processes have a dataset, which is mounted within the zone's. */
const CORES = "/cores/";

/**
 * Names of the datasets that carry this uuid, those below others, and mounted within them, first.
 * @throws {AgentError} as runCommand; `host` when zfs fails
 */
export async function datasetsOf(transport: Transport, uuid: MachineUuid): Promise<string[]> {
  const args = ["list", "-H", "-o", "name", "-t", "filesystem,volume"];
  const result = await transport.zfs(args, { deadlineMs: ZFS_MS_MAX });
  if (result.code !== 0) throw failed(`Cannot list the datasets of machine ${uuid}`, args, result);
  const names = result.stdout.split("\n").filter((name) => isOf(uuid, name)).sort().reverse();
  const isMountedWithin = (name: string) => name.includes(CORES);
  return [...names.filter(isMountedWithin), ...names.filter((name) => !isMountedWithin(name))];
}

function isOf(uuid: MachineUuid, name: string): boolean {
  const [, rest] = name.split(`/${uuid}`);
  const pool = name.split("/")[0] ?? "";
  if (name === `${pool}${CORES}${uuid}`) return true;
  return rest !== undefined && name === `${pool}/${uuid}${rest}` && AFTER_UUID.test(rest);
}

/**
 * Destroys datasets that datasetsOf() named. One that has snapshots is not destroyed.
 * @throws {AgentError} `host` naming the first that could not be destroyed, and why
 */
export async function destroyDatasets(
  transport: Transport,
  names: readonly string[],
): Promise<void> {
  for (const name of names) {
    const args = ["destroy", name];
    const result = await transport.zfs(args, { deadlineMs: ZFS_MS_MAX });
    if (result.code !== 0) throw failed(`Cannot destroy dataset ${name}`, args, result);
  }
}

function failed(action: string, args: readonly string[], result: CommandResult): AgentError {
  const command = JSON.stringify(["zfs", ...args].join(" "));
  return new AgentError("host", `${action}: ${command} ${describeResult(result, [])}`);
}
