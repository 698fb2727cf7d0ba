// The ZFS datasets of one machine: vmadm cannot remove what its own create or delete left behind. Only names
// in vmadm's form are touched, and only if the caller knows that they belong to this machine: they contain
// its uuid, and a uuid is chosen for one machine.

import { AgentError } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { CommandResult } from "../program.ts";
import { askPool, nicsOf, POOL, requireNetworks } from "../inventory.ts";
import type { Transport } from "../transport.ts";
import { describeResult } from "../program_output.ts";
import { type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import { MIB_PER_GIB } from "../../domain/policy.ts";

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

// Checks whether the host has the networks and the disk space of a new machine. vmadm would find out too, but
// in the middle of a create, and without naming the field. If a program is missing or fails, the check is
// reported as not made and left to vmadm.

const MIB = 1024 ** 2;
/** GiB that the zone of a bhyve machine reserves by default. */
const BHYVE_QUOTA_GIB = 1;

/**
 * Refuses a payload that the host cannot serve.
 * @param payload accepted by the policy
 * @param field name of the payload in errors
 * @returns a sentence for each question that the host did not answer
 * @throws {AgentError} `invalid_argument` naming each nic on a network that the host lacks, and each mtu that
 * its network cannot have; `storage_full` when the disks do not fit; `aborted`
 */
export async function requireHostRoom(
  transport: Transport,
  payload: JsonObject,
  field: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const [networks, room] = await Promise.all([
    requireNetworks(transport, nicsOf(payload, field), signal),
    requirePoolRoom(transport, payload, field, signal),
  ]);
  return [...networks, ...room];
}

/**
 * Refuses a payload whose disks do not fit into the pool.
 * @returns a sentence when the host did not answer
 * @throws {AgentError} `storage_full`; `aborted`
 */
export async function requirePoolRoom(
  transport: Transport,
  payload: JsonObject,
  field: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const wanted = reservedMiB(payload);
  if (wanted === 0) return [];
  const answer = await askPool(transport, signal);
  if ("unasked" in answer) {
    return [`Cannot read the free space of the host, so only vmadm checks it: ${answer.unasked}`];
  }
  const free = Math.floor(answer.value.free_bytes / MIB);
  if (wanted <= free) return [];
  const message = `Cannot accept the machine: ${field}.disks and the zone's reservation need ` +
    `${wanted} MiB, and the pool ${JSON.stringify(POOL)} of the host has ${free} MiB`;
  throw new AgentError("storage_full", message);
}

/** MiB that the machine takes from the pool at once. zfs takes a little more. */
function reservedMiB({ brand, quota, disks }: JsonObject): number {
  const volumes = objectsIn(disks).reduce(
    (sum, { refreservation, size }) => sum + numberOr(refreservation, numberOr(size, 0)),
    0,
  );
  // The zone of a kvm machine reserves nothing.
  const zone = brand === "bhyve" ? numberOr(quota, BHYVE_QUOTA_GIB) * MIB_PER_GIB : 0;
  return volumes + zone;
}

function numberOr(value: JsonValue | undefined, other: number): number {
  return typeof value === "number" ? value : other;
}
