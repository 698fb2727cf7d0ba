// Jobs of the provisioning workflow: what they ask for, and whether a request is what one of them does
// already.

import { invalidArgument } from "../domain/error.ts";
import type { JobUuid, MachineUuid } from "../domain/id.ts";
import type { Job, NewJob } from "../domain/job/job.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "../domain/json.ts";
import { type MachineRequest, parseMachineRequest } from "../domain/machine/machine.ts";
import type { AppDeps } from "../http/app_deps.ts";
import {
  type Claim,
  holderOf,
  jobsOf,
  MACHINE_TARGET,
  machineTarget,
  otherJob,
} from "./history.ts";

/**
 * The job that made the machine of a request which is repeated, when that machine is gone: it can be
 * made again by the same request. Asked before its turn comes, since a vmadm that hangs must not hold up
 * the requests for other machines.
 */
export async function jobOfGone(uuid: MachineUuid, deps: AppDeps): Promise<JobUuid | undefined> {
  const made = await jobThatMade(machineTarget(uuid), deps);
  if (made === undefined) return undefined;
  return await deps.machines.vmadm.get(uuid) === null ? made.uuid : undefined;
}

/**
 * The job that an equal request has made already, while it still stands for the machine.
 * @param gone what jobOfGone() found
 */
export async function jobToJoin(
  target: string,
  params: JsonObject,
  gone: JobUuid | undefined,
  deps: AppDeps,
): Promise<Job | undefined> {
  const holder = await holderOf(target, deps);
  if (holder !== undefined) {
    if (mayJoin(holder, params, deps)) return holder;
    throw otherJob(holder, target);
  }
  const made = await jobThatMade(target, deps);
  if (made === undefined || !sameRequest(made.params, params)) return undefined;
  return made.uuid === gone ? undefined : made;
}

/**
 * Jobs that failed since, because the machine is there, and jobs of other workflows on the same target
 * do not change which request made it.
 */
async function jobThatMade(target: string, deps: AppDeps): Promise<Job | undefined> {
  return (await jobsOf(target, deps)).find(({ execution, workflow_uuid }) =>
    execution === "succeeded" && workflow_uuid === deps.machines.provisionWorkflow
  );
}

/**
 * Gives a job the target of the machine that it makes.
 * @param replaces the finished job that it is made anew of
 * @throws {AgentError} `invalid_argument`; `conflict` naming another unfinished job
 */
export async function claimMachine(
  given: NewJob,
  deps: AppDeps,
  replaces: JobUuid | undefined,
): Promise<Claim> {
  // A machine that had the uuid of its job gets that of the new job.
  const unnamed = replaces !== undefined && given.params.uuid === undefined &&
    given.target === machineTarget(replaces);
  const job = unnamed ? { ...given, target: null } : given;
  const { uuid } = parseMachineRequest(requestOf(job.params), deps.machines.policy);
  const target = machineTarget(uuid ?? job.uuid);
  // Without a uuid any other target will do, but not that of a machine which this job does not make.
  const claims = uuid !== undefined || job.target?.startsWith(MACHINE_TARGET);
  if (claims && job.target !== null && job.target !== target) {
    const message = uuid === undefined
      ? `Cannot accept target: ${MACHINE_TARGET} is for the machine of params.uuid, which is missing`
      : `Cannot accept target: a job for machine ${uuid} has target ${target}`;
    throw invalidArgument("target", message);
  }
  if (uuid === undefined) return { kind: "free", job: { ...job, target: job.target ?? target } };
  const params = { ...job.params, uuid };
  const holder = await holderOf(target, deps);
  if (holder === undefined) return { kind: "free", job: { ...job, target, params } };
  if (!mayJoin(holder, params, deps)) throw otherJob(holder, target);
  return { kind: "duplicate", job_uuid: holder.uuid };
}

/** Whether an unfinished job does what a request asks for. */
function mayJoin(job: Job, params: JsonObject, { machines }: AppDeps): boolean {
  return job.workflow_uuid === machines.provisionWorkflow && sameRequest(job.params, params);
}

const REQUEST_KEYS = ["uuid", "machine", "media", "boot"] as const;

/** What params say of the machine; whatever else they hold is their owner's. */
function requestOf(params: JsonObject): JsonObject {
  const entries = REQUEST_KEYS
    .map((key): [string, JsonValue | undefined] => [key, params[key]])
    .filter((entry): entry is [string, JsonValue] => entry[1] !== undefined);
  return Object.fromEntries(entries);
}

function sameRequest(one: JsonObject, other: JsonObject): boolean {
  return canonicalJson(requestOf(one)) === canonicalJson(requestOf(other));
}

/** The params of the job that a request becomes. */
export function paramsOf({ machine, media, boot }: MachineRequest, uuid: MachineUuid): JsonObject {
  // A media request is made of texts only; its optional keys are absent rather than undefined.
  return { uuid, machine, media: JSON.parse(JSON.stringify(media)) as JsonObject, boot };
}
