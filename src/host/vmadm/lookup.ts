// Looks up machines. Their existence is checked here, since vmadm words "no such machine" differently
// everywhere.

import { AgentError } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { JsonObject } from "../../domain/json.ts";
import { DETAIL_PROPERTIES } from "../../domain/machine/shown.ts";
import type { CommandResult } from "../program.ts";
import {
  callVmadm,
  failureOf,
  parsed,
  parseMachine,
  parseMachines,
  type VmadmCall,
  type VmadmHost,
} from "./call.ts";

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

/** How machines are listed. */
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

/** The error of a failed call; `not_found` if the machine is gone, which vmadm's text may not say. */
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
    // Report the first failure.
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
