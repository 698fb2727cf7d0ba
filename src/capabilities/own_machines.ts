// Ownership of machines. Where the policy protects machines that no job made, every call that
// changes one is checked here, whichever capability it is.

import { AgentError } from "../domain/error.ts";
import type { MachineUuid } from "../domain/id.ts";
import { type Policy, requireOwnMachine } from "../domain/policy.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { datasetsOf } from "../host/zone/datasets.ts";
import type { Store } from "../store/store.ts";
import type { Call } from "./capability.ts";

/** Machines remembered; the oldest create is forgotten first. */
const BEGUN_MAX = 1000;

/** Makes a machine; `claiming` is called, and awaited, before anything of it exists. */
type MakeMachine<T> = (claiming: () => Promise<void>) => Promise<T>;

type OwnerCall = Pick<Call, "job_uuid" | "signal" | "insist">;

/** Distinguishes the agent's machines from others. */
export interface OwnMachines {
  /**
   * Creates a machine. Until the create has ended, and if it leaves something behind, the machine may lack
   * the tag with its job, and undoing it must still be allowed. A create that was refused or made nothing
   * gives no right to whatever has the uuid then or later.
   * @throws whatever `make` throws
   */
  make<T>(uuid: MachineUuid, call: OwnerCall, make: MakeMachine<T>): Promise<T>;
  /**
   * Allows changes of the agent's own machines, and of missing ones.
   * @throws {AgentError} `forbidden` by the setting `policy.foreign_machines`
   */
  require(uuid: MachineUuid, call: OwnerCall): Promise<void>;
}

interface OwnMachineDeps {
  readonly vmadm: Vmadm;
  readonly transport: Transport;
  readonly policy: Policy;
  readonly store: Pick<Store, "machineClaims">;
}

/**
 * Remembers creates under way. The claim of a job outlives this memory, and the tag of a finished
 * machine outlives both.
 */
export function openOwnMachines(
  { vmadm, transport, policy, store: { machineClaims } }: OwnMachineDeps,
): OwnMachines {
  /** Creates that are running or have left something, one entry each. */
  const begun = new Map<symbol, MachineUuid>();
  // Evaluated at each call: the policy follows the configuration.
  const anyMachine = () => policy.foreignMachines === "change";
  const isNothingLeft = async (uuid: MachineUuid) => {
    try {
      return await vmadm.get(uuid) === null && (await datasetsOf(transport, uuid)).length === 0;
    } catch {
      // If that is unknown, the machine may exist.
      return false;
    }
  };
  return {
    async make(uuid, { job_uuid, signal, insist }, make) {
      const create = Symbol(uuid);
      let claimed = false;
      const claiming = async () => {
        claimed = await insist(() => machineClaims.take({ uuid, host: transport.host, job_uuid }));
        if (claimed) return;
        const message = `Cannot create machine ${uuid}: this host no longer has job ${job_uuid}`;
        throw new AgentError("aborted", message);
      };
      // A create with a taken uuid makes nothing, and gives no right to its owner's machine.
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
          if (claimed) await insist(() => machineClaims.release(uuid, job_uuid));
        };
        // A canceled create continues on the host: its end is not awaited here.
        if (signal.aborted) vmadm.settled(uuid).then(madeNothing).catch(() => {});
        else await madeNothing();
        throw error;
      }
    },
    async require(uuid, { job_uuid, signal, insist }) {
      if (anyMachine() || [...begun.values()].includes(uuid)) return;
      if ((await insist(() => machineClaims.get(uuid)))?.job_uuid === job_uuid) return;
      const machine = await vmadm.get(uuid, { signal });
      if (machine !== null) requireOwnMachine(policy, uuid, machine);
    },
  };
}

/** Whether vmadm made nothing, since another machine has the uuid or an address. */
function isRefusal(error: unknown): boolean {
  return error instanceof AgentError && ["conflict", "already_exists"].includes(error.code);
}
