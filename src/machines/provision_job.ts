// Jobs of the provisioning workflow: their params, and whether an existing job already does what a
// request asks for.

import { invalidArgument } from "../domain/error.ts";
import { type JobUuid, type MachineUuid, parseUuid } from "../domain/id.ts";
import type { Job, NewJob } from "../domain/job/job.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "../domain/json.ts";
import {
  MACHINE_REQUEST_KEYS,
  type MachineRequest,
  parseMachineRequest,
} from "../domain/machine/machine.ts";
import type { Policy } from "../domain/policy.ts";
import {
  type Claim,
  holderOf,
  isProvisioning,
  jobsOf,
  type JobsOnly,
  MACHINE_TARGET,
  machineTarget,
  otherJob,
} from "./history.ts";

/** Looks a machine up; null when there is none. */
export interface MachineLookup {
  get(uuid: MachineUuid): Promise<JsonObject | null>;
}

/**
 * The job that made a machine which is gone since, so that the same request may make it again. Called
 * outside the queue of claims: a vmadm that hangs must not hold up requests for other machines.
 */
export async function jobOfGone(
  uuid: MachineUuid,
  { store, vmadm }: { readonly store: JobsOnly; readonly vmadm: MachineLookup },
): Promise<JobUuid | undefined> {
  const made = await jobThatMade(machineTarget(uuid), store);
  if (made === undefined) return undefined;
  return await vmadm.get(uuid) === null ? made.uuid : undefined;
}

/**
 * The job of an earlier equal request, unless its machine is gone.
 * @param gone what jobOfGone() returned
 * @throws {AgentError} `conflict` naming another unfinished job of the machine
 */
export async function jobToJoin(
  target: string,
  params: JsonObject,
  gone: JobUuid | undefined,
  store: JobsOnly,
): Promise<Job | undefined> {
  const holder = await holderOf(target, store);
  if (holder !== undefined) {
    if (mayJoin(holder, params)) return holder;
    throw otherJob(holder, target);
  }
  const made = await jobThatMade(target, store);
  if (made === undefined || !sameRequest(made.requested_params, params)) return undefined;
  return made.uuid === gone ? undefined : made;
}

/** Later jobs that failed because the machine exists do not change which one made it. */
async function jobThatMade(target: string, store: JobsOnly): Promise<Job | undefined> {
  const jobs = await jobsOf(target, store);
  return jobs.find((job) => job.execution === "succeeded" && isProvisioning(job));
}

/**
 * Gives a job the target of the machine that it makes.
 * @param replaces the finished job that it retries
 * @throws {AgentError} `invalid_argument`; `conflict` naming another unfinished job
 */
export async function claimMachine(
  given: NewJob,
  { store, policy }: { readonly store: JobsOnly; readonly policy: Policy },
  replaces: JobUuid | undefined,
): Promise<Claim> {
  // A machine named after its job is named after the new job.
  const unnamed = replaces !== undefined && given.params.uuid === undefined &&
    given.target === machineTarget(replaces);
  const job = unnamed ? { ...given, target: null } : given;
  const { uuid } = parseMachineRequest(requestOf(job.params), policy);
  const target = machineTarget(uuid ?? job.uuid);
  // A new machine is named after its job.
  const machine_uuid = uuid ?? parseUuid<MachineUuid>(job.uuid, "uuid");
  // Without a uuid the job may have any target except that of a machine which it does not make.
  const claims = uuid !== undefined || job.target?.startsWith(MACHINE_TARGET);
  if (claims && job.target !== null && job.target !== target) {
    const message = uuid === undefined
      ? `Cannot accept target: ${MACHINE_TARGET} is for the machine of params.uuid, which is missing`
      : `Cannot accept target: a job for machine ${uuid} has target ${target}`;
    throw invalidArgument("target", message);
  }
  if (uuid === undefined) {
    return { kind: "free", job: { ...job, target: job.target ?? target, machine_uuid } };
  }
  const params = { ...job.params, uuid };
  const holder = await holderOf(target, store);
  if (holder === undefined) return { kind: "free", job: { ...job, target, machine_uuid, params } };
  if (!mayJoin(holder, params)) throw otherJob(holder, target);
  return { kind: "duplicate", job_uuid: holder.uuid };
}

/** Whether an unfinished job does what a request asks for. */
function mayJoin(job: Job, params: JsonObject): boolean {
  return isProvisioning(job) && sameRequest(job.requested_params, params);
}

/** The params that describe the machine; others are the caller's own. */
function requestOf(params: JsonObject): JsonObject {
  const entries = MACHINE_REQUEST_KEYS
    .map((key): [string, JsonValue | undefined] => [key, params[key]])
    .filter((entry): entry is [string, JsonValue] => entry[1] !== undefined);
  return Object.fromEntries(entries);
}

function sameRequest(one: JsonObject, other: JsonObject): boolean {
  return canonicalJson(requestOf(one)) === canonicalJson(requestOf(other));
}

/** The params of the job that a request becomes. */
export function paramsOf({ machine, media, boot }: MachineRequest, uuid: MachineUuid): JsonObject {
  // Through JSON, so that optional keys are absent rather than undefined.
  return { uuid, machine, media: JSON.parse(JSON.stringify(media)) as JsonObject, boot };
}
