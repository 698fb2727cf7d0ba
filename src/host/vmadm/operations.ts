// What each operation of vmadm is: the words of the call, the sentence of its success, and which of
// its failures are none; vmadm_power.ts has those that start and stop machines. Existence is asked
// with lookup, since vmadm words "no such machine" differently on every path.

import { AgentError, messageOf } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { JsonObject } from "../../domain/json.ts";
import type { CommandResult } from "../command.ts";
import { callVmadm, failureOf, type VmadmCall, type VmadmHost } from "./call.ts";
import {
  createdUuid,
  messageOfOutput,
  parseMachine,
  parseMachines,
  parseValidation,
  parseVnc,
  says,
} from "./output.ts";
import { datasetsOf, destroyDatasets } from "../zone/datasets.ts";

type Signal = AbortSignal | undefined;

/** Fields of a machine in a list. */
const LIST_FIELDS = "uuid,alias,brand,state,zone_state,ram,vcpus,quota,autoboot,zonepath";

/** States without which an operation is refused, by operation; vmadm tells it in words only. */
const STATES_WANTED: Readonly<Partial<Record<VmadmCall["operation"], readonly string[]>>> = {
  info: ["running", "stopping"],
  reboot: ["running"],
};

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
  if (result.code === 0 && /^VALID 'create' payload/m.test(messageOfOutput(result.stderr))) return;
  const errors = parseValidation(result.stderr);
  if (errors === null) throw failureOf(call, result);
  const message = `${action}: ${errors.map((error) => error.message).join(", ")}`;
  throw new AgentError("invalid_argument", message, { errors });
}

/**
 * Goes on when `released` fires: a create that is cut off leaves volumes which no call of vmadm can
 * remove.
 * @param claiming see withoutDatasets()
 * @returns its state, as vmadm tells it when it is done
 * @throws {AgentError} `conflict`, `storage_full`, `host`
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
      `${action}: vmadm says that it created ${JSON.stringify(created)}`,
    );
  }
  const made = await lookUp(host, uuid, undefined);
  if (made === null) {
    const message = `${action}: vmadm says that it did, and that there is no such machine`;
    throw new AgentError("host", message);
  }
  return String(made.state);
}

/** The machine with all that vmadm knows of it; null when there is none. */
export async function lookUp(
  host: VmadmHost,
  uuid: MachineUuid,
  signal: Signal,
): Promise<JsonObject | null> {
  const call: VmadmCall = {
    operation: "lookup",
    action: `Cannot look up machine ${uuid}`,
    args: ["lookup", "-j", `uuid=${uuid}`],
    signal,
  };
  const result = await callVmadm(host, call);
  if (result.code !== 0) throw failureOf(call, result);
  return parseMachine(result.stdout, uuid);
}

/** All machines with some of their fields. */
export async function list(host: VmadmHost, signal: Signal): Promise<JsonObject[]> {
  const call: VmadmCall = {
    operation: "lookup",
    action: "Cannot list the machines",
    args: ["lookup", "-j", "-o", LIST_FIELDS],
    signal,
  };
  const result = await callVmadm(host, call);
  if (result.code !== 0) throw failureOf(call, result);
  return parseMachines(result.stdout);
}

/** Changes properties of a machine. @see vmadm(8), update */
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
  if (result.code === 0 && says(result, `Successfully updated VM ${uuid}`)) return;
  throw await explained(host, uuid, call, result);
}

/**
 * Deletes a machine; one that is not there is no failure.
 * @param claimed whether all that carries the uuid may go, also where there is no machine
 * @returns names of datasets that stood for no machine, and were destroyed
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
  if (result.code === 0 && says(result, `Successfully deleted VM ${uuid}`)) {
    await destroyLeft(host, uuid);
    return [];
  }
  const failure = await explained(host, uuid, call, result);
  if (failure.code !== "not_found") throw failure;
  return claimed ? await destroyOrphans(host, uuid) : [];
}

/**
 * Where the console listens, with its password; null while there is no listener, or none that
 * answers vmadm yet.
 */
export async function infoVnc(
  host: VmadmHost,
  uuid: MachineUuid,
  signal: Signal,
): Promise<ReturnType<typeof parseVnc>> {
  const call: VmadmCall = {
    operation: "info",
    action: `Cannot ask for the VNC console of machine ${uuid}`,
    args: ["info", uuid, "vnc"],
    signal,
  };
  const result = await callVmadm(host, call);
  if (result.code === 0) return parseVnc(result.stdout);
  // qemu has started and does not listen to vmadmd yet.
  if (/query returned 500\./.test(messageOfOutput(result.stderr))) return null;
  throw await explained(host, uuid, call, result);
}

/** A failed call as an error: that the machine is not there explains more than vmadm's words. */
async function explained(
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
    // The first failure is the one to tell.
    return failure;
  }
  if (machine === null) {
    const message = `${call.action}: there is no such machine`;
    return new AgentError("not_found", message, { cause: failure });
  }
  const state = String(machine.state);
  const wanted = STATES_WANTED[call.operation];
  if (wanted !== undefined && !wanted.includes(state)) {
    const message = `${call.action}: its state is ${JSON.stringify(state)}, wanted "running"`;
    return new AgentError("conflict", message, { cause: failure });
  }
  return failure;
}

// What vmadm leaves behind and cannot remove: the volumes of a create that died before it made the
// zone, which stop the next create, and a dataset that a delete has overlooked.

const LOOKUP_MS_MAX = 60_000;

/**
 * Makes a create, and removes its datasets when it was killed before it made a zone. They are this
 * call's: none carried the uuid before, and calls about one machine are made one after another. What
 * a create refuses by itself it removes by itself.
 * @param claiming told, and waited for, before anything is made where nothing carries the uuid
 */
async function withoutDatasets(
  host: VmadmHost,
  uuid: MachineUuid,
  create: () => Promise<CommandResult>,
  claiming: () => Promise<void> = () => Promise.resolve(),
): Promise<CommandResult> {
  // Where zfs cannot be asked nothing is known, and nothing is removed.
  const before = await datasetsOf(host.transport, uuid).catch(() => null);
  if (before !== null && before.length === 0) await claiming();
  const tidy = async () => {
    if (before === null || before.length > 0) return "";
    try {
      if (await isThere(host, uuid)) return "";
      await destroyDatasets(host.transport, await datasetsOf(host.transport, uuid));
      return "";
    } catch (error) {
      return `; what it made may be left: ${messageOf(error)}`;
    }
  };
  let result: CommandResult;
  try {
    result = await create();
  } catch (error) {
    // It was killed at its deadline, or by what it wrote.
    if (!(error instanceof AgentError) || !["timeout", "host"].includes(error.code)) throw error;
    const left = await tidy();
    throw left === "" ? error : new AgentError(error.code, error.message + left, { cause: error });
  }
  if (result.signal === null) return result;
  const left = await tidy();
  return left === "" ? result : { ...result, stderr: `${result.stderr}${left}\n` };
}

async function isThere({ transport }: VmadmHost, uuid: MachineUuid): Promise<boolean> {
  const args = ["lookup", "-j", `uuid=${uuid}`];
  const { code, stdout } = await transport.vmadm(args, { deadlineMs: LOOKUP_MS_MAX });
  if (code !== 0) throw new AgentError("host", "vmadm does not tell whether there is a machine");
  return parseMachine(stdout, uuid) !== null;
}

/**
 * Destroys what a create that died has left without a machine. The caller knows that nothing carried
 * the uuid before that create, and that there is no machine.
 * @returns names of what was destroyed
 * @throws {AgentError} `host` when something stays, or zfs does not tell
 */
export async function destroyOrphans({ transport }: VmadmHost, uuid: MachineUuid) {
  try {
    const orphans = await datasetsOf(transport, uuid);
    await destroyDatasets(transport, orphans);
    return orphans;
  } catch (cause) {
    const message = `Cannot remove what a create of machine ${uuid} left: ${messageOf(cause)}`;
    throw new AgentError("host", message, { cause });
  }
}

/**
 * Destroys what a delete that succeeded has left of its machine.
 * @throws {AgentError} `host` when something stays
 */
async function destroyLeft({ transport }: VmadmHost, uuid: MachineUuid): Promise<void> {
  const left = await datasetsOf(transport, uuid).catch(() => []);
  try {
    await destroyDatasets(transport, left);
  } catch (cause) {
    const message = `Cannot delete machine ${uuid}: vmadm says that it did, but not all is gone: ` +
      messageOf(cause);
    throw new AgentError("host", message, { cause });
  }
}

// Starting and stopping machines. vmadm words "it is so already" as a failure and exits with 0: that is
// no failure here.

/** Starts a machine with these boot words; one that runs already is left as it is. */
export async function boot(
  host: VmadmHost,
  uuid: MachineUuid,
  words: readonly string[],
  signal: Signal,
): Promise<void> {
  const call: VmadmCall = {
    operation: "boot",
    action: `Cannot boot machine ${uuid}`,
    args: ["boot", uuid, ...words],
    signal,
  };
  const result = await callVmadm(host, call);
  if (result.code === 0 && says(result, `Successfully started VM ${uuid}`)) return;
  // vmadm words this as a failure and exits with 0.
  const running = `Unable to start VM ${uuid}: VM ${uuid} is already 'running'`;
  if (result.code === 0 && says(result, running)) return;
  throw await explained(host, uuid, call, result);
}

/** How a machine is stopped: at once, or with so many seconds for its guest. */
export interface StopOptions {
  force?: boolean;
  timeoutSeconds?: number;
}

/** Stops a machine; one that is stopped already is left as it is. */
export async function stop(
  host: VmadmHost,
  uuid: MachineUuid,
  { force = false, timeoutSeconds }: StopOptions,
  signal: Signal,
): Promise<void> {
  const given = timeoutSeconds === undefined || force ? [] : ["-t", String(timeoutSeconds)];
  const call = forceable("stop", uuid, force, signal, given);
  const result = await callVmadm(host, call);
  if (result.code === 0 && says(result, `Successfully completed stop for VM ${uuid}`)) return;
  const text = messageOfOutput(result.stderr);
  if (result.code === 0 && text.includes(`VM ${uuid} is already not 'running'`)) return;
  throw await explained(host, uuid, call, result);
}

/**
 * Starts a running machine anew.
 * @throws {AgentError} `conflict` when it is not running
 */
export async function reboot(
  host: VmadmHost,
  uuid: MachineUuid,
  force: boolean,
  signal: Signal,
): Promise<void> {
  const call = forceable("reboot", uuid, force, signal);
  const result = await callVmadm(host, call);
  if (result.code === 0 && says(result, `Successfully completed reboot for VM ${uuid}`)) return;
  throw await explained(host, uuid, call, result);
}

/** With `-F` the guest is not asked. */
function forceable(
  operation: "stop" | "reboot",
  uuid: MachineUuid,
  force: boolean,
  signal: Signal,
  more: readonly string[] = [],
): VmadmCall {
  const args = [operation, uuid, ...(force ? ["-F"] : []), ...more];
  return { operation, action: `Cannot ${operation} machine ${uuid}`, args, signal };
}
