// What vmadm leaves behind and cannot remove: the volumes of a create that died before it made the
// zone, which stop the next create, and a dataset that a delete has overlooked.

import { AgentError, messageOf } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { CommandResult } from "../command.ts";
import { datasetsOf, destroyDatasets } from "../zone/datasets.ts";
import type { VmadmHost } from "./call.ts";
import { parseMachine } from "./output.ts";

const LOOKUP_MS_MAX = 60_000;

/**
 * Makes a create, and removes its datasets when it was killed before it made a zone. They are this
 * call's: none carried the uuid before, and calls about one machine are made one after another. What
 * a create refuses by itself it removes by itself.
 * @param claiming told, and waited for, before anything is made where nothing carries the uuid
 */
export async function withoutDatasets(
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
export async function destroyLeft({ transport }: VmadmHost, uuid: MachineUuid): Promise<void> {
  const left = await datasetsOf(transport, uuid).catch(() => []);
  try {
    await destroyDatasets(transport, left);
  } catch (cause) {
    const message = `Cannot delete machine ${uuid}: vmadm says that it did, but not all is gone: ` +
      messageOf(cause);
    throw new AgentError("host", message, { cause });
  }
}
