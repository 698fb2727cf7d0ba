// Drives vmadm, the admin tool of the host. Every call names its machine by a checked uuid, has a
// deadline, and is believed only when vmadm says the sentence that belongs to its success. Calls
// that change one machine are made one after another, since vmadm takes no lock of its own.

import { type MachineUuid, parseUuid } from "../../domain/id.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { orAborted } from "../abort.ts";
import { type BOOT_DEVICES, bootWords } from "./boot_words.ts";
import { withoutSecrets } from "./output.ts";
import type { Transport } from "../transport.ts";
import {
  connectVnc,
  type NewPassword,
  randomPassword,
  type VncConnection,
  withPassword,
} from "./vnc_connection.ts";
import { VMADM_DEADLINES_MS, type VmadmDeadlines, type VmadmHost } from "./call.ts";
import * as operation from "./operations.ts";
import * as power from "./operations.ts";
import { JOB_TAG } from "../../domain/machine/metadata.ts";
import { destroy, destroyOrphans, lookUp, stop } from "./operations.ts";

/** How one call is made: it ends early when the signal fires. */
interface CallOptions {
  signal?: AbortSignal;
}

/** Where a VNC client connects to. vmadm chooses another port at each start of the machine. */
export interface VncAddress {
  /** Address of the host's global zone. */
  host: string;
  port: number;
  /** `port` less 5900, when vmadm tells it. */
  display?: number;
}

/** The console as those may see it who may use it. */
export interface VncConsole extends VncAddress {
  /** What a client has to know, in clear text, when the machine was given one. */
  password?: string;
}

/** How long a console may take to introduce itself, milliseconds. */
const BANNER_MS = 5_000;

/** qemu's letters: c is the disk, d the CD, n the network; tried from left to right. */
export type BootDevice = typeof BOOT_DEVICES[number];

/**
 * vmadm as the agent uses it. Besides what is said below, every method throws AgentError `host`
 * with the command, its exit code and what it wrote when it fails or answers something else than
 * vmadm does; `timeout` after its deadline, `aborted` when the caller gave up; and `not_found` when
 * there is no such machine.
 * @see the manual page vmadm(8) of SmartOS
 */
export interface Vmadm {
  /**
   * As of create(), `vnc_password` is true for a random one.
   * @throws {AgentError} `invalid_argument` whose `errors` name properties as `machine.ram`
   */
  validateCreate(payload: JsonObject, o?: CallOptions): Promise<void>;
  /**
   * Creates the machine that the payload describes, under the payload's own `uuid`. With
   * `vnc_password` true its console gets a random password, which vncConsole() tells.
   * A caller that gives up is answered at once, but vmadm goes on; see settled().
   * @param o `claiming`: told, and waited for, before vmadm makes anything, where nothing on the host
   * carries the uuid; not told where something does, or zfs does not answer
   * @returns what is there when it is done; `stopped` is a machine that can be used
   * @throws {AgentError} `conflict` when uuid or addresses are taken; `storage_full`
   */
  create(payload: JsonObject, o?: CreateOptions): Promise<{ uuid: MachineUuid; state: string }>;
  /** Waits until a create of this machine that its caller gave up has come to its end. */
  settled(uuid: MachineUuid, o?: CallOptions): Promise<void>;
  /** The machine without its console's password; null when there is none. */
  get(uuid: MachineUuid, o?: CallOptions): Promise<JsonObject | null>;
  /** All machines, the fields of a list of each: see LIST_FIELDS of vmadm_operations.ts. */
  list(o?: CallOptions): Promise<JsonObject[]>;
  /** Starts a machine; one that runs already is left as it is. Paths are `/name`, the bus is ide. */
  boot(
    uuid: MachineUuid,
    args: { order?: BootDevice; once?: BootDevice; cdrom?: string; disk?: string },
    o?: CallOptions,
  ): Promise<void>;
  /**
   * Stops a machine; one that is stopped already is left as it is. The guest has 180 seconds, or
   * `timeoutSeconds`, and is then forced.
   */
  stop(uuid: MachineUuid, args: power.StopOptions, o?: CallOptions): Promise<void>;
  /**
   * Starts a running machine anew, by its guest or, with `force`, at once. A medium that was given at
   * boot is lost, but for a kvm machine with `force`: that is a reset, which only vmadm can do. Tasks
   * call it; the built-in reboot does not, since of this one nobody could tell after a crash of the agent
   * whether it had happened.
   * @throws {AgentError} `conflict` when it is not running
   */
  reboot(uuid: MachineUuid, args: { force?: boolean }, o?: CallOptions): Promise<void>;
  update(uuid: MachineUuid, changes: JsonObject, o?: CallOptions): Promise<void>;
  /**
   * Deletes a machine with all its disks; one that is not there is no failure.
   * @param o `claimed`: nothing carried the uuid before its caller made the machine, so that datasets
   * go too which stand for no machine
   * @returns names of such datasets
   */
  delete(uuid: MachineUuid, o?: CallOptions & { claimed?: boolean }): Promise<string[]>;
  /** Removes what a job that has ended should have removed; see removeLeft(). */
  removeLeft(uuid: MachineUuid, left: LeftMachine, o?: CallOptions): Promise<void>;
  /**
   * Where the machine's VNC console listens; null while it does not.
   * @throws {AgentError} `conflict` when the machine is not running
   */
  infoVnc(uuid: MachineUuid, o?: CallOptions): Promise<VncAddress | null>;
  /** The same with the password: for the answer to somebody who asked for it, and nothing else. */
  vncConsole(uuid: MachineUuid, o?: CallOptions): Promise<VncConsole | null>;
  /**
   * Connects to an address that vmadm has just told.
   * @param o `bannerMs`: how long the console may take to introduce itself; 5 s when not given
   * @throws {AgentError} `host` when what answers there is no console; `timeout`; `aborted`
   */
  connectVnc(
    address: VncAddress,
    o?: CallOptions & { bannerMs?: number },
  ): Promise<VncConnection>;
}

/**
 * Opens the vmadm of a host.
 * @param deadlinesMs Deadlines that differ from VMADM_DEADLINES_MS
 * @param newPassword Makes the passwords of consoles
 */
export function openVmadm(
  transport: Transport,
  deadlinesMs: Partial<VmadmDeadlines> = {},
  newPassword: NewPassword = randomPassword,
): Vmadm {
  const host: VmadmHost = { transport, deadlinesMs: { ...VMADM_DEADLINES_MS, ...deadlinesMs } };
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
      operation.validateCreate(host, withPassword(payload, newPassword), o.signal),
    create: async (given, o = {}) => {
      const payload = withPassword(given, newPassword);
      const uuid = parseUuid<MachineUuid>(payload.uuid, "machine.uuid");
      return { uuid, state: await creating.create(uuid, payload, o) };
    },
    settled: (uuid, o = {}) => creating.settled(checked(uuid), o),
    get: async (uuid, o = {}) => {
      const machine = await operation.lookUp(host, checked(uuid), o.signal);
      return machine === null ? null : withoutSecrets(machine);
    },
    list: (o = {}) => operation.list(host, o.signal),
    boot: async (uuid, args, o = {}) => {
      const words = bootWords(args);
      await alone(uuid, o, (uuid) => power.boot(host, uuid, words, o.signal));
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
    connectVnc: (address, { bannerMs = BANNER_MS, signal } = {}) =>
      connectVnc(transport, address, { bannerMs, signal }),
  };
}

type CreateOptions = CallOptions & { claiming?: () => Promise<void> };

/** Creates, and the ends of those that their callers gave up: vmadm goes on with these. */
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

/** A brand is a promise of the compiler only; vmadm would take a word such as `--help` as an option. */
function checked(uuid: MachineUuid): MachineUuid {
  return parseUuid<MachineUuid>(uuid, "uuid");
}

// Removes what a job should have removed before it ended and could not. Nobody waits for it and nobody
// looks at what it does, so it asks twice: whether the machine is still that job's, and whether it is
// the machine that the job has made.

/** Whose leftover it is, and how far its removal may go. */
interface LeftMachine {
  /** The job that a machine names which it has made. */
  readonly job_uuid: string;
  /** Whether a machine goes too; otherwise only datasets that stand for none. */
  readonly machine: boolean;
  /**
   * Whether it is still that job's, asked while no other call about this machine of this agent is
   * under way.
   */
  readonly still: () => Promise<boolean>;
}

/** States of a machine whose create died: it may not have its tags yet, and nobody can use it. */
const HALF_MADE: readonly unknown[] = ["configured", "incomplete", "provisioning", "failed"];
const UP: readonly unknown[] = ["ready", "running", "stopping"];

/**
 * Removes a machine of a job with all that is its, or what is left without a machine. What is not of
 * that job stays, and is no failure.
 * @throws {AgentError} as Vmadm.stop() and Vmadm.delete()
 */
export async function removeLeft(
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
  if (UP.includes(machine.state)) await stop(host, uuid, { force: true }, signal);
  await destroy(host, uuid, true, signal);
}

function isOf(job_uuid: string, { tags, state }: JsonObject): boolean {
  const owner = isJsonObject(tags) ? tags[JOB_TAG] : undefined;
  return owner === undefined ? HALF_MADE.includes(state) : owner === job_uuid;
}
