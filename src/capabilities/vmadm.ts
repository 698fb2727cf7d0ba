// Machines for tasks, and their consoles. Every payload is checked against the policy here, on the trusted side.

import { foundText, parse } from "../domain/description/description.ts";
import { object } from "../domain/description/object.ts";
import { flag, integer, oneOf, positive } from "../domain/description/value.ts";
import { invalidArgument } from "../domain/error.ts";
import { type MachineUuid, parseUuid } from "../domain/id.ts";
import { MINUTE_MS } from "../domain/instant.ts";
import { isJsonObject, type JsonObject, type JsonValue, kindOf } from "../domain/json.ts";
import { machineNotFound, stopOptions } from "../domain/machine/action.ts";
import {
  changedNics,
  needsMachine,
  parseMachineChanges,
  requireFitting,
  withOwnMacs,
} from "../domain/machine/changes.ts";
import { parseMachinePayload, VNC_SECONDS_MAX } from "../domain/machine/machine.ts";
import { mediumPath, parseMediaName } from "../domain/machine/media.ts";
import { JOB_TAG, type Policy } from "../domain/policy.ts";
import { requireHostRoom, requireNetworks } from "../host/machine_needs.ts";
import type { Transport } from "../host/transport.ts";
import { BOOT_DEVICES, type StopOptions } from "../host/vmadm/power.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { waitForVnc } from "../host/vmadm/vnc.ts";
import type { Store } from "../store/store.ts";
import type { Call, CapabilitiesOf, Capability } from "./capability.ts";
import type { OwnMachines } from "./own_machines.ts";

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
      const parsed = parseMachinePayload(payload, policy);
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
        const found = foundText(section ?? null, "section");
        const message = `Cannot read the info: its section is ${found}, expected "vnc"`;
        throw invalidArgument("section", message);
      }
      const address = await vmadm.infoVnc(machineUuid(uuid), { signal });
      return address === null ? null : { ...address };
    }),
  };
}

const VNC_SECONDS = 120;
/** The wait ends by its own timeout; this comes later. */
const VNC_DEADLINE_MS = (VNC_SECONDS_MAX + 30) * 1000;

/** `vnc.wait(uuid, {timeout})`: waits until vmadm reports a port, and an RFB server answers there. */
export function vncCapabilities(vmadm: Vmadm): CapabilitiesOf<"vnc"> {
  return {
    "vnc.wait": {
      deadlineMs: VNC_DEADLINE_MS,
      async perform({ signal }, [uuid, options]) {
        const deadlineMs = timeoutSeconds(options) * 1000;
        return { ...await waitForVnc(vmadm, machineUuid(uuid), { deadlineMs, signal }) };
      },
    },
  };
}

function timeoutSeconds(options: JsonValue | undefined): number {
  const { timeout } = parse(waitOptions, options ?? {}, "options", "options");
  return timeout ?? VNC_SECONDS;
}

const waitOptions = object({ timeout: positive(VNC_SECONDS_MAX, "seconds") });

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
  const parsed = parseMachinePayload(payload, policy);
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

type BootArguments = Parameters<Vmadm["boot"]>[1] & { watch?: number };

/** Seconds between the two looks at a machine that was started. */
const WATCH_SECONDS = 1;
const WATCH_SECONDS_MAX = 60;

/**
 * Reads `{order, once, cdrom, disk, watch}`, all of them optional; paths are as seen inside the zone.
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
 * The `file` of a placed medium, given as `/name` or `name`. @returns its name in the root of the zone
 * @throws {AgentError} `invalid_argument`
 */
export function parseZoneFile(value: JsonValue | undefined): string {
  if (typeof value !== "string") {
    const found = `it is ${kindOf(value)}, expected the path of a medium in the zone`;
    throw invalidArgument("file", `Cannot read file: ${found}`);
  }
  return parseMediaName(value.startsWith("/") ? value.slice(1) : value, "file");
}
