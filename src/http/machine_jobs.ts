// Jobs that make machines. A machine may have many finished jobs but one unfinished one: a second
// job with other wishes would undo what the first one makes. `target` with equal params is refused
// by the store; jobs with other params are refused here, one request at a time.

import { AgentError, invalidArgument } from "../domain/error.ts";
import type { JobUuid, MachineUuid } from "../domain/id.ts";
import { isUndoing, type Job, type NewJob } from "../domain/job.ts";
import { isFinal } from "../domain/job_state.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "../domain/json.ts";
import { type MachineRequest, parseMachineRequest } from "../domain/machine.ts";
import type { CreateJobOutcome, RetryOutcome } from "../store/job_store.ts";
import type { AppDeps } from "./app_deps.ts";
import { earlierJob } from "./idempotency.ts";
import { jobRefusal } from "./job_refusal.ts";
import { jobsOf, MACHINE_TARGET, machineTarget } from "./machine_history.ts";

/** What a caller of POST /agent/v1/machines is told. */
export interface StartedMachine {
  readonly uuid: MachineUuid;
  readonly job_uuid: JobUuid;
}

export interface MachineJobs {
  /**
   * Starts the making of a machine. An equal request for the same uuid is answered with the job
   * that there is, while that is unfinished, or when it has made the machine.
   * @throws {AgentError} `conflict` naming another unfinished job of the machine; `not_found`
   */
  start(request: MachineRequest): Promise<StartedMachine>;
  /**
   * Writes a job that was asked for by POST /jobs, once its params are known to be a request. Its
   * target becomes the machine's; without a uuid in its params, the machine gets the job's.
   * @throws {AgentError} `invalid_argument`; `conflict` as above
   */
  create(job: NewJob): Promise<CreateJobOutcome>;
  /**
   * Makes a finished job of a machine anew, under the rules of a new one: a machine that had the uuid
   * of its job gets that of the new job.
   * @throws {AgentError} `invalid_argument`; `conflict` as above
   */
  retry(uuid: JobUuid, successor: NewJob): Promise<RetryOutcome>;
}

export function openMachineJobs(deps: AppDeps): MachineJobs {
  let last: Promise<unknown> = Promise.resolve();
  /** Runs one function after the other, so that nothing comes between its check and its write. */
  const inTurn = <T>(run: () => Promise<T>): Promise<T> => {
    const mine = last.then(run);
    last = mine.catch(() => {});
    return mine;
  };
  return {
    start: (request) => inTurn(() => startMachine(request, deps)),
    create: (job) => inTurn(() => createMachineJob(job, deps)),
    retry: (uuid, successor) => inTurn(() => retryMachineJob(uuid, successor, deps)),
  };
}

async function startMachine(request: MachineRequest, deps: AppDeps): Promise<StartedMachine> {
  const uuid = request.uuid ?? deps.newUuid<MachineUuid>();
  const params = paramsOf(request, uuid);
  const target = machineTarget(uuid);
  if (request.uuid !== undefined) {
    const job = await jobToJoin(target, params, uuid, deps);
    if (job !== undefined) return { uuid, job_uuid: job.uuid };
  }
  const stored = await deps.store.workflows.get(deps.machines.provisionWorkflow);
  if (stored === undefined) {
    throw new AgentError("not_found", "Cannot make a machine: its built-in workflow is missing");
  }
  const now = deps.now();
  const outcome = await deps.store.jobs.create({
    uuid: deps.newUuid<JobUuid>(),
    workflow: stored.workflow,
    exec_after: now,
    target,
    params,
    created_at: now,
  }, deps.limits.unfinishedJobsMax);
  if (outcome.kind === "duplicate") return { uuid, job_uuid: outcome.job_uuid };
  if (outcome.kind !== "created" && outcome.kind !== "repeated") throw jobRefusal(outcome);
  deps.wake();
  return { uuid, job_uuid: outcome.job.uuid };
}

/** The job that an equal request has made already, while it still stands for the machine. */
async function jobToJoin(
  target: string,
  params: JsonObject,
  uuid: MachineUuid,
  deps: AppDeps,
): Promise<Job | undefined> {
  const { machines } = deps;
  const jobs = await jobsOf(target, deps);
  const unfinished = unfinishedOf(jobs, deps);
  if (unfinished !== undefined) {
    if (mayJoin(unfinished, params, deps)) return unfinished;
    throw otherJob(unfinished, target);
  }
  // Jobs that failed since, because the machine is there, and jobs of other workflows on the same
  // target do not change which request made it.
  const made = jobs.find(({ execution, workflow_uuid }) =>
    execution === "succeeded" && workflow_uuid === machines.provisionWorkflow
  );
  if (made === undefined || !sameRequest(made.params, params)) return undefined;
  // A machine that was deleted since can be made again by the request that made it.
  return await machines.vmadm.get(uuid) === null ? undefined : made;
}

async function createMachineJob(job: NewJob, deps: AppDeps): Promise<CreateJobOutcome> {
  const { store, limits } = deps;
  // Of equal requests that arrive together, the later ones find the first one's job here.
  const earlier = await earlierJob(job.idempotency, store.jobs);
  if (earlier !== undefined) return earlier;
  const claim = await claimMachine(job, deps);
  if (claim.kind === "duplicate") return claim;
  return await store.jobs.create(claim.job, limits.unfinishedJobsMax);
}

async function retryMachineJob(
  uuid: JobUuid,
  successor: NewJob,
  deps: AppDeps,
): Promise<RetryOutcome> {
  const { store, limits } = deps;
  const unnamed = successor.params.uuid === undefined && successor.target === machineTarget(uuid);
  const claim = await claimMachine({ ...successor, ...(unnamed ? { target: null } : {}) }, deps);
  if (claim.kind === "duplicate") return claim;
  return await store.jobs.retry(uuid, claim.job, limits.unfinishedJobsMax);
}

/** A job with the target of its machine, which no other job has; or the one that does the same. */
type Claim =
  | { readonly kind: "free"; readonly job: NewJob }
  | { readonly kind: "duplicate"; readonly job_uuid: JobUuid };

/** @throws {AgentError} `invalid_argument`; `conflict` naming another unfinished job */
async function claimMachine(job: NewJob, deps: AppDeps): Promise<Claim> {
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
  const unfinished = unfinishedOf(await jobsOf(target, deps), deps);
  if (unfinished === undefined) return { kind: "free", job: { ...job, target, params } };
  if (!mayJoin(unfinished, params, deps)) throw otherJob(unfinished, target);
  return { kind: "duplicate", job_uuid: unfinished.uuid };
}

/** The unfinished job that holds a machine; one that makes it comes before those of other workflows. */
function unfinishedOf(jobs: readonly Job[], { machines }: AppDeps): Job | undefined {
  const unfinished = jobs.filter((job) => !isFinal(job.execution) || isUndoing(job));
  const making = unfinished.find((job) => job.workflow_uuid === machines.provisionWorkflow);
  return making ?? unfinished[0];
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

function paramsOf({ machine, media, boot }: MachineRequest, uuid: MachineUuid): JsonObject {
  // A media request is made of texts only; its optional keys are absent rather than undefined.
  return { uuid, machine, media: JSON.parse(JSON.stringify(media)) as JsonObject, boot };
}

function otherJob({ uuid, name, workflow_uuid }: Job, target: string): AgentError {
  const message = `Cannot start another job for ${target}: job ${uuid} of workflow ` +
    `${JSON.stringify(name)} (${workflow_uuid}) is not finished`;
  return new AgentError("conflict", message);
}
