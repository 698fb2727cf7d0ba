// Jobs that create machines and act on them. A machine has at most one unfinished job: a second one could
// undo what the first does, so the store refuses it. provision_job.ts and action_job.ts decide which requests join
// the existing job, and which are refused with its uuid.

import type { ShapeOf } from "../domain/description/answer.ts";
import type { HostUuid, JobUuid, MachineUuid, NewUuid, WorkflowUuid } from "../domain/id.ts";
import { type JobFields, type NewJob, placeOf } from "../domain/job/job.ts";
import type { Idempotency } from "../domain/job/idempotency.ts";
import { hostFields } from "../domain/job/wire.ts";
import type { JsonObject } from "../domain/json.ts";
import type { MACHINE_STARTED } from "../domain/machine/shown.ts";
import { MACHINE_ACTIONS, type MachineAction } from "../domain/machine/action.ts";
import type { Workflow } from "../domain/job/workflow.ts";
import type {
  CreateJobOutcome,
  EarlierOutcome,
  JobOrder,
  OrderOutcome,
  RetryOutcome,
} from "../store/job_store.ts";
import { builtinWorkflow, earlierJob, jobNotFound, jobRefusal } from "../store/job_orders.ts";
import type { Store } from "../store/store.ts";
import type { Showing } from "../store/stored_text.ts";
import { claimForAction, prepareAction } from "./action_job.ts";
import type { JobsOnly, JoinOrFree } from "./history.ts";
import { machineTarget } from "../domain/job/summary.ts";
import {
  claimMake,
  claimStart,
  type MachineLookup,
  type MediumLookup,
  readStart,
} from "./provision_job.ts";
import { ACTION_WORKFLOWS } from "./workflows/machine_life.ts";
import { PROVISION_MACHINE } from "./workflows/provision_machine.ts";
import type { Policy } from "../domain/policy.ts";
import type { Now } from "../domain/instant.ts";

interface MachineJobsContext {
  readonly store: Pick<
    Store,
    "jobs" | "workflows" | "hosts" | "machineHistories" | "machineReports"
  >;
  /** The uuid under which this host is registered in the store. */
  readonly hostUuid: HostUuid;
  readonly vmadm: MachineLookup;
  readonly media: MediumLookup;
  readonly policy: Policy;
  /** Most unfinished jobs, of all kinds. */
  readonly unfinishedJobsMax: number;
  readonly now: Now;
  readonly newUuid: NewUuid;
}

/** The result of a request for a job of a machine. */
export interface MachineStart {
  readonly started: ShapeOf<typeof MACHINE_STARTED>;
  /** Whether this repeats the answer to an earlier request with the same idempotency key. */
  readonly replayed: boolean;
}

/** Who asks for a job, and under which idempotency key. */
type AskedFor = Pick<JobFields, "idempotency" | "ordered_by">;

/** Creates the jobs of machines, so that each machine has at most one unfinished job. */
export interface MachineJobs {
  /** Whether jobs of this workflow must be created by this interface. */
  owns(workflow: WorkflowUuid): boolean;
  /**
   * Starts to create a machine. An equal request for the same uuid gets the existing job, while that is
   * unfinished or after it has made the machine. Whatever can be refused without a job is refused.
   * @param body of the request
   * @throws {AgentError} as readStart(); `conflict` naming another unfinished job of the machine, or the
   * machine that has the uuid; for its medium see Mirror.expect(); `not_found`
   */
  start(body: unknown, asked?: AskedFor): Promise<MachineStart>;
  /**
   * Starts an action on a machine, or joins an equal unfinished one.
   * @throws {AgentError} `not_found`; `conflict` for another unfinished job of the machine, and for a
   * state or brand that does not allow the action; `forbidden` by the policy
   */
  act(
    action: MachineAction,
    uuid: MachineUuid,
    options: JsonObject,
    asked?: AskedFor,
  ): Promise<MachineStart>;
  /**
   * Carries out an order of POST /jobs, after the same checks. The job's target becomes the machine's;
   * without a uuid in its params, a new machine gets the job's.
   * @throws {AgentError} `invalid_argument`; else as above
   */
  create(order: JobOrder, showing: Showing): Promise<OrderOutcome>;
  /**
   * Retries a finished job of a machine, under the rules of a new one. A machine named after its job is
   * named after the new job.
   * @throws {AgentError} `invalid_argument`; else as above
   */
  retry(uuid: JobUuid, successor: NewJob): Promise<RetryOutcome>;
}

/** How often a request looks at its machine again while jobs of other requests come and go. */
const LOOKS_MAX = 5;

/** The jobs of the machines of a store. */
export function openMachineJobs(context: MachineJobsContext): MachineJobs {
  const { store, unfinishedJobsMax } = context;
  const createOf = (workflow: Workflow) => (job: JobFields) =>
    store.jobs.create({ ...job, workflow }, unfinishedJobsMax);
  return {
    owns: (workflow) => workflow === PROVISION_MACHINE.uuid || actionOf(workflow) !== undefined,
    start: async (body, asked = {}) => {
      const request = await readStart(body, context);
      const { uuid, params } = request;
      const outcome = await unlessRepeated(asked.idempotency, store, async () => {
        const workflow = await builtinWorkflow(PROVISION_MACHINE.uuid, store);
        const job = newJob(params, uuid, asked, context);
        return await placed(() => claimStart(request, job, context), createOf(workflow));
      });
      return await startOf(outcome, uuid, context);
    },
    act: async (action, uuid, options, asked = {}) => {
      const outcome = await unlessRepeated(asked.idempotency, store, async () => {
        const workflow = await builtinWorkflow(ACTION_WORKFLOWS[action], store);
        const job = newJob({ uuid, ...options }, uuid, asked, context);
        const request = await prepareAction(action, job, false, context);
        return await placed(() => claimForAction(request, job, context), createOf(workflow));
      });
      return await startOf(outcome, uuid, context);
    },
    create: async ({ workflow_uuid, ...fields }, showing) => {
      const outcome = await unlessRepeated(fields.idempotency, store, async () => {
        // Not the stored workflow, which an agent of another version may have written.
        const workflow = await builtinWorkflow(workflow_uuid, store);
        return await claimedAndPlaced(workflow_uuid, fields, context, createOf(workflow));
      });
      if (outcome.kind !== "created" && outcome.kind !== "repeated") return outcome;
      const text = await store.jobs.text(outcome.job.uuid, showing);
      if (text === undefined) throw jobNotFound(outcome.job.uuid);
      return { ...outcome, text };
    },
    retry: (uuid, { workflow, ...fields }) => {
      const write = (job: JobFields) =>
        store.jobs.retry(uuid, { ...job, workflow }, unfinishedJobsMax);
      return claimedAndPlaced(workflow.uuid, fields, context, write, uuid);
    },
  };
}

function actionOf(workflow: WorkflowUuid): MachineAction | undefined {
  return MACHINE_ACTIONS.find((action) => ACTION_WORKFLOWS[action] === workflow);
}

/**
 * Writes a job of POST /jobs, or one that retries another, for its machine. vmadm is asked only about a machine of this
 * host.
 * @param replaces the finished job that it retries
 * @throws {AgentError} as claimMake(), or prepareAction() and claimForAction()
 */
async function claimedAndPlaced<Outcome extends CreateJobOutcome | RetryOutcome>(
  workflow: WorkflowUuid,
  job: JobFields,
  context: MachineJobsContext,
  write: (job: JobFields) => Promise<Outcome>,
  replaces?: JobUuid,
): Promise<Outcome | JoinedJob> {
  const action = actionOf(workflow);
  const elsewhere = await isElsewhere(job.params, context, replaces);
  if (action === undefined) {
    return await placed(() => claimMake(job, elsewhere, context, replaces), write);
  }
  const request = await prepareAction(action, job, elsewhere, context);
  return await placed(() => claimForAction(request, job, context), write);
}

/**
 * Whether the job will run on another host, which alone can answer for the machine: the host that the params name,
 * else the one that has the machine, else that of the previous job. The store refuses an unregistered one.
 */
async function isElsewhere(
  params: JsonObject,
  { store, hostUuid }: MachineJobsContext,
  replaces?: JobUuid,
): Promise<boolean> {
  const { server, machine } = placeOf(params);
  if (server !== undefined) {
    const found = await store.hosts.find(server);
    return found.kind !== "found" || found.host.uuid !== hostUuid;
  }
  if (store.machineReports === null) return false;
  const owner = machine === undefined ? undefined : await store.machineReports.ownerOf(machine);
  const before = owner === undefined && replaces !== undefined
    ? (await store.jobs.get(replaces))?.host ?? undefined
    : undefined;
  return (owner ?? before ?? hostUuid) !== hostUuid;
}

/** The job that already does what a request asks for. */
type JoinedJob = Extract<JoinOrFree, { kind: "duplicate" }>;

/**
 * Writes a job for its machine. If a job of another request gets in between the check and the write, the store
 * refuses it, and the check is repeated: the store compares target and params only, but the job that it found may
 * be of another workflow. A delete has the params of a reboot.
 * @throws {AgentError} see jobRefusal()
 */
async function placed<Outcome extends CreateJobOutcome | RetryOutcome>(
  look: () => Promise<JoinOrFree>,
  write: (job: JobFields) => Promise<Outcome>,
): Promise<Outcome | JoinedJob> {
  for (let looks = 1;; looks++) {
    const found = await look();
    if (found.kind === "duplicate") return found;
    const outcome = await write(found.job);
    if (outcome.kind !== "machine_taken" && outcome.kind !== "duplicate") return outcome;
    if (looks === LOOKS_MAX) throw jobRefusal(outcome);
  }
}

/** The job of an earlier request with the same key. */
type RepeatedJob = Extract<EarlierOutcome, { kind: "repeated" }>;

/**
 * Carries out a request, unless an earlier one with its key did. When equal requests arrive together, the
 * later ones find the job of the first on the machine and are answered as its repetitions.
 */
async function unlessRepeated<Outcome extends { readonly kind: string }>(
  idempotency: Idempotency | undefined,
  { jobs }: JobsOnly,
  run: () => Promise<Outcome>,
): Promise<Outcome | RepeatedJob> {
  const before = await earlierJob(idempotency, jobs);
  if (before !== undefined) return before;
  try {
    const outcome = await run();
    if (outcome.kind === "created") return outcome;
    return await earlierJob(idempotency, jobs) ?? outcome;
  } catch (error) {
    const meanwhile = await earlierJob(idempotency, jobs);
    if (meanwhile !== undefined) return meanwhile;
    throw error;
  }
}

/** The answer to a caller about the job of its machine. @throws {AgentError} see jobRefusal() */
async function startOf(
  outcome: CreateJobOutcome,
  uuid: MachineUuid,
  { store: { jobs } }: MachineJobsContext,
): Promise<MachineStart> {
  const answer = async (machine: MachineUuid, job_uuid: JobUuid, replayed = false) => {
    const host = (await jobs.summary(job_uuid))?.host ?? undefined;
    return { started: { uuid: machine, job_uuid, ...hostFields(host) }, replayed };
  };
  switch (outcome.kind) {
    case "created":
      return await answer(uuid, outcome.job.uuid);
    case "duplicate":
      return await answer(uuid, outcome.job_uuid);
    case "repeated": {
      const job = await jobs.get(outcome.job.uuid);
      if (job === undefined) throw jobNotFound(outcome.job.uuid);
      // Every job of a machine was created with the machine's uuid in its params.
      return await answer(job.requested_params.uuid as MachineUuid, job.uuid, true);
    }
    default:
      throw jobRefusal(outcome);
  }
}

function newJob(
  params: JsonObject,
  machine_uuid: MachineUuid,
  asked: AskedFor,
  { newUuid }: MachineJobsContext,
): JobFields {
  return {
    uuid: newUuid<JobUuid>(),
    target: machineTarget(machine_uuid),
    machine_uuid,
    params,
    ...asked,
  };
}
