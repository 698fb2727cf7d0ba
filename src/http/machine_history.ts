// The jobs of one machine, by their target. Anyone may give a job that target; only jobs of the
// provisioning workflow make machines, and only those tell how a machine was made.

import { type Job } from "../domain/job.ts";
import { isFinal } from "../domain/job_state.ts";
import type { AppDeps } from "./app_deps.ts";

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

/** Newest first, jobs of every workflow; more of them while none of these makes machines. */
export async function jobsOf(target: string, { store, machines }: AppDeps): Promise<Job[]> {
  for (let limit = JOBS_LOOKED_AT;; limit = Math.min(limit * 8, JOBS_LOOKED_AT_MAX)) {
    const jobs = await store.jobs.ofTarget(target, limit);
    const enough = jobs.some(({ workflow_uuid }) => workflow_uuid === machines.provisionWorkflow);
    if (enough || jobs.length < limit || limit === JOBS_LOOKED_AT_MAX) return jobs;
  }
}

/**
 * The job that stands for a machine: the newest of the provisioning workflow. Requests that failed
 * because the machine is there are passed over while the one that made it is known.
 */
export async function jobOfMachine(
  uuid: string,
  exists: boolean,
  deps: AppDeps,
): Promise<Job | undefined> {
  const jobs = (await jobsOf(machineTarget(uuid), deps))
    .filter(({ workflow_uuid }) => workflow_uuid === deps.machines.provisionWorkflow);
  const stands = ({ execution }: Job) => execution === "succeeded" || !isFinal(execution);
  return (exists ? jobs.find(stands) : undefined) ?? jobs[0];
}
