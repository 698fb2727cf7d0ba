// What tasks may do with machines. Every payload is held against the policy here, on the trusted
// side, whatever the body that sent it has checked before.

import { AgentError, invalidArgument } from "../domain/error.ts";
import { flag, openFindings, readObject, refuseFindings } from "../domain/field_check.ts";
import { type MachineUuid, parseUuid } from "../domain/id.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import { checkStop, STOP_CHECKS } from "../domain/machine/action.ts";
import { parseMachinePayload } from "../domain/machine/machine.ts";
import { needsMachine, parseMachineChanges, requireFitting } from "../domain/machine/changes.ts";
import { JOB_TAG } from "../domain/machine/metadata.ts";
import type { Policy } from "../domain/policy.ts";
import { requireHostRoom } from "../host/zone/host_room.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import type { StopArguments } from "../host/vmadm/vmadm_power.ts";
import type { Store } from "../store/store.ts";
import { parseBootArguments } from "./boot_arguments.ts";
import type { Call, CapabilitiesOf, Capability } from "./capability.ts";
import type { OwnMachines } from "./own_machines.ts";

const MINUTE_MS = 60_000;
const READ_DEADLINE_MS = 2 * MINUTE_MS;
/** Volumes are made one after another, and vmadm waits for its daemon. */
const CREATE_DEADLINE_MS = 15 * MINUTE_MS;
const BOOT_DEADLINE_MS = 10 * MINUTE_MS;
/** A graceful stop is forced by vmadm itself after three minutes. */
const STOP_DEADLINE_MS = 10 * MINUTE_MS;
/** vmadm waits three minutes for the guest, and then stops and starts the machine. */
const REBOOT_DEADLINE_MS = 16 * MINUTE_MS;
const UPDATE_DEADLINE_MS = 10 * MINUTE_MS;
const DELETE_DEADLINE_MS = 15 * MINUTE_MS;

/** What the capabilities about machines work with. */
export interface VmadmDeps {
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
      // A canceled job's create goes on. What undoes it must not find that nothing is there yet.
      await vmadm.settled(machineUuid(uuid), { signal });
      const machine = await vmadm.get(machineUuid(uuid), { signal });
      return machine === null ? null : withoutInternals(machine);
    }),
    "vmadm.list": within(READ_DEADLINE_MS, async ({ signal }) => {
      return (await vmadm.list({ signal })).map(withoutInternals);
    }),
    "vmadm.boot": within(BOOT_DEADLINE_MS, async ({ signal }, [uuid, args]) => {
      await vmadm.boot(machineUuid(uuid), parseBootArguments(args), { signal });
      return null;
    }),
    "vmadm.stop": within(STOP_DEADLINE_MS, async ({ signal }, [uuid, options]) => {
      await vmadm.stop(machineUuid(uuid), stopOptions(options), { signal });
      return null;
    }),
    "vmadm.reboot": within(REBOOT_DEADLINE_MS, async ({ signal }, [uuid, options]) => {
      await vmadm.reboot(machineUuid(uuid), rebootOptions(options), { signal });
      return null;
    }),
    "vmadm.update": within(UPDATE_DEADLINE_MS, async ({ signal }, [uuid, changes]) => {
      const parsed = parseMachineChanges(changes, policy);
      const id = machineUuid(uuid);
      if (needsMachine(parsed)) {
        requireFitting(parsed, await existingMachine(vmadm, id, signal), policy);
      }
      await vmadm.update(id, parsed, { signal });
      return null;
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
 * The uuid of a machine in an argument.
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
  if (machine === null) throw new AgentError("not_found", `Cannot find machine ${uuid}`);
  return machine;
}

function within(deadlineMs: number, perform: Capability["perform"]): Capability {
  return { deadlineMs, perform };
}

async function create(
  { vmadm, policy, own }: VmadmDeps,
  { job_uuid, signal }: Call,
  payload: JsonValue | undefined,
): Promise<JsonValue> {
  // The outcome of a create whose answer was lost can only be asked for by a uuid that is known.
  if (isJsonObject(payload) && payload.uuid === undefined) {
    throw invalidArgument(
      "payload.uuid",
      "Cannot create a machine: payload.uuid is missing",
      "Missing",
    );
  }
  const parsed = parseMachinePayload(payload, policy, "payload");
  const given = isJsonObject(parsed.tags) ? parsed.tags : {};
  const tagged = { ...parsed, tags: { ...given, [JOB_TAG]: job_uuid } };
  // vmadm create ends without a message on some payloads that validate names; see vmadm(8).
  await vmadm.validateCreate(tagged, { signal });
  const uuid = machineUuid(parsed.uuid);
  return await own.make({ uuid, job_uuid }, signal, async (claiming) => {
    return await vmadm.create(tagged, { signal, claiming });
  });
}

/** A job that found the uuid free also removes what of its own creates has become no machine. */
async function remove(
  { vmadm, store: { machineClaims } }: VmadmDeps,
  { job_uuid, task_name, signal, note }: Call,
  uuid: MachineUuid,
): Promise<void> {
  const claimed = (await machineClaims.get(uuid))?.job_uuid === job_uuid;
  const orphans = await vmadm.delete(uuid, { signal, claimed });
  if (orphans.length > 0) {
    const message = `Removed what a create that died had left: ${orphans.join(", ")}`;
    await note({ task: task_name, message });
  }
  if (claimed) await machineClaims.release(uuid, job_uuid);
}

/** Passwords of guests are kept there; those of consoles are left out by host/vmadm.ts. */
function withoutInternals({ internal_metadata: _internal, ...machine }: JsonObject): JsonObject {
  return machine;
}

function stopOptions(options: JsonValue | undefined): StopArguments {
  const findings = openFindings();
  const shape = { checks: STOP_CHECKS, required: [] };
  const read = readObject(options ?? {}, "options", shape, findings) ?? {};
  checkStop(read, "options", findings);
  refuseFindings(findings, "options");
  const { force, timeout } = read;
  return {
    ...(force === true ? { force } : {}),
    ...(typeof timeout === "number" ? { timeoutSeconds: timeout } : {}),
  };
}

function rebootOptions(options: JsonValue | undefined): { force?: boolean } {
  const findings = openFindings();
  const shape = { checks: { force: flag }, required: [] };
  const read = readObject(options ?? {}, "options", shape, findings);
  refuseFindings(findings, "options");
  return read?.force === true ? { force: true } : {};
}
