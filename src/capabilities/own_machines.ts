// Whose machine a call acts on. Where the policy leaves machines alone that no job made, every call
// that changes one is held against it here, whichever capability it is.

import { AgentError } from "../domain/error.ts";
import type { JobUuid, MachineUuid } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { Policy } from "../domain/policy.ts";
import { requireOwnMachine } from "../domain/policy_check.ts";
import { datasetsOf } from "../host/zone/datasets.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import type { Store } from "../store/store.ts";

/** Machines that are remembered; the one that was begun first is forgotten first. */
const BEGUN_MAX = 1000;

/** Makes a machine; `claiming` is called, and waited for, before anything of it is there. */
export type MakeMachine<T> = (claiming: () => Promise<void>) => Promise<T>;

/** Tells the agent's machines from those of others. */
export interface OwnMachines {
  /**
   * Makes a machine. Until that has ended the machine may lack the tag that names its job, and whoever
   * undoes it has to be let; so, too, when something of it was left. A create that made nothing, since
   * it was refused or failed, gives no right to what has the uuid then or later.
   * @throws whatever `make` throws
   */
  make<T>(
    machine: { readonly uuid: MachineUuid; readonly job_uuid: JobUuid },
    signal: AbortSignal,
    make: MakeMachine<T>,
  ): Promise<T>;
  /**
   * Lets pass what may be changed, and what is not there.
   * @throws {AgentError} `forbidden` by the setting `policy.foreign_machines`
   */
  require(uuid: MachineUuid, job_uuid: JobUuid, signal: AbortSignal): Promise<void>;
}

/** What is asked whose a machine is. */
interface OwnMachineDeps {
  readonly vmadm: Vmadm;
  readonly transport: Transport;
  readonly policy: Policy;
  readonly store: Pick<Store, "machineClaims">;
  readonly now: Now;
}

/**
 * Opens the memory of machines that were begun. The claim of a job outlives it, and the tag of a
 * finished machine outlives both.
 */
export function openOwnMachines(
  { vmadm, transport, policy, store: { machineClaims }, now }: OwnMachineDeps,
): OwnMachines {
  /** Creates that go on or have left something, one entry for each. */
  const begun = new Map<symbol, MachineUuid>();
  // Asked at each call: the policy follows the configuration.
  const anyMachine = () => policy.foreignMachines === "change";
  const isNothingLeft = async (uuid: MachineUuid) => {
    try {
      return await vmadm.get(uuid) === null && (await datasetsOf(transport, uuid)).length === 0;
    } catch {
      // What is not known may be there.
      return false;
    }
  };
  return {
    async make({ uuid, job_uuid }, signal, make) {
      const create = Symbol(uuid);
      let claimed = false;
      const claiming = async () => {
        await machineClaims.take(uuid, job_uuid, now());
        claimed = true;
      };
      // A create of a uuid that is taken makes nothing, and gives no right to what has it.
      if (!anyMachine() && await vmadm.get(uuid, { signal }) === null) begun.set(create, uuid);
      for (const oldest of begun.keys()) {
        if (begun.size <= BEGUN_MAX) break;
        begun.delete(oldest);
      }
      try {
        const made = await make(claiming);
        begun.delete(create);
        return made;
      } catch (error) {
        const madeNothing = async () => {
          if (!isRefusal(error) && !await isNothingLeft(uuid)) return;
          begun.delete(create);
          if (claimed) await machineClaims.release(uuid, job_uuid);
        };
        // A create that its caller gave up goes on: its end is not waited for here.
        if (signal.aborted) vmadm.settled(uuid).then(madeNothing).catch(() => {});
        else await madeNothing();
        throw error;
      }
    },
    async require(uuid, job_uuid, signal) {
      if (anyMachine() || [...begun.values()].includes(uuid)) return;
      if ((await machineClaims.get(uuid))?.job_uuid === job_uuid) return;
      const machine = await vmadm.get(uuid, { signal });
      if (machine !== null) requireOwnMachine(policy, uuid, machine);
    },
  };
}

/** Whether vmadm made nothing, since the uuid or an address is another machine's. */
function isRefusal(error: unknown): boolean {
  return error instanceof AgentError && error.code === "conflict";
}
