// Whose machine a call acts on. Where the policy leaves machines alone that no job made, every call
// that changes one is held against it here, whichever capability it is.

import type { JobUuid, MachineUuid } from "../domain/id.ts";
import type { Policy } from "../domain/policy.ts";
import { requireOwnMachine } from "../domain/policy_check.ts";
import type { Vmadm } from "../host/vmadm.ts";
import type { Store } from "../store/store.ts";

/** Machines that are remembered; the one that was begun first is forgotten first. */
const BEGUN_MAX = 1000;

/** Tells the agent's machines from those of others. */
export interface OwnMachines {
  /**
   * A create of this machine begins. Until it has ended the machine may lack the tag that names its
   * job, and whoever undoes it has to be let.
   */
  begin(uuid: MachineUuid, signal: AbortSignal): Promise<void>;
  /**
   * Lets pass what may be changed, and what is not there.
   * @throws {AgentError} `forbidden` by the setting `policy.foreign_machines`
   */
  require(uuid: MachineUuid, job_uuid: JobUuid, signal: AbortSignal): Promise<void>;
}

/** What is asked whose a machine is. */
interface OwnMachineDeps {
  readonly vmadm: Vmadm;
  readonly policy: Policy;
  readonly store: Pick<Store, "machineClaims">;
}

/**
 * Opens the memory of machines that were begun. The claim of a job outlives it, and the tag of a
 * finished machine outlives both.
 */
export function openOwnMachines({ vmadm, policy, store }: OwnMachineDeps): OwnMachines {
  const begun = new Set<MachineUuid>();
  // Asked at each call: the policy follows the configuration.
  const anyMachine = () => policy.foreignMachines === "change";
  return {
    async begin(uuid, signal) {
      // A create of a uuid that is taken makes nothing, and gives no right to what has it.
      if (anyMachine() || await vmadm.get(uuid, { signal }) !== null) return;
      begun.delete(uuid);
      begun.add(uuid);
      for (const oldest of begun) {
        if (begun.size <= BEGUN_MAX) break;
        begun.delete(oldest);
      }
    },
    async require(uuid, job_uuid, signal) {
      if (anyMachine() || begun.has(uuid)) return;
      if ((await store.machineClaims.get(uuid))?.job_uuid === job_uuid) return;
      const machine = await vmadm.get(uuid, { signal });
      if (machine !== null) requireOwnMachine(policy, uuid, machine);
    },
  };
}
