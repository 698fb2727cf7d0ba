// The ZFS datasets of one machine: vmadm cannot remove what its own create or delete left behind. Only names
// in vmadm's form are touched, and only if the caller knows that they belong to this machine: they contain
// its uuid, and a uuid is chosen for one machine.

import { AgentError } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { CommandResult } from "../program.ts";
import { describeResult } from "../program_output.ts";
import type { Transport } from "../transport.ts";

/** Milliseconds per call of zfs; a busy pool destroys slowly. */
const ZFS_MS_MAX = 120_000;

/** vmadm's names after the uuid: the zone, and disks beside it (kvm) or below it (bhyve). */
const AFTER_UUID = /^(?:[-/]disk\d{1,3})?$/;
/** Parent of the datasets for core files, which are mounted within those of the zones. */
const CORES = "/cores/";

/**
 * Names of the datasets with this uuid, children and inner mounts first.
 * @throws {AgentError} see runCommand(); `host` when zfs fails
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
 * Destroys datasets of datasetsOf(), except those with snapshots.
 * @throws {AgentError} `host` naming the first that could not be destroyed, with the reason
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
  return new AgentError("host", `${action}: ${command} ${describeResult(result)}`);
}
