// Drives vmadm, the host's tool for machines. Every call names its machine by a validated uuid, has a
// deadline, and counts as done only if vmadm prints its success message. Calls that change one machine run
// one after another, since vmadm takes no lock.

import { type MachineUuid, parseUuid } from "../../domain/id.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { HALF_MADE } from "../../domain/machine/action.ts";
import { openTurns } from "../locks.ts";
import { orAborted, waitOrAbort } from "../../runtime/wait.ts";
import { withoutSecrets } from "./output.ts";
import * as power from "./power.ts";
import { type BOOT_DEVICES, bootWords, endOfLog } from "./power.ts";
import type { VmadmHost } from "./call.ts";
import type { Transport } from "../transport.ts";
import {
  connectVnc,
  type VncAddress,
  type VncConnection,
  type VncConsole,
  withPassword,
} from "./vnc.ts";
import * as operation from "./operations.ts";
import { destroyOrphans, list, lookUp, type MachineListOptions } from "./operations.ts";
import { JOB_TAG } from "../../domain/policy.ts";

interface CallOptions {
  signal?: AbortSignal;
}

/** qemu's letters: c is the disk, d the CD, n the network; tried from left to right. */
export type BootDevice = typeof BOOT_DEVICES[number];

/**
 * vmadm as the agent uses it. Besides the errors below, every method throws AgentError `host` with the
 * command, its exit code and output when it fails or prints something unexpected; `timeout` after its
 * deadline; `aborted`; and `not_found` when the machine does not exist.
 * @see the manual page vmadm(8) of SmartOS
 */
export interface Vmadm {
  /**
   * As for create(), `vnc_password` true means a random one.
   * @throws {AgentError} `invalid_argument` whose `errors` name properties as `machine.ram`
   */
  validateCreate(payload: JsonObject, o?: CallOptions): Promise<void>;
  /**
   * Creates the machine of a payload, under the payload's `uuid`. With `vnc_password` true its console gets a
   * random password, which vncConsole() returns. An abort returns at once, but vmadm continues; see
   * settled().
   * @param o `claiming`: awaited before vmadm makes anything, if nothing on the host has the uuid; not
   * called if something has it, or zfs does not answer
   * @returns the state afterwards; `stopped` is a usable machine
   * @throws {AgentError} `already_exists` when something has the uuid; `conflict` when an address is taken;
   * `storage_full`
   */
  create(payload: JsonObject, o?: CreateOptions): Promise<{ uuid: MachineUuid; state: string }>;
  /** Waits for the end of an aborted create of this machine. */
  settled(uuid: MachineUuid, o?: CallOptions): Promise<void>;
  /** The machine without the password of its console; null when there is none. */
  get(uuid: MachineUuid, o?: CallOptions): Promise<JsonObject | null>;
  /** All machines with the fields of LIST_FIELDS, by one call. */
  list(o?: MachineListOptions): Promise<JsonObject[]>;
  /**
   * Starts a machine, unless it already runs, and checks that it stays up: at once, and again after
   * `watchMs`. Paths are `/name`, the bus is ide.
   * @throws {AgentError} `host` when it has died, with the end of its log; `conflict` when it is not stopped
   */
  boot(
    uuid: MachineUuid,
    args: { order?: BootDevice; once?: BootDevice; cdrom?: string; disk?: string },
    o?: CallOptions & { watchMs?: number },
  ): Promise<void>;
  /**
   * Stops a machine, unless it is already stopped. The guest has 180 seconds, or `timeoutSeconds`, and is
   * then forced. Waits for a machine that is already stopping.
   * @throws {AgentError} `conflict` if it keeps running
   */
  stop(uuid: MachineUuid, args: power.StopOptions, o?: CallOptions): Promise<void>;
  /**
   * Restarts a running machine, through its guest or, with `force`, at once. A medium given at boot is lost,
   * except for kvm with `force`, which is a reset. Tasks call it. The built-in reboot does not, since after a
   * crash of the agent nobody could tell whether it had happened.
   * @throws {AgentError} `conflict` when it is not running
   */
  reboot(uuid: MachineUuid, args: { force?: boolean }, o?: CallOptions): Promise<void>;
  update(uuid: MachineUuid, changes: JsonObject, o?: CallOptions): Promise<void>;
  /**
   * Deletes a machine with all its disks; one that does not exist is not an error.
   * @param o `claimed`: nothing had the uuid before the caller created the machine, so datasets without a
   * machine are removed too
   * @returns names of such datasets
   */
  delete(uuid: MachineUuid, o?: CallOptions & { claimed?: boolean }): Promise<string[]>;
  /** Removes what a finished job should have removed; see removeLeft(). */
  removeLeft(uuid: MachineUuid, left: LeftMachine, o?: CallOptions): Promise<void>;
  /**
   * The address of the machine's VNC console; null while it does not listen.
   * @throws {AgentError} `conflict` when the machine is not running
   */
  infoVnc(uuid: MachineUuid, o?: CallOptions): Promise<VncAddress | null>;
  /** As infoVnc() with the password: only for the answer to a caller that asked for it. */
  vncConsole(uuid: MachineUuid, o?: CallOptions): Promise<VncConsole | null>;
  /** The end of its hypervisor's log, or why there is none, as a clause of an error message. */
  endOfLog(uuid: MachineUuid, o?: CallOptions): Promise<string>;
  /**
   * Connects to an address that vmadm has just reported.
   * @throws {AgentError} `host` when no console answers there; `timeout`; `aborted`
   */
  connectVnc(address: VncAddress, o?: CallOptions): Promise<VncConnection>;
}

/**
 * Opens the vmadm of a host.
 * @param wait waits between two checks of a machine
 */
export function openVmadm(
  transport: Transport,
  wait: VmadmHost["wait"] = waitOrAbort,
): Vmadm {
  const host = { transport, wait };
  const alone = async <T>(
    given: MachineUuid,
    o: CallOptions,
    run: (uuid: MachineUuid) => Promise<T>,
  ) => {
    const uuid = checked(given);
    return await transport.locks.hold(`machine ${uuid}`, o.signal, () => run(uuid));
  };
  const creating = openCreating((uuid, payload, o) =>
    alone(uuid, o, () => operation.create(host, uuid, payload, o.signal, o.claiming))
  );
  return {
    validateCreate: (payload, o = {}) =>
      operation.validateCreate(host, withPassword(payload), o.signal),
    create: async (given, o = {}) => {
      const payload = withPassword(given);
      const uuid = parseUuid<MachineUuid>(payload.uuid, "machine.uuid");
      return { uuid, state: await creating.create(uuid, payload, o) };
    },
    settled: (uuid, o = {}) => creating.settled(checked(uuid), o),
    get: async (uuid, o = {}) => {
      const machine = await lookUp(host, checked(uuid), o.signal);
      return machine === null ? null : withoutSecrets(machine);
    },
    list: (o = {}) => list(host, o),
    boot: async (uuid, args, o = {}) => {
      const words = bootWords(args);
      await alone(uuid, o, (uuid) => power.boot(host, uuid, words, o));
    },
    stop: (uuid, args, o = {}) => alone(uuid, o, (uuid) => power.stop(host, uuid, args, o.signal)),
    reboot: (uuid, args, o = {}) =>
      alone(uuid, o, (uuid) => power.reboot(host, uuid, args.force === true, o.signal)),
    update: (uuid, changes, o = {}) =>
      alone(uuid, o, (uuid) => operation.update(host, uuid, changes, o.signal)),
    delete: (uuid, o = {}) =>
      alone(uuid, o, (uuid) => operation.destroy(host, uuid, o.claimed === true, o.signal)),
    removeLeft: (uuid, left, o = {}) =>
      alone(uuid, o, (uuid) => removeLeft(host, uuid, left, o.signal)),
    infoVnc: async (uuid, o = {}) => {
      const console = await operation.infoVnc(host, checked(uuid), o.signal);
      if (console === null) return null;
      const { password: _password, ...address } = console;
      return address;
    },
    vncConsole: async (uuid, o = {}) => await operation.infoVnc(host, checked(uuid), o.signal),
    endOfLog: (uuid, o = {}) => alone(uuid, o, (uuid) => endOfMachineLog(host, uuid, o.signal)),
    connectVnc: (address, { signal } = {}) => connectVnc(transport, address, { signal }),
  };
}

async function endOfMachineLog(
  host: VmadmHost,
  uuid: MachineUuid,
  signal: AbortSignal | undefined,
): Promise<string> {
  const machine = await lookUp(host, uuid, signal);
  return machine === null ? "it has been deleted" : await endOfLog(host.transport, machine);
}

type CreateOptions = CallOptions & { claiming?: () => Promise<void> };

/** Creates, and the ends of aborted ones, which vmadm continues. */
interface Creating {
  create(uuid: MachineUuid, payload: JsonObject, o: CreateOptions): Promise<string>;
  settled(uuid: MachineUuid, o: CallOptions): Promise<void>;
}

function openCreating(create: Creating["create"]): Creating {
  const givenUp = new Map<MachineUuid, Promise<void>>();
  return {
    async create(uuid, payload, o) {
      const creating = create(uuid, payload, o);
      try {
        return await orAborted(`Cannot create machine ${uuid}`, creating, o.signal);
      } catch (error) {
        if (o.signal?.aborted) {
          const end: Promise<void> = creating.then(() => {}, () => {}).then(() => {
            if (givenUp.get(uuid) === end) givenUp.delete(uuid);
          });
          givenUp.set(uuid, end);
        }
        throw error;
      }
    },
    async settled(uuid, o) {
      const end = givenUp.get(uuid) ?? Promise.resolve();
      await orAborted(`Cannot wait for machine ${uuid}`, end, o.signal);
    },
  };
}

/** Id types exist only for the compiler, and vmadm would take a uuid such as `--help` as an option. */
function checked(uuid: MachineUuid): MachineUuid {
  return parseUuid<MachineUuid>(uuid, "uuid");
}

/** Which job the leftover belongs to, and what may be removed. */
interface LeftMachine {
  /** The job that the machine's tag names. */
  readonly job_uuid: string;
  /** Whether to remove a machine too; otherwise only datasets without one. */
  readonly machine: boolean;
  /**
   * Whether it still belongs to that job; called while this agent makes no other call about the machine.
   */
  readonly still: () => Promise<boolean>;
}

/**
 * Removes what a job should have removed before it ended and could not: its machine with all datasets, or datasets left
 * without a machine. It runs unattended, so it checks that the machine still belongs to that job, and that the job made
 * it. What another job made is kept, without an error.
 * @throws {AgentError} see Vmadm.stop() and Vmadm.delete()
 */
async function removeLeft(
  host: VmadmHost,
  uuid: MachineUuid,
  { job_uuid, machine: machineToo, still }: LeftMachine,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (!await still()) return;
  const machine = await lookUp(host, uuid, signal);
  if (machine === null) {
    await destroyOrphans(host, uuid);
    return;
  }
  if (!machineToo || !isOf(job_uuid, machine)) return;
  if (power.UP.includes(machine.state)) await power.stop(host, uuid, { force: true }, signal);
  await operation.destroy(host, uuid, true, signal);
}

function isOf(job_uuid: string, { tags, state }: JsonObject): boolean {
  const owner = isJsonObject(tags) ? tags[JOB_TAG] : undefined;
  return owner === undefined ? HALF_MADE.some((known) => known === state) : owner === job_uuid;
}

/**
 * Concurrent lookups of machines, for all tasks together and for all callers together: each is one short process. A task
 * may have 32 calls under way, and 256 requests may arrive at once, which would starve the host and the agent.
 */
export const READS_AT_ONCE = 6;
/**
 * With more slots each has a lookup of its own, so that no job waits for others; with many slots
 * they share.
 */
export const READS_AT_ONCE_MAX = 16;

/**
 * vmadm with limited lookups; its other methods are unchanged.
 * @param slots concurrent jobs
 */
export function withReadTurns(vmadm: Vmadm, slots: number): Vmadm {
  const turns = openTurns(Math.min(Math.max(slots, READS_AT_ONCE), READS_AT_ONCE_MAX));
  return {
    ...vmadm,
    get: (uuid, o = {}) =>
      turns.take(`Cannot look at machine ${uuid}`, o.signal, () => vmadm.get(uuid, o)),
    list: (o = {}) => turns.take("Cannot list the machines", o.signal, () => vmadm.list(o)),
    validateCreate: (payload, o = {}) =>
      turns.take("Cannot check the payload", o.signal, () => vmadm.validateCreate(payload, o)),
    infoVnc: (uuid, o = {}) =>
      turns.take(`Cannot look up the console of ${uuid}`, o.signal, () => vmadm.infoVnc(uuid, o)),
    vncConsole: (uuid, o = {}) =>
      turns.take(
        `Cannot look up the console of ${uuid}`,
        o.signal,
        () => vmadm.vncConsole(uuid, o),
      ),
  };
}
