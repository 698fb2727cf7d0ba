// Jobs that make machines and act on them. A machine may have many finished jobs but one unfinished
// one: a second job with other wishes would undo what the first one does. `target` with equal params
// is refused by the store; other jobs are refused here, one request at a time.

import { AgentError, invalidArgument } from "../domain/error.ts";
import { type JobUuid, type MachineUuid, parseUuid, type WorkflowUuid } from "../domain/id.ts";
import type { Idempotency, NewJob } from "../domain/job/job.ts";
import { canonicalJson, type JsonObject } from "../domain/json.ts";
import type { MachineRequest } from "../domain/machine/machine.ts";
import {
  MACHINE_ACTIONS,
  type MachineAction,
  parseActionOptions,
  requireActable,
} from "../domain/machine/action.ts";
import type { Workflow } from "../domain/job/workflow.ts";
import type { CreateJobOutcome, RetryOutcome } from "../store/job_store.ts";
import type { AppDeps } from "../http/app_deps.ts";
import { earlierJob } from "../http/request/idempotency.ts";
import { jobNotFound, jobRefusal } from "../http/routes/job_change.ts";
import { type Claim, historyOf, holderOf, machineTarget, otherJob } from "./history.ts";
import { claimMachine, jobOfGone, jobToJoin, paramsOf } from "./provision_job.ts";
import { requireOwnMachine } from "../domain/policy.ts";

/** What a caller who asked for a machine, or for something to be done to one, is told. */
interface StartedMachine {
  readonly uuid: MachineUuid;
  readonly job_uuid: JobUuid;
}

/** What became of a request for a job of a machine. */
export interface MachineStart {
  readonly started: StartedMachine;
  /** Whether an earlier request under the same idempotency key is answered again. */
  readonly replayed: boolean;
}

export interface MachineJobs {
  /** Whether jobs of this workflow are made here, whoever asks for them. */
  owns(workflow: WorkflowUuid): boolean;
  /**
   * Starts the making of a machine. An equal request for the same uuid is answered with the job
   * that there is, while that is unfinished, or when it has made the machine.
   * @throws {AgentError} `conflict` naming another unfinished job of the machine; `not_found`
   */
  start(request: MachineRequest, idempotency?: Idempotency): Promise<MachineStart>;
  /**
   * Starts an action on a machine. An equal one that is unfinished is joined.
   * @throws {AgentError} `not_found`; `conflict` for another unfinished job of the machine, and for a
   * state or brand that does not allow the action; `forbidden` by the policy
   */
  act(
    action: MachineAction,
    uuid: MachineUuid,
    options: JsonObject,
    idempotency?: Idempotency,
  ): Promise<MachineStart>;
  /**
   * Writes a job that was asked for by POST /jobs, once its params are known to be a request. Its
   * target becomes the machine's; without a uuid in its params, a machine that is made gets the job's.
   * @throws {AgentError} `invalid_argument`; else as above
   */
  create(job: NewJob): Promise<CreateJobOutcome>;
  /**
   * Makes a finished job of a machine anew, under the rules of a new one: a machine that had the uuid
   * of its job gets that of the new job.
   * @throws {AgentError} `invalid_argument`; else as above
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
  const actionOf = (workflow: WorkflowUuid) =>
    MACHINE_ACTIONS.find((action) => deps.machines.actionWorkflows[action] === workflow);
  /** What a job of anyone's making has to pass; vmadm is asked before its turn comes. */
  const claimsOf = async (job: NewJob, replaces?: JobUuid): Promise<() => Promise<Claim>> => {
    const action = actionOf(job.workflow.uuid);
    if (action === undefined) return () => claimMachine(job, deps, replaces);
    const wish = await prepareAction(action, job, deps);
    return () => claimForAction(wish, job, deps);
  };
  const { store, limits } = deps;
  return {
    owns: (workflow) =>
      workflow === deps.machines.provisionWorkflow || actionOf(workflow) !== undefined,
    start: async (request, idempotency) => {
      const gone = request.uuid === undefined ? undefined : await jobOfGone(request.uuid, deps);
      return await inTurn(() => startMachine(request, gone, idempotency, deps));
    },
    act: async (action, uuid, options, idempotency) => {
      const earlier = await replayOf(idempotency, deps);
      if (earlier !== undefined) return earlier;
      const workflow = await builtinWorkflow(deps.machines.actionWorkflows[action], deps);
      const job = newJob(workflow, { uuid, ...options }, machineTarget(uuid), idempotency, deps);
      const wish = await prepareAction(action, job, deps);
      return await inTurn(() => startAction(wish, job, deps));
    },
    create: async (job) => {
      const claims = await claimsOf(job);
      return await inTurn(async () => {
        // Of equal requests that arrive together, the later ones find the first one's job here.
        const earlier = await earlierJob(job.idempotency, store.jobs);
        if (earlier !== undefined) return earlier;
        const claim = await claims();
        if (claim.kind === "duplicate") return claim;
        return await store.jobs.create(claim.job, limits.unfinishedJobsMax);
      });
    },
    retry: async (uuid, successor) => {
      const claims = await claimsOf(successor, uuid);
      return await inTurn(async () => {
        const claim = await claims();
        if (claim.kind === "duplicate") return claim;
        return await store.jobs.retry(uuid, claim.job, limits.unfinishedJobsMax);
      });
    },
  };
}

async function startMachine(
  request: MachineRequest,
  gone: JobUuid | undefined,
  idempotency: Idempotency | undefined,
  deps: AppDeps,
): Promise<MachineStart> {
  const earlier = await replayOf(idempotency, deps);
  if (earlier !== undefined) return earlier;
  const uuid = request.uuid ?? deps.newUuid<MachineUuid>();
  const params = paramsOf(request, uuid);
  const target = machineTarget(uuid);
  if (request.uuid !== undefined) {
    const job = await jobToJoin(target, params, gone, deps);
    if (job !== undefined) return { started: { uuid, job_uuid: job.uuid }, replayed: false };
  }
  const workflow = await builtinWorkflow(deps.machines.provisionWorkflow, deps);
  return await written(newJob(workflow, params, target, idempotency, deps), uuid, deps);
}

async function startAction(wish: ActionWish, job: NewJob, deps: AppDeps): Promise<MachineStart> {
  const earlier = await replayOf(job.idempotency, deps);
  if (earlier !== undefined) return earlier;
  const claim = await claimForAction(wish, job, deps);
  if (claim.kind === "duplicate") {
    return { started: { uuid: wish.uuid, job_uuid: claim.job_uuid }, replayed: false };
  }
  return await written(claim.job, wish.uuid, deps);
}

/** @throws {AgentError} what the store says against it */
async function written(job: NewJob, uuid: MachineUuid, deps: AppDeps): Promise<MachineStart> {
  const outcome = await deps.store.jobs.create(job, deps.limits.unfinishedJobsMax);
  if (outcome.kind === "duplicate") {
    return { started: { uuid, job_uuid: outcome.job_uuid }, replayed: false };
  }
  if (outcome.kind !== "created" && outcome.kind !== "repeated") throw jobRefusal(outcome);
  if (outcome.kind === "created") deps.wake();
  return { started: { uuid, job_uuid: outcome.job.uuid }, replayed: outcome.kind === "repeated" };
}

/** What an earlier request under the key was answered with; undefined when there was none. */
async function replayOf(
  idempotency: Idempotency | undefined,
  { store }: AppDeps,
): Promise<MachineStart | undefined> {
  const earlier = await earlierJob(idempotency, store.jobs);
  if (earlier === undefined) return undefined;
  const job_uuid = earlier.job.uuid;
  const job = await store.jobs.get(job_uuid);
  if (job === undefined) throw jobNotFound(job_uuid);
  // Every request that ends here has made its job with the machine's uuid in it.
  return { started: { uuid: job.params.uuid as MachineUuid, job_uuid }, replayed: true };
}

function newJob(
  workflow: Workflow,
  params: JsonObject,
  target: string,
  idempotency: Idempotency | undefined,
  { newUuid, now }: AppDeps,
): NewJob {
  const created_at = now();
  return {
    uuid: newUuid<JobUuid>(),
    workflow,
    exec_after: created_at,
    target,
    params,
    ...(idempotency === undefined ? {} : { idempotency }),
    created_at,
  };
}

async function builtinWorkflow(uuid: WorkflowUuid, { store }: AppDeps): Promise<Workflow> {
  const stored = await store.workflows.get(uuid);
  if (stored !== undefined) return stored.workflow;
  throw new AgentError(
    "not_found",
    `Cannot start the job: its built-in workflow ${uuid} is missing`,
  );
}

// Jobs that act on a machine: what they ask for, held against the machine and the policy before a row
// is written.

/** An action that was asked for, with the machine as it was then. */
interface ActionWish {
  readonly action: MachineAction;
  readonly uuid: MachineUuid;
  readonly options: JsonObject;
  readonly machine: JsonObject;
}

/**
 * Reads the params of a job that acts on a machine, and asks vmadm for the machine.
 * @throws {AgentError} `invalid_argument`; `not_found`; `host`, `timeout`
 */
async function prepareAction(
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
async function claimForAction(
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
