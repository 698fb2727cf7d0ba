// Room for a medium in the root of a zone. The quota of a kvm machine is 10 GiB unless it was given
// another, that of a bhyve machine 1 GiB: most media would not fit.

import { AgentError } from "../domain/error.ts";
import type { MachineUuid } from "../domain/id.ts";
import type { JsonObject } from "../domain/json.ts";
import { type Policy, POLICY_SETTINGS } from "../domain/policy.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";

const GIB = 1024 ** 3;
/** GiB besides the medium: the zone has files of its own, and a copy needs its name twice. */
const ROOM_GIB = 1;

/** GiB that a zone's quota must have for a medium of so many bytes. */
function quotaFor(bytes: number): number {
  return Math.ceil(bytes / GIB) + ROOM_GIB;
}

/**
 * Raises the quota of a machine when a medium would not fit; never lowers it.
 * @throws {AgentError} `forbidden` when the policy does not allow as much
 * @see vmadm(8), quota
 */
export async function raiseQuota(
  vmadm: Vmadm,
  policy: Policy,
  uuid: MachineUuid,
  { machine, bytes, signal }: { machine: JsonObject; bytes: number; signal: AbortSignal },
): Promise<void> {
  const wanted = quotaFor(bytes);
  const quota = typeof machine.quota === "number" ? machine.quota : 0;
  // 0 is no quota to kvm; bhyve reads it as its least, 1 GiB.
  if (quota >= wanted || (quota === 0 && machine.brand === "kvm")) return;
  if (wanted > policy.quotaGiBMax) {
    const message =
      `Cannot place the medium: machine ${uuid} would need a quota of ${wanted} GiB, ` +
      `the policy allows ${policy.quotaGiBMax} (setting ${POLICY_SETTINGS.quotaGiBMax})`;
    throw new AgentError("forbidden", message);
  }
  await vmadm.update(uuid, { quota: wanted }, { signal });
}
