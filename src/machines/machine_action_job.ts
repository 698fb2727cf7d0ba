// Jobs that act on a machine: what they ask for, held against the machine and the policy before a row
// is written.

import { AgentError, invalidArgument } from "../domain/error.ts";
import { type MachineUuid, parseUuid } from "../domain/id.ts";
import type { NewJob } from "../domain/job/job.ts";
import { canonicalJson, type JsonObject } from "../domain/json.ts";
import {
  type MachineAction,
  parseActionOptions,
  requireActable,
} from "../domain/machine/action.ts";
import { requireOwnMachine } from "../domain/policy_check.ts";
import type { AppDeps } from "../http/app_deps.ts";
import { type Claim, historyOf, holderOf, machineTarget, otherJob } from "./history.ts";

/** An action that was asked for, with the machine as it was then. */
export interface ActionWish {
  readonly action: MachineAction;
  readonly uuid: MachineUuid;
  readonly options: JsonObject;
  readonly machine: JsonObject;
}

/**
 * Reads the params of a job that acts on a machine, and asks vmadm for the machine.
 * @throws {AgentError} `invalid_argument`; `not_found`; `host`, `timeout`
 */
export async function prepareAction(
  action: MachineAction,
  { params, target }: NewJob,
  deps: AppDeps,
): Promise<ActionWish> {
  const uuid = parseUuid<MachineUuid>(params.uuid, "uuid");
  const given = parseActionOptions(action, params, ["uuid"]);
  if (target !== null && target !== machineTarget(uuid)) {
    const message = `Cannot accept target: a job for machine ${uuid} has target ` +
      machineTarget(uuid);
    throw invalidArgument("target", message);
  }
  const machine = await deps.machines.vmadm.get(uuid);
  if (machine === null) throw new AgentError("not_found", `Cannot find machine ${uuid}`);
  const options = action === "eject" && given.files === undefined
    ? { files: [...(await historyOf(uuid, machine, deps)).media] }
    : given;
  return { action, uuid, options, machine };
}

/**
 * Gives a job its machine, unless another job has it. An equal job comes before the machine's state,
 * which that job is changing.
 * @throws {AgentError} `conflict`, `forbidden`
 */
export async function claimForAction(
  { action, uuid, options, machine }: ActionWish,
  job: NewJob,
  deps: AppDeps,
): Promise<Claim> {
  const { actionWorkflows, policy } = deps.machines;
  const target = machineTarget(uuid);
  const params = { uuid, ...options };
  const holder = await holderOf(target, deps);
  if (holder !== undefined) {
    const same = holder.workflow_uuid === actionWorkflows[action] &&
      canonicalJson(holder.params) === canonicalJson(params);
    if (!same) throw otherJob(holder, target);
    return { kind: "duplicate", job_uuid: holder.uuid };
  }
  requireOwnMachine(policy, uuid, machine);
  requireActable(action, uuid, machine, options);
  return { kind: "free", job: { ...job, target, params } };
}
