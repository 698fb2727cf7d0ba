// Jobs of the actions on a machine: their params, and whether an existing job already does what a request asks for.

import { type AgentError, invalidArgument } from "../domain/error.ts";
import { type MachineUuid, parseUuid } from "../domain/id.ts";
import type { JobFields } from "../domain/job/job.ts";
import { machineTarget } from "../domain/job/summary.ts";
import { canonicalJson, type JsonObject } from "../domain/json.ts";
import {
  type MachineAction,
  machineNotFound,
  parseActionOptions,
  requireActable,
} from "../domain/machine/action.ts";
import { requireOwnMachine } from "../domain/policy.ts";
import { type HistoriesOnly, historyOf, holderOf, type JoinOrFree, otherJob } from "./history.ts";
import { type MachineLookup, otherTarget, type RequestChecks } from "./provision_job.ts";
import { ACTION_WORKFLOWS } from "./workflows/machine_life.ts";

/** An action on a machine. `machine` is vmadm's description; undefined for a machine of another host. */
interface ActionRequest {
  readonly action: MachineAction;
  readonly uuid: MachineUuid;
  readonly options: JsonObject;
  readonly machine: JsonObject | undefined;
}

/**
 * Reads the params of a job that acts on a machine, and asks vmadm for the machine.
 * @param elsewhere whether another host has it: what vmadm would say is then left to the tasks there
 * @throws {AgentError} `invalid_argument`; `not_found`; `host`, `timeout`
 */
export async function prepareAction(
  action: MachineAction,
  { params, target }: JobFields,
  elsewhere: boolean,
  { store, vmadm }: { readonly store: HistoriesOnly; readonly vmadm: MachineLookup },
): Promise<ActionRequest> {
  const uuid = parseUuid<MachineUuid>(params.uuid, "uuid");
  const given = parseActionOptions(action, params, ["uuid"]);
  if (target !== null && target !== machineTarget(uuid)) {
    throw otherTarget(target, machineTarget(uuid));
  }
  if (elsewhere) {
    if (action === "eject" && given.files === undefined) throw filesUnknown(uuid);
    return { action, uuid, options: given, machine: undefined };
  }
  const machine = await vmadm.get(uuid);
  if (machine === null) throw machineNotFound(uuid);
  const options = action === "eject" && given.files === undefined
    ? { files: [...(await historyOf(uuid, machine, store)).media] }
    : given;
  return { action, uuid, options, machine };
}

/**
 * Gives a job its machine, unless another job has it. The holder is checked before the machine's state,
 * which that job is changing.
 * @throws {AgentError} `conflict`, `forbidden`
 */
export async function claimForAction(
  { action, uuid, options, machine }: ActionRequest,
  job: JobFields,
  { store, policy }: Pick<RequestChecks, "store" | "policy">,
): Promise<JoinOrFree> {
  const target = machineTarget(uuid);
  const params = { uuid, ...options };
  const { holder } = await holderOf(target, store);
  if (holder !== undefined) {
    const same = holder.workflow_uuid === ACTION_WORKFLOWS[action] &&
      canonicalJson(holder.requested_params) === canonicalJson(params);
    if (!same) throw otherJob(holder, target);
    return { kind: "duplicate", job_uuid: holder.uuid };
  }
  if (machine !== undefined) {
    requireOwnMachine(policy, uuid, machine);
    requireActable(action, uuid, machine, options);
  }
  return { kind: "free", job: { ...job, target, machine_uuid: uuid, params } };
}

function filesUnknown(uuid: MachineUuid): AgentError {
  const message =
    `Cannot eject from machine ${uuid}: another host has it, and the files are not named, ` +
    `expected files, or POST /agent/v1/machines/${uuid}/eject, which that host answers`;
  return invalidArgument("files", message, "Missing");
}
