// Machines for tasks. Every payload is checked against the policy here, on the trusted side.

import { AgentError, invalidArgument } from "../domain/error.ts";
import { object } from "../domain/description/object.ts";
import { parse } from "../domain/description/description.ts";
import { flag, integer, oneOf, positive } from "../domain/description/value.ts";
import { type MachineUuid, parseUuid } from "../domain/id.ts";
import { isJsonObject, type JsonObject, type JsonValue, kindOf } from "../domain/json.ts";
import { machineNotFound, stopOptions } from "../domain/machine/action.ts";
import { parseMachinePayload } from "../domain/machine/machine.ts";
import {
  changedNics,
  needsMachine,
  parseMachineChanges,
  requireFitting,
  withOwnMacs,
} from "../domain/machine/changes.ts";
import { JOB_TAG, type Policy, requireOwnMachine } from "../domain/policy.ts";
import { requireNetworks } from "../host/inventory.ts";
import { datasetsOf, requireHostRoom } from "../host/zone/datasets.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { BOOT_DEVICES, type StopOptions } from "../host/vmadm/power.ts";
import type { Store } from "../store/store.ts";
import type { Call, CapabilitiesOf, Capability } from "./capability.ts";
import { MINUTE_MS } from "../domain/instant.ts";
import { mediumPath, parseMediaName } from "../domain/machine/media.ts";
import { waitForVnc } from "../host/vmadm/vnc.ts";

const READ_DEADLINE_MS = 2 * MINUTE_MS;
/** Volumes are made one after another, and vmadm waits for its daemon. */
const CREATE_DEADLINE_MS = 15 * MINUTE_MS;
const BOOT_DEADLINE_MS = 10 * MINUTE_MS;
/** vmadm forces a graceful stop after three minutes; one that is under way is waited for first. */
const STOP_DEADLINE_MS = 25 * MINUTE_MS;
/** vmadm waits three minutes for the guest, then stops and starts the machine. */
const REBOOT_DEADLINE_MS = 16 * MINUTE_MS;
const UPDATE_DEADLINE_MS = 10 * MINUTE_MS;
const DELETE_DEADLINE_MS = 15 * MINUTE_MS;

interface VmadmDeps {
  readonly vmadm: Vmadm;
  readonly transport: Transport;
  readonly policy: Policy;
  readonly store: Pick<Store, "machineClaims">;
  readonly own: OwnMachines;
}

/** The capabilities `vmadm.*`. @see vmadm(8) */
export function vmadmCapabilities(deps: VmadmDeps): CapabilitiesOf<"vmadm"> {
  const { vmadm, transport, policy } = deps;
  return {
    "vmadm.validate": within(READ_DEADLINE_MS, async ({ signal, task_name, note }, [payload]) => {
      const parsed = parseMachinePayload(payload, policy, "payload");
      await vmadm.validateCreate(parsed, { signal });
      const unasked = await requireHostRoom(transport, parsed, "payload", signal);
      for (const message of unasked) await note({ task: task_name, message });
      return null;
    }),
    "vmadm.create": within(CREATE_DEADLINE_MS, (call, [payload]) => {
      return create(deps, call, payload);
    }),
    "vmadm.get": within(CREATE_DEADLINE_MS, async ({ signal }, [uuid]) => {
      // The create of a canceled job continues. Its undo must not look before that has ended.
      await vmadm.settled(machineUuid(uuid), { signal });
      const machine = await vmadm.get(machineUuid(uuid), { signal });
      return machine === null ? null : withoutInternals(machine);
    }),
    "vmadm.list": within(READ_DEADLINE_MS, async ({ signal }) => {
      return (await vmadm.list({ signal })).map(withoutInternals);
    }),
    "vmadm.boot": within(BOOT_DEADLINE_MS, async ({ signal }, [uuid, args]) => {
      const { watch = WATCH_SECONDS, ...words } = parseBootArguments(args);
      await vmadm.boot(machineUuid(uuid), words, { signal, watchMs: watch * 1000 });
      return null;
    }),
    "vmadm.stop": within(STOP_DEADLINE_MS, async ({ signal, task_name, note }, [uuid, options]) => {
      const id = machineUuid(uuid);
      const onWait = (seconds: number) =>
        note({ task: task_name, message: `Machine ${id} is still stopping after ${seconds} s` });
      await vmadm.stop(id, { ...stopArguments(options), onWait }, { signal });
      return null;
    }),
    "vmadm.reboot": within(REBOOT_DEADLINE_MS, async ({ signal }, [uuid, options]) => {
      await vmadm.reboot(machineUuid(uuid), rebootOptions(options), { signal });
      return null;
    }),
    "vmadm.update": within(UPDATE_DEADLINE_MS, (call, [uuid, changes]) => {
      return update(deps, call, machineUuid(uuid), changes);
    }),
    "vmadm.delete": within(DELETE_DEADLINE_MS, async (call, [uuid]) => {
      await remove(deps, call, machineUuid(uuid));
      return null;
    }),
    "vmadm.info": within(READ_DEADLINE_MS, async ({ signal }, [uuid, section]) => {
      if (section !== "vnc") {
        throw invalidArgument("section", 'Cannot read the info: expected the section "vnc"');
      }
      const address = await vmadm.infoVnc(machineUuid(uuid), { signal });
      return address === null ? null : { ...address };
    }),
  };
}

/**
 * Parses the uuid of a machine.
 * @throws {AgentError} `invalid_argument`
 */
export function machineUuid(value: JsonValue | undefined): MachineUuid {
  return parseUuid<MachineUuid>(value, "uuid");
}

/**
 * The machine of that uuid.
 * @throws {AgentError} `not_found` when there is none
 */
export async function existingMachine(
  vmadm: Vmadm,
  uuid: MachineUuid,
  signal: AbortSignal,
): Promise<JsonObject> {
  const machine = await vmadm.get(uuid, { signal });
  if (machine === null) throw machineNotFound(uuid);
  return machine;
}

function within(deadlineMs: number, perform: Capability["perform"]): Capability {
  return { deadlineMs, perform };
}

async function create(
  { vmadm, policy, own }: VmadmDeps,
  call: Call,
  payload: JsonValue | undefined,
): Promise<JsonValue> {
  // Only a known uuid can be looked up after a create whose answer was lost.
  if (isJsonObject(payload) && payload.uuid === undefined) {
    throw invalidArgument(
      "payload.uuid",
      "Cannot create a machine: payload.uuid is missing, expected a uuid of the task's choice",
      "Missing",
    );
  }
  const parsed = parseMachinePayload(payload, policy, "payload");
  const given = isJsonObject(parsed.tags) ? parsed.tags : {};
  const { job_uuid, signal } = call;
  const tagged = { ...parsed, tags: { ...given, [JOB_TAG]: job_uuid } };
  // vmadm create ends without a message on some payloads that validate explains; see vmadm(8).
  await vmadm.validateCreate(tagged, { signal });
  const uuid = machineUuid(parsed.uuid);
  return await own.make(uuid, call, async (claiming) => {
    return await vmadm.create(tagged, { signal, claiming });
  });
}

/** Some changes can be checked only against the machine itself, whose nics they name. */
async function update(
  { vmadm, transport, policy }: VmadmDeps,
  { signal, task_name, note }: Call,
  uuid: MachineUuid,
  changes: JsonValue | undefined,
): Promise<null> {
  const parsed = parseMachineChanges(changes, policy);
  if (!needsMachine(parsed)) {
    await vmadm.update(uuid, parsed, { signal });
    return null;
  }
  const machine = await existingMachine(vmadm, uuid, signal);
  requireFitting(parsed, machine, policy);
  const unasked = await requireNetworks(transport, changedNics(parsed, machine), signal);
  for (const message of unasked) await note({ task: task_name, message });
  await vmadm.update(uuid, withOwnMacs(parsed, machine), { signal });
  return null;
}

/** A job that found the uuid free also removes what its own failed creates left. */
async function remove(
  { vmadm, store: { machineClaims } }: VmadmDeps,
  { job_uuid, task_name, signal, note, insist }: Call,
  uuid: MachineUuid,
): Promise<void> {
  const claimed = (await insist(() => machineClaims.get(uuid)))?.job_uuid === job_uuid;
  const orphans = await vmadm.delete(uuid, { signal, claimed });
  if (orphans.length > 0) {
    const message = `Removed what a failed create had left: ${orphans.join(", ")}`;
    await note({ task: task_name, message });
  }
  if (claimed) await insist(() => machineClaims.release(uuid, job_uuid));
}

/** Guests keep passwords there; host/vmadm/vmadm.ts leaves out those of consoles. */
function withoutInternals({ internal_metadata: _internal, ...machine }: JsonObject): JsonObject {
  return machine;
}

function stopArguments(options: JsonValue | undefined): StopOptions {
  const { force, timeout } = parse(stopOptions, options ?? {}, "options", "options");
  return {
    ...(force === true ? { force } : {}),
    ...(timeout === undefined ? {} : { timeoutSeconds: timeout }),
  };
}

function rebootOptions(options: JsonValue | undefined): { force?: boolean } {
  const { force } = parse(object({ force: flag }), options ?? {}, "options", "options");
  return force === true ? { force } : {};
}

// Ownership of machines. Where the policy protects machines that no job made, every call that
// changes one is checked here, whichever capability it is.

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

// File arguments of vmadm.boot() and media.remove(): paths as seen inside the zone.
// host/vmadm/power.ts turns them into arguments of the command.

type BootArguments = Parameters<Vmadm["boot"]>[1] & { watch?: number };

/** Seconds between the two looks at a machine that was started. */
const WATCH_SECONDS = 1;
const WATCH_SECONDS_MAX = 60;

/**
 * Reads `{order, once, cdrom, disk, watch}`, all of them optional.
 * @throws {AgentError} `invalid_argument` naming the field
 */
function parseBootArguments(value: JsonValue | undefined): BootArguments {
  // The first boot tries one device, then `order` applies.
  const single = BOOT_DEVICES.filter((word) => word.length === 1);
  const fields = {
    order: oneOf(BOOT_DEVICES),
    once: oneOf(single),
    cdrom: mediumPath,
    disk: mediumPath,
    watch: integer(0, WATCH_SECONDS_MAX),
  };
  return parse(object(fields), value ?? {}, "boot", "boot arguments");
}

/**
 * The name of a medium in the root of a zone, given as `/name` or `name`.
 * @throws {AgentError} `invalid_argument` naming `field`
 */
export function parseZoneFile(value: JsonValue | undefined, field: string): string {
  if (typeof value !== "string") {
    const found = `it is ${kindOf(value)}: expected the path of a medium in the zone`;
    throw invalidArgument(field, `Cannot read ${field}: ${found}`);
  }
  return parseMediaName(value.startsWith("/") ? value.slice(1) : value, field);
}

// Waits for a machine's console: vmadm reports a port, and an RFB server answers there.

const TIMEOUT_SECONDS = 120;
const TIMEOUT_SECONDS_MAX = 600;
/** The wait ends by its own timeout; this comes later. */
const DEADLINE_MS = (TIMEOUT_SECONDS_MAX + 30) * 1000;

/** `vnc.wait(uuid, {timeout})`: waits until the console answers. */
export function vncCapabilities(vmadm: Vmadm): CapabilitiesOf<"vnc"> {
  return {
    "vnc.wait": {
      deadlineMs: DEADLINE_MS,
      async perform({ signal }, [uuid, options]) {
        const deadlineMs = timeoutSeconds(options) * 1000;
        return { ...await waitForVnc(vmadm, machineUuid(uuid), { deadlineMs, signal }) };
      },
    },
  };
}

function timeoutSeconds(options: JsonValue | undefined): number {
  const { timeout } = parse(waitOptions, options ?? {}, "options", "options");
  return timeout ?? TIMEOUT_SECONDS;
}

const waitOptions = object({ timeout: positive(TIMEOUT_SECONDS_MAX, "seconds") });
