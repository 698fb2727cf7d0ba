// The operations of vmadm: the arguments of each call, its success message, and the failures that count as success. Also
// what vmadm leaves behind and cannot remove: volumes of a create that died before it made the zone, which block the next
// create, and datasets that a delete overlooked.

import { AgentError, messageOf } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { JsonObject } from "../../domain/json.ts";
import { callVmadm, commandOf, failureOf, parsed, type VmadmCall, type VmadmHost } from "./call.ts";
import type { CommandResult } from "../program.ts";
import { datasetsOf, destroyDatasets } from "../zone/datasets.ts";
import { DETAIL_PROPERTIES } from "../../domain/machine/shown.ts";
import {
  createdUuid,
  isDone,
  isNotAnsweringYet,
  isValid,
  parseMachine,
  parseMachines,
  parseValidation,
  parseVnc,
} from "./output.ts";

type Signal = AbortSignal | undefined;

/** @throws {AgentError} `invalid_argument` with vmadm's findings as `errors` */
export async function validateCreate(
  host: VmadmHost,
  payload: JsonObject,
  signal: Signal,
): Promise<void> {
  const action = "Cannot accept the machine";
  const args = ["validate", "create"];
  const call: VmadmCall = { operation: "validate", action, args, payload, signal };
  const result = await callVmadm(host, call);
  if (isValid(result)) return;
  const errors = parseValidation(result.stderr);
  if (errors === null) throw failureOf(call, result);
  const message = `${action}: ${errors.map((error) => error.message).join(", ")}`;
  throw new AgentError("invalid_argument", message, { errors });
}

/**
 * Continues when `released` fires: a create that is cut off leaves volumes that vmadm cannot remove.
 * @param claiming see withoutDatasets()
 * @returns the state of the machine afterwards
 * @throws {AgentError} `already_exists`, `conflict`, `storage_full`, `host`
 */
export async function create(
  host: VmadmHost,
  uuid: MachineUuid,
  payload: JsonObject,
  released: Signal,
  claiming?: () => Promise<void>,
): Promise<string> {
  const action = `Cannot create machine ${uuid}`;
  const call: VmadmCall = {
    operation: "create",
    action,
    args: ["create"],
    payload: { ...payload, uuid },
    released,
  };
  const result = await withoutDatasets(host, uuid, () => callVmadm(host, call), claiming);
  const created = createdUuid(result);
  if (result.code !== 0 || created === null) throw failureOf(call, result);
  if (created !== uuid) {
    throw new AgentError(
      "host",
      `${action}: ${commandOf(call)} reports that it created ${JSON.stringify(created)}`,
    );
  }
  const made = await lookUp(host, uuid, undefined);
  if (made === null) {
    const message = `${action}: ${commandOf(call)} reports success, but the machine does not exist`;
    throw new AgentError("host", message);
  }
  return String(made.state);
}

/**
 * Changes properties of a machine.
 * @see vmadm(8), update
 * @throws {AgentError} `not_found` when there is no such machine, else as failureOf()
 */
export async function update(
  host: VmadmHost,
  uuid: MachineUuid,
  changes: JsonObject,
  signal: Signal,
): Promise<void> {
  const call: VmadmCall = {
    operation: "update",
    action: `Cannot update machine ${uuid}`,
    args: ["update", uuid],
    payload: changes,
    signal,
  };
  const result = await callVmadm(host, call);
  if (isDone(result, "update", uuid)) return;
  throw await explained(host, uuid, call, result);
}

/**
 * Deletes a machine; one that does not exist is not an error.
 * @param claimed whether everything of this uuid may go, even without a machine
 * @returns names of destroyed datasets that belonged to no machine
 * @throws {AgentError} as failureOf() when vmadm fails on an existing machine
 */
export async function destroy(
  host: VmadmHost,
  uuid: MachineUuid,
  claimed: boolean,
  signal: Signal,
): Promise<string[]> {
  const call: VmadmCall = {
    operation: "delete",
    action: `Cannot delete machine ${uuid}`,
    args: ["delete", uuid],
    signal,
  };
  const result = await callVmadm(host, call);
  if (isDone(result, "delete", uuid)) {
    await destroyLeft(host, uuid);
    return [];
  }
  const failure = await explained(host, uuid, call, result);
  if (failure.code !== "not_found") throw failure;
  return claimed ? await destroyOrphans(host, uuid) : [];
}

/**
 * The address of the console, with its password; null while nothing listens, or nothing answers vmadm.
 * @throws {AgentError} `not_found` when there is no such machine, else as failureOf()
 */
export async function infoVnc(
  host: VmadmHost,
  uuid: MachineUuid,
  signal: Signal,
): Promise<ReturnType<typeof parseVnc>> {
  const call: VmadmCall = {
    operation: "info",
    action: `Cannot look up the VNC console of machine ${uuid}`,
    args: ["info", uuid, "vnc"],
    signal,
  };
  const result = await callVmadm(host, call);
  if (result.code === 0) return parsed(call, result, parseVnc);
  if (isNotAnsweringYet(result)) return null;
  throw await explained(host, uuid, call, result);
}

/**
 * Runs a create, and removes its datasets when it was killed before it made a zone. They belong to this call:
 * nothing had the uuid before, and calls about one machine run one after another. A create that fails on its
 * own cleans up on its own.
 * @param claiming awaited before anything is made, when nothing has the uuid yet
 * @throws {AgentError} that of the create, naming what may be left
 */
async function withoutDatasets(
  host: VmadmHost,
  uuid: MachineUuid,
  create: () => Promise<CommandResult>,
  claiming: () => Promise<void> = () => Promise.resolve(),
): Promise<CommandResult> {
  // Without an answer of zfs nothing is known, so nothing is removed.
  const before = await datasetsOf(host.transport, uuid).catch(() => null);
  if (before !== null && before.length === 0) await claiming();
  const tidy = async () => {
    if (before === null || before.length > 0) return "";
    try {
      if (await lookUp(host, uuid, undefined) !== null) return "";
      await destroyDatasets(host.transport, await datasetsOf(host.transport, uuid));
      return "";
    } catch (error) {
      return `; it may have left datasets: ${messageOf(error)}`;
    }
  };
  let result: CommandResult;
  try {
    result = await create();
  } catch (error) {
    // It was killed by its deadline or for too much output.
    if (!(error instanceof AgentError) || !["timeout", "host"].includes(error.code)) throw error;
    const left = await tidy();
    throw left === "" ? error : new AgentError(error.code, error.message + left, { cause: error });
  }
  if (result.signal === null) return result;
  const left = await tidy();
  return left === "" ? result : { ...result, stderr: `${result.stderr}${left}\n` };
}

/**
 * Destroys what a create that died has left without a machine. The caller knows that nothing had the uuid
 * before that create, and that there is no machine.
 * @returns names of destroyed datasets
 * @throws {AgentError} `host` when something stays, or zfs fails
 */
export async function destroyOrphans({ transport }: VmadmHost, uuid: MachineUuid) {
  try {
    const orphans = await datasetsOf(transport, uuid);
    await destroyDatasets(transport, orphans);
    return orphans;
  } catch (cause) {
    const message = `Cannot remove what a failed create of machine ${uuid} left: ${
      messageOf(cause)
    }`;
    throw new AgentError("host", message, { cause });
  }
}

/**
 * Destroys what a successful delete has left of its machine.
 * @throws {AgentError} `host` when something stays
 */
async function destroyLeft({ transport }: VmadmHost, uuid: MachineUuid): Promise<void> {
  // vmadm has reported success, and without an answer of zfs nothing contradicts it.
  const left = await datasetsOf(transport, uuid).catch(() => []);
  try {
    await destroyDatasets(transport, left);
  } catch (cause) {
    const message =
      `Cannot delete machine ${uuid}: "vmadm delete ${uuid}" reports success, but some of it remains: ` +
      messageOf(cause);
    throw new AgentError("host", message, { cause });
  }
}

/** Fields of a machine in every list, which vmadm reads from the zones alone. */
const LIST_FIELDS = "uuid,alias,brand,state,zone_state,ram,vcpus,quota,autoboot,zonepath";

/** The states in which vmadm performs an operation. */
const STATES_WANTED: Readonly<Partial<Record<VmadmCall["operation"], readonly string[]>>> = {
  info: ["running", "stopping"],
  reboot: ["running"],
};

/**
 * The machine with all its properties; null when there is none.
 * @throws {AgentError} as failureOf() when vmadm fails
 */
export async function lookUp(
  host: VmadmHost,
  uuid: MachineUuid,
  signal: AbortSignal | undefined,
): Promise<JsonObject | null> {
  const call: VmadmCall = {
    operation: "lookup",
    action: `Cannot look up machine ${uuid}`,
    args: ["lookup", "-j", `uuid=${uuid}`],
    signal,
  };
  const result = await callVmadm(host, call);
  if (result.code !== 0) throw failureOf(call, result);
  return parsed(call, result, (stdout) => parseMachine(stdout, uuid));
}

/** How much of each machine is listed, and until when. */
export interface MachineListOptions {
  readonly signal?: AbortSignal;
  /** With DETAIL_PROPERTIES, for which vmadm has to ask zfs too; still one call for all machines. */
  readonly detailed?: boolean;
}

/**
 * All machines with some of their fields.
 * @throws {AgentError} as failureOf() when vmadm fails
 */
export async function list(
  host: VmadmHost,
  { signal, detailed = false }: MachineListOptions,
): Promise<JsonObject[]> {
  const fields = detailed ? [LIST_FIELDS, ...DETAIL_PROPERTIES].join() : LIST_FIELDS;
  const call: VmadmCall = {
    operation: "lookup",
    action: "Cannot list the machines",
    args: ["lookup", "-j", "-o", fields],
    signal,
  };
  const result = await callVmadm(host, call);
  if (result.code !== 0) throw failureOf(call, result);
  return parsed(call, result, parseMachines);
}

/** The error of a failed call; `not_found` if the machine is gone, which vmadm words differently everywhere. */
export async function explained(
  host: VmadmHost,
  uuid: MachineUuid,
  call: VmadmCall,
  result: CommandResult,
): Promise<AgentError> {
  const failure = failureOf(call, result);
  let machine: JsonObject | null;
  try {
    machine = await lookUp(host, uuid, call.signal);
  } catch {
    // The first failure says more than the second.
    return failure;
  }
  if (machine === null) {
    const message = `${call.action}: there is no such machine`;
    return new AgentError("not_found", message, { cause: failure });
  }
  const state = String(machine.state);
  const wanted = STATES_WANTED[call.operation];
  if (wanted !== undefined && !wanted.includes(state)) {
    const expected = wanted.map((one) => JSON.stringify(one)).join(" or ");
    const message = `${call.action}: its state is ${JSON.stringify(state)}, expected ${expected}`;
    return new AgentError("conflict", message, { cause: failure });
  }
  return failure;
}
