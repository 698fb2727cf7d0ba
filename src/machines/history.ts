// The jobs of one machine, by their target. Anyone may give a job that target; only jobs of the
// provisioning workflow make machines, and only those tell how a machine was made.

import { AgentError } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import { isUndoing, type Job, type NewJob } from "../domain/job/job.ts";
import { EXECUTIONS, isFinal } from "../domain/job/state.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { attachedMedia } from "../domain/machine/action.ts";
import type { AppDeps } from "../http/app_deps.ts";

/** Newest jobs of a machine that are looked at first; as many again while they tell nothing. */
const JOBS_LOOKED_AT = 16;
/** Newest jobs of a machine among which those that make it are looked for at most. */
const JOBS_LOOKED_AT_MAX = 1024;

/** What begins the target of every job that makes a machine. */
export const MACHINE_TARGET = "/machines/";

/** The target of every job that makes this machine. */
export function machineTarget(uuid: string): string {
  return MACHINE_TARGET + uuid;
}

/**
 * Newest first, jobs of every workflow; more of them while none of these makes machines. What came
 * before the machine was deleted is of another machine, and is left out.
 */
export async function jobsOf(target: string, { store, machines }: AppDeps): Promise<Job[]> {
  const isDeletion = ({ workflow_uuid, execution }: Job) =>
    workflow_uuid === machines.actionWorkflows.delete && execution === "succeeded";
  for (let limit = JOBS_LOOKED_AT;; limit = Math.min(limit * 8, JOBS_LOOKED_AT_MAX)) {
    const jobs = await store.jobs.ofTarget(target, limit);
    const end = jobs.findIndex(isDeletion);
    if (end >= 0) return jobs.slice(0, end);
    const enough = jobs.some(({ workflow_uuid }) => workflow_uuid === machines.provisionWorkflow);
    if (enough || jobs.length < limit || limit === JOBS_LOOKED_AT_MAX) return jobs;
  }
}

/** A job with the target of its machine, which no other job has; or the one that does the same. */
export type Claim =
  | { readonly kind: "free"; readonly job: NewJob }
  | { readonly kind: "duplicate"; readonly job_uuid: JobUuid };

/** What the jobs of a machine tell of it. */
export interface MachineHistory {
  /** The job that stands for the machine. */
  readonly job: Job | undefined;
  /** Media that were put into its zone and not taken out, as the machine sees them. */
  readonly media: readonly string[];
}

/**
 * What the jobs of a machine tell of it. The job that stands for it is the newest of the provisioning
 * workflow; requests that failed because the machine is there are passed over while the one that made
 * it is known.
 * @param machine The machine as vmadm describes it; null when there is none
 */
export async function historyOf(
  uuid: string,
  machine: JsonObject | null,
  deps: AppDeps,
): Promise<MachineHistory> {
  const jobs = await jobsOf(machineTarget(uuid), deps);
  const making = jobs.filter((job) => isProvisioning(job, deps));
  const stands = ({ execution }: Job) => execution === "succeeded" || !isFinal(execution);
  const job = (machine === null ? undefined : making.find(stands)) ?? making[0];
  if (machine === null) return { job, media: [] };
  const placed = job === undefined || !stands(job) ? [] : placedBy(job);
  const ejected = jobs.flatMap((later) => ejectedBy(later, deps));
  const media = [...placed.filter((file) => !ejected.includes(file)), ...attachedMedia(machine)];
  return { job, media: [...new Set(media)] };
}

function isProvisioning({ workflow_uuid }: Job, { machines }: AppDeps): boolean {
  return workflow_uuid === machines.provisionWorkflow;
}

function placedBy({ props }: Job): string[] {
  return typeof props.medium_file === "string" ? [props.medium_file] : [];
}

function ejectedBy({ workflow_uuid, chain_results }: Job, { machines }: AppDeps): string[] {
  if (workflow_uuid !== machines.actionWorkflows.eject) return [];
  return chain_results.flatMap(({ error, result }) =>
    error === "" && isJsonObject(result) && Array.isArray(result.files)
      ? result.files.filter((file): file is string => typeof file === "string")
      : []
  );
}

/** The unfinished job that holds a machine; one that makes it comes before those of other workflows. */
export async function holderOf(target: string, deps: AppDeps): Promise<Job | undefined> {
  const { jobs } = deps.store;
  // However many finished jobs are newer than it.
  const unfinished = await Promise.all(
    EXECUTIONS.filter((execution) => !isFinal(execution))
      .map((execution) => jobs.list({ target, execution }, { limit: JOBS_LOOKED_AT })),
  );
  const newest = await jobs.ofTarget(target, JOBS_LOOKED_AT);
  const holding = [...unfinished.flat().map(({ job }) => job), ...newest.filter(isUndoing)];
  return holding.find((job) => isProvisioning(job, deps)) ?? holding[0];
}

/** That another job holds a machine, as an error that names it. */
export function otherJob({ uuid, name, workflow_uuid }: Job, target: string): AgentError {
  const message = `Cannot start another job for ${target}: job ${uuid} of workflow ` +
    `${JSON.stringify(name)} (${workflow_uuid}) is not finished`;
  return new AgentError("conflict", message);
}
