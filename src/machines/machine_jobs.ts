// Jobs that make machines and act on them. A machine has at most one unfinished job: a second one would
// undo what the first does. The store refuses a second job with equal params; this file refuses all
// others, one request at a time.

import { AgentError, invalidArgument } from "../domain/error.ts";
import {
  type JobUuid,
  type MachineUuid,
  type NewUuid,
  parseUuid,
  type WorkflowUuid,
} from "../domain/id.ts";
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
import { earlierJob, jobNotFound, jobRefusal } from "../store/job_refusal.ts";
import type { Store } from "../store/store.ts";
import { type Claim, historyOf, holderOf, machineTarget, otherJob } from "./history.ts";
import {
  claimMachine,
  jobOfGone,
  jobToJoin,
  type MachineLookup,
  paramsOf,
} from "./provision_job.ts";
import { builtinWorkflow } from "./media_jobs.ts";
import { ACTION_WORKFLOWS } from "./workflows/machine_life.ts";
import { PROVISION_MACHINE } from "./workflows/provision_machine.ts";
import { type Policy, requireOwnMachine } from "../domain/policy.ts";
import type { Now } from "../domain/instant.ts";

/** What the jobs of machines are made with. */
export interface MachineJobsContext {
  readonly store: Pick<Store, "jobs" | "workflows">;
  readonly vmadm: MachineLookup;
  readonly policy: Policy;
  /** Jobs of all kinds that may be unfinished. */
  readonly unfinishedJobsMax: number;
  /** Tells the runner that a job may be due. */
  readonly wake: () => void;
  readonly now: Now;
  readonly newUuid: NewUuid;
}

/** A machine and the job that works on it. */
interface StartedMachine {
  readonly uuid: MachineUuid;
  readonly job_uuid: JobUuid;
}

/** What became of a request for a job of a machine. */
export interface MachineStart {
  readonly started: StartedMachine;
  /** Whether this repeats the answer to an earlier request under the same idempotency key. */
  readonly replayed: boolean;
}

/** Makes the jobs of machines, so that a machine has one unfinished job at most. */
export interface MachineJobs {
  /** Whether jobs of this workflow must be made here. */
  owns(workflow: WorkflowUuid): boolean;
  /**
   * Starts to make a machine. An equal request for the same uuid gets the existing job, while that is
   * unfinished or after it has made the machine.
   * @throws {AgentError} `conflict` naming another unfinished job of the machine; `not_found`
   */
  start(request: MachineRequest, idempotency?: Idempotency): Promise<MachineStart>;
  /**
   * Starts an action on a machine, or joins an equal unfinished one.
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
   * Writes a job of POST /jobs, after the same checks. Its target becomes the machine's; without a uuid
   * in its params, a new machine gets the job's.
   * @throws {AgentError} `invalid_argument`; else as above
   */
  create(job: NewJob): Promise<CreateJobOutcome>;
  /**
   * Retries a finished job of a machine, under the rules of a new one. A machine named after its job is
   * named after the new job.
   * @throws {AgentError} `invalid_argument`; else as above
   */
  retry(uuid: JobUuid, successor: NewJob): Promise<RetryOutcome>;
}

/** Requests are handled one after another: keep one of these for each store. */
export function openMachineJobs(context: MachineJobsContext): MachineJobs {
  let last: Promise<unknown> = Promise.resolve();
  /** Runs functions one after another, so that nothing comes between a check and its write. */
  const inTurn = <T>(run: () => Promise<T>): Promise<T> => {
    const mine = last.then(run);
    last = mine.catch(() => {});
    return mine;
  };
  const actionOf = (workflow: WorkflowUuid) =>
    MACHINE_ACTIONS.find((action) => ACTION_WORKFLOWS[action] === workflow);
  /** Prepares the claim of a job; vmadm is asked before the job's turn comes. */
  const claimsOf = async (job: NewJob, replaces?: JobUuid): Promise<() => Promise<Claim>> => {
    const action = actionOf(job.workflow.uuid);
    if (action === undefined) return () => claimMachine(job, context, replaces);
    const request = await prepareAction(action, job, context);
    return () => claimForAction(request, job, context);
  };
  const { store, unfinishedJobsMax } = context;
  return {
    owns: (workflow) => workflow === PROVISION_MACHINE.uuid || actionOf(workflow) !== undefined,
    start: async (request, idempotency) => {
      const gone = request.uuid === undefined ? undefined : await jobOfGone(request.uuid, context);
      return await inTurn(() => startMachine(request, gone, idempotency, context));
    },
    act: async (action, uuid, options, idempotency) => {
      const earlier = await replayOf(idempotency, store);
      if (earlier !== undefined) return earlier;
      const workflow = await builtinWorkflow(ACTION_WORKFLOWS[action], store);
      const job = newJob(workflow, { uuid, ...options }, machineTarget(uuid), idempotency, context);
      const request = await prepareAction(action, job, context);
      return await inTurn(() => startAction(request, job, context));
    },
    create: async (job) => {
      const claims = await claimsOf(job);
      return await inTurn(async () => {
        // Of equal requests that arrive together, the later ones find the first one's job here.
        const earlier = await earlierJob(job.idempotency, store.jobs);
        if (earlier !== undefined) return earlier;
        const claim = await claims();
        if (claim.kind === "duplicate") return claim;
        return await store.jobs.create(claim.job, unfinishedJobsMax);
      });
    },
    retry: async (uuid, successor) => {
      const claims = await claimsOf(successor, uuid);
      return await inTurn(async () => {
        const claim = await claims();
        if (claim.kind === "duplicate") return claim;
        return await store.jobs.retry(uuid, claim.job, unfinishedJobsMax);
      });
    },
  };
}

async function startMachine(
  request: MachineRequest,
  gone: JobUuid | undefined,
  idempotency: Idempotency | undefined,
  context: MachineJobsContext,
): Promise<MachineStart> {
  const { store } = context;
  const earlier = await replayOf(idempotency, store);
  if (earlier !== undefined) return earlier;
  const uuid = request.uuid ?? context.newUuid<MachineUuid>();
  const params = paramsOf(request, uuid);
  const target = machineTarget(uuid);
  if (request.uuid !== undefined) {
    const job = await jobToJoin(target, params, gone, store);
    if (job !== undefined) return { started: { uuid, job_uuid: job.uuid }, replayed: false };
  }
  const workflow = await builtinWorkflow(PROVISION_MACHINE.uuid, store);
  return await written(newJob(workflow, params, target, idempotency, context), uuid, context);
}

async function startAction(
  request: ActionRequest,
  job: NewJob,
  context: MachineJobsContext,
): Promise<MachineStart> {
  const earlier = await replayOf(job.idempotency, context.store);
  if (earlier !== undefined) return earlier;
  const claim = await claimForAction(request, job, context);
  if (claim.kind === "duplicate") {
    return { started: { uuid: request.uuid, job_uuid: claim.job_uuid }, replayed: false };
  }
  return await written(claim.job, request.uuid, context);
}

/** @throws {AgentError} see jobRefusal() */
async function written(
  job: NewJob,
  uuid: MachineUuid,
  { store, unfinishedJobsMax, wake }: MachineJobsContext,
): Promise<MachineStart> {
  const outcome = await store.jobs.create(job, unfinishedJobsMax);
  if (outcome.kind === "duplicate") {
    return { started: { uuid, job_uuid: outcome.job_uuid }, replayed: false };
  }
  if (outcome.kind !== "created" && outcome.kind !== "repeated") throw jobRefusal(outcome);
  if (outcome.kind === "created") wake();
  return { started: { uuid, job_uuid: outcome.job.uuid }, replayed: outcome.kind === "repeated" };
}

/** The answer to an earlier request under the key; undefined when there was none. */
async function replayOf(
  idempotency: Idempotency | undefined,
  store: Pick<Store, "jobs">,
): Promise<MachineStart | undefined> {
  const earlier = await earlierJob(idempotency, store.jobs);
  if (earlier === undefined) return undefined;
  const job_uuid = earlier.job.uuid;
  const job = await store.jobs.get(job_uuid);
  if (job === undefined) throw jobNotFound(job_uuid);
  // Every such job was made with the machine's uuid in its params.
  return { started: { uuid: job.params.uuid as MachineUuid, job_uuid }, replayed: true };
}

function newJob(
  workflow: Workflow,
  params: JsonObject,
  target: string,
  idempotency: Idempotency | undefined,
  { newUuid, now }: MachineJobsContext,
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

/** An action on a machine, and the machine as it was when asked. */
interface ActionRequest {
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
  { store, vmadm }: MachineJobsContext,
): Promise<ActionRequest> {
  const uuid = parseUuid<MachineUuid>(params.uuid, "uuid");
  const given = parseActionOptions(action, params, ["uuid"]);
  if (target !== null && target !== machineTarget(uuid)) {
    const message = `Cannot accept target: a job for machine ${uuid} has target ` +
      machineTarget(uuid);
    throw invalidArgument("target", message);
  }
  const machine = await vmadm.get(uuid);
  if (machine === null) throw new AgentError("not_found", `Cannot find machine ${uuid}`);
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
async function claimForAction(
  { action, uuid, options, machine }: ActionRequest,
  job: NewJob,
  { store, policy }: MachineJobsContext,
): Promise<Claim> {
  const target = machineTarget(uuid);
  const params = { uuid, ...options };
  const holder = await holderOf(target, store);
  if (holder !== undefined) {
    const same = holder.workflow_uuid === ACTION_WORKFLOWS[action] &&
      canonicalJson(holder.params) === canonicalJson(params);
    if (!same) throw otherJob(holder, target);
    return { kind: "duplicate", job_uuid: holder.uuid };
  }
  requireOwnMachine(policy, uuid, machine);
  requireActable(action, uuid, machine, options);
  return { kind: "free", job: { ...job, target, params } };
}
