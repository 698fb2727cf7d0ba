// What vmadm leaves behind and cannot remove: volumes of a create that died before it made the zone, which
// block the next create, and datasets that a delete overlooked.

import { AgentError, messageOf } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { CommandResult } from "../program.ts";
import { datasetsOf, destroyDatasets } from "../zone/datasets.ts";
import type { VmadmHost } from "./call.ts";
import { lookUp } from "./lookup.ts";

/**
 * Runs a create, and removes its datasets when it was killed before it made a zone. They belong to this call:
 * nothing had the uuid before, and calls about one machine run one after another. A create that fails on its
 * own cleans up on its own.
 * @param claiming awaited before anything is made, when nothing has the uuid yet
 * @throws {AgentError} that of the create, naming what may be left
 */
export async function withoutDatasets(
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
export async function destroyLeft({ transport }: VmadmHost, uuid: MachineUuid): Promise<void> {
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
