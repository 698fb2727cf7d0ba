// The jobs of one machine, found by their target. Any job may have that target, but only jobs of the
// provisioning workflow create machines and say how they were made.

import { AgentError, undefinedWhileAway } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Job, JobFields } from "../domain/job/job.ts";
import { isFinal, isUndoing, UNFINISHED } from "../domain/job/state.ts";
import { machineTarget } from "../domain/job/summary.ts";
import type { JsonObject } from "../domain/json.ts";
import { attachedMedia } from "../domain/machine/action.ts";
import { HISTORY_LOOKED_AT_MAX } from "../store/limits.ts";
import type { MachineJob, MachineWorkflows } from "../store/machine_store.ts";
import type { Store } from "../store/store.ts";
import { ACTION_WORKFLOWS } from "./workflows/machine_life.ts";
import { PROVISION_MACHINE } from "./workflows/provision_machine.ts";

/** Newest jobs of a machine that are read first; more are read until one of them made the machine. */
const JOBS_READ = 16;

/**
 * Jobs of every workflow, newest first, back to the one that made the machine. Jobs before its last
 * deletion belong to an earlier machine, and are left out.
 * @param newest the machine's newest jobs, as holderOf() read them
 */
export async function jobsOf(
  target: string,
  newest: readonly Job[],
  { jobs: store }: JobsOnly,
): Promise<readonly Job[]> {
  const isDeletion = ({ workflow_uuid, execution }: Job) =>
    workflow_uuid === ACTION_WORKFLOWS.delete && execution === "succeeded";
  let jobs = newest;
  for (let limit = JOBS_READ;; jobs = await store.ofTarget(target, limit)) {
    const end = jobs.findIndex(isDeletion);
    if (end >= 0) return jobs.slice(0, end);
    const enough = jobs.some(isProvisioning);
    if (enough || jobs.length < limit || limit === HISTORY_LOOKED_AT_MAX) return jobs;
    limit = Math.min(limit * 8, HISTORY_LOOKED_AT_MAX);
  }
}

/** The part of the store that a machine's jobs are read from. */
export type JobsOnly = Pick<Store, "jobs">;

/** What a look at a machine finds: that a job may have it, or the unfinished job to join, which does the same. */
export type JoinOrFree =
  | { readonly kind: "free"; readonly job: JobFields }
  | { readonly kind: "duplicate"; readonly job_uuid: JobUuid };

/** The workflows that lists read the jobs of. */
export const WORKFLOWS: MachineWorkflows = {
  make: PROVISION_MACHINE.uuid,
  eject: ACTION_WORKFLOWS.eject,
  remove: ACTION_WORKFLOWS.delete,
};

/** The part of the store that lists read of the jobs of machines. */
export type HistoriesOnly = Pick<Store, "machineHistories">;

/** What is known of a machine from its jobs. */
export interface MachineHistory {
  /** The job that is shown as the machine's. */
  readonly job: MachineJob | undefined;
  /** Media in its zone: placed and not ejected, as paths inside the machine. */
  readonly media: readonly string[];
  /** Whether the machine's jobs could not be read: the database is away. */
  readonly stale: boolean;
}

/**
 * Reads what is known of a machine from its jobs. Its job is the newest of the provisioning workflow;
 * jobs that failed because the machine exists are skipped while the one that made it is known.
 * @param machine as vmadm describes it; null when there is none
 * @throws {AgentError} of the store; if the machine is there, a store that is away only leaves out its jobs
 */
export async function historyOf(
  uuid: string,
  machine: JsonObject | null,
  { machineHistories }: HistoriesOnly,
): Promise<MachineHistory> {
  const reading = machineHistories.of([machineTarget(uuid)], WORKFLOWS);
  // Without its jobs, nobody knows whether a missing machine is about to be created.
  const jobs = machine === null ? await reading : await undefinedWhileAway(reading);
  return historyFrom(machine, jobs);
}

/** The histories of machines, in their order, read at once. @throws {AgentError} of the store, unless it is away */
export async function historiesOf(
  machines: readonly { readonly machine: JsonObject }[],
  { machineHistories }: HistoriesOnly,
): Promise<MachineHistory[]> {
  const targets = machines.map(({ machine }) => machineTarget(String(machine.uuid)));
  const jobs = targets.length === 0
    ? []
    : await undefinedWhileAway(machineHistories.of(targets, WORKFLOWS));
  const byMachine = Map.groupBy(jobs ?? [], ({ machine_uuid }) => String(machine_uuid));
  return machines.map(({ machine }) =>
    historyFrom(machine, jobs && (byMachine.get(String(machine.uuid)) ?? []))
  );
}

/** @param jobs newest first; undefined when they could not be read */
function historyFrom(
  machine: JsonObject | null,
  jobs: readonly MachineJob[] | undefined,
): MachineHistory {
  if (jobs === undefined) return staleHistory(machine ?? {});
  const end = jobs.findIndex((job) =>
    job.workflow_uuid === WORKFLOWS.remove && job.execution === "succeeded"
  );
  // Jobs before the last deletion belong to an earlier machine.
  const own = end < 0 ? jobs : jobs.slice(0, end);
  const making = own.filter(isProvisioning);
  const stands = ({ execution }: MachineJob) => execution === "succeeded" || !isFinal(execution);
  const job = (machine === null ? undefined : making.find(stands)) ?? making[0];
  if (machine === null) return { job, media: [], stale: false };
  const placed = job === undefined || !stands(job) || job.placed === null ? [] : [job.placed];
  const ejected = own.flatMap((one) => one.ejected);
  const media = [...placed.filter((file) => !ejected.includes(file)), ...attachedMedia(machine)];
  return { job, media: [...new Set(media)], stale: false };
}

/** What is known of a machine on the host while its jobs cannot be read. */
export function staleHistory(machine: JsonObject): MachineHistory {
  return { job: undefined, media: attachedMedia(machine), stale: true };
}

/** Whether a job makes a machine. */
export function isProvisioning({ workflow_uuid }: Pick<Job, "workflow_uuid">): boolean {
  return workflow_uuid === PROVISION_MACHINE.uuid;
}

/** Who holds a machine. */
interface Holding {
  /** The unfinished job that holds it; one that makes the machine comes first. */
  readonly holder: Job | undefined;
  /** The newest jobs of the machine, read after its unfinished ones: they show how a job that ended in between ended. */
  readonly newest: readonly Job[];
}

/** Reads which unfinished job holds a machine. */
export async function holderOf(target: string, { jobs }: JobsOnly): Promise<Holding> {
  // Looked up by execution, since any number of finished jobs may be newer.
  const unfinished = await Promise.all(
    UNFINISHED.map((execution) => jobs.list({ target, execution }, { limit: JOBS_READ })),
  );
  const newest = await jobs.ofTarget(target, JOBS_READ);
  const holding = [...unfinished.flat().map(({ job }) => job), ...newest.filter(isUndoing)];
  return { holder: holding.find(isProvisioning) ?? holding[0], newest };
}

/** The error for a machine that another job holds. */
export function otherJob({ uuid, name, workflow_uuid }: Job, target: string): AgentError {
  const message = `Cannot start another job for ${target}: job ${uuid} of workflow ` +
    `${JSON.stringify(name)} (${workflow_uuid}) is not finished`;
  return new AgentError("conflict", message, { about: { kind: "job", name: uuid } });
}
