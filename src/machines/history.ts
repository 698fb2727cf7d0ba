// The jobs of one machine, found by their target. Any job may have that target, but only jobs of the
// provisioning workflow create machines and say how they were made.

import { AgentError, whileThere } from "../domain/error.ts";
import type { HostUuid, JobUuid } from "../domain/id.ts";
import { isUndoing, type Job, type JobFields } from "../domain/job/job.ts";
import { isFinal, UNFINISHED } from "../domain/job/state.ts";
import { machineOfTarget, machineTarget } from "../domain/job/summary.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { attachedMedia } from "../domain/machine/action.ts";
import type { Store } from "../store/store.ts";
import { ACTION_WORKFLOWS } from "./workflows/machine_life.ts";
import { PROVISION_MACHINE } from "./workflows/provision_machine.ts";

/** Newest jobs of a machine that are read first; more are read until one of them made the machine. */
const JOBS_READ = 16;
/** Most jobs of a machine that are read. */
const JOBS_READ_MAX = 1024;

/** Unfinished jobs of each execution whose machines are listed. */
const MAKING_MAX = 10_000;

/**
 * Jobs of every workflow, newest first, back to the one that made the machine. Jobs before its last
 * deletion belong to an earlier machine, and are left out.
 */
export async function jobsOf(target: string, { jobs: store }: JobsOnly): Promise<Job[]> {
  const isDeletion = ({ workflow_uuid, execution }: Job) =>
    workflow_uuid === ACTION_WORKFLOWS.delete && execution === "succeeded";
  for (let limit = JOBS_READ;; limit = Math.min(limit * 8, JOBS_READ_MAX)) {
    const jobs = await store.ofTarget(target, limit);
    const end = jobs.findIndex(isDeletion);
    if (end >= 0) return jobs.slice(0, end);
    const enough = jobs.some(isProvisioning);
    if (enough || jobs.length < limit || limit === JOBS_READ_MAX) return jobs;
  }
}

/** The part of the store that a machine's jobs are read from. */
export type JobsOnly = Pick<Store, "jobs">;

/** A new job that may have its machine, or the unfinished job that does the same. */
export type Claim =
  | { readonly kind: "free"; readonly job: JobFields }
  | { readonly kind: "duplicate"; readonly job_uuid: JobUuid };

/** What is known of a machine from its jobs. */
export interface MachineHistory {
  /** The job that is shown as the machine's. */
  readonly job: Job | undefined;
  /** Media in its zone: placed and not ejected, as paths inside the machine. */
  readonly media: readonly string[];
  /** Whether the machine's jobs could not be read: the database is away. */
  readonly stale: boolean;
}

/**
 * Reads what is known of a machine from its jobs. Its job is the newest of the provisioning workflow;
 * jobs that failed because the machine exists are skipped while the one that made it is known.
 * @param machine as vmadm describes it; null when there is none
 */
export async function historyOf(
  uuid: string,
  machine: JsonObject | null,
  store: JobsOnly,
): Promise<MachineHistory> {
  const reading = jobsOf(machineTarget(uuid), store);
  // Without its jobs nobody knows whether a machine that is not there is being made.
  const jobs = machine === null ? await reading : await whileThere(reading);
  if (jobs === undefined) return staleHistory(machine ?? {});
  const making = jobs.filter(isProvisioning);
  const stands = ({ execution }: Job) => execution === "succeeded" || !isFinal(execution);
  const job = (machine === null ? undefined : making.find(stands)) ?? making[0];
  if (machine === null) return { job, media: [], stale: false };
  const placed = job === undefined || !stands(job) ? [] : placedBy(job);
  const ejected = jobs.flatMap(ejectedBy);
  const media = [...placed.filter((file) => !ejected.includes(file)), ...attachedMedia(machine)];
  return { job, media: [...new Set(media)], stale: false };
}

/** What is known of a machine of the host while its jobs cannot be read. */
export function staleHistory(machine: JsonObject): MachineHistory {
  return { job: undefined, media: attachedMedia(machine), stale: true };
}

/** Whether a job makes a machine. */
export function isProvisioning({ workflow_uuid }: Job): boolean {
  return workflow_uuid === PROVISION_MACHINE.uuid;
}

function placedBy({ props }: Job): string[] {
  return typeof props.medium_file === "string" ? [props.medium_file] : [];
}

function ejectedBy({ workflow_uuid, chain_results }: Job): string[] {
  if (workflow_uuid !== ACTION_WORKFLOWS.eject) return [];
  return chain_results.flatMap(({ error, result }) =>
    error === "" && isJsonObject(result) && Array.isArray(result.files)
      ? result.files.filter((file): file is string => typeof file === "string")
      : []
  );
}

/** The unfinished job that holds a machine; one that makes the machine comes first. */
export async function holderOf(target: string, { jobs }: JobsOnly): Promise<Job | undefined> {
  // Looked up by execution, since any number of finished jobs may be newer.
  const unfinished = await Promise.all(
    UNFINISHED.map((execution) => jobs.list({ target, execution }, { limit: JOBS_READ })),
  );
  const newest = await jobs.ofTarget(target, JOBS_READ);
  const holding = [...unfinished.flat().map(({ job }) => job), ...newest.filter(isUndoing)];
  return holding.find(isProvisioning) ?? holding[0];
}

/** The error for a machine that another job holds. */
export function otherJob({ uuid, name, workflow_uuid }: Job, target: string): AgentError {
  const message = `Cannot start another job for ${target}: job ${uuid} of workflow ` +
    `${JSON.stringify(name)} (${workflow_uuid}) is not finished`;
  return new AgentError("conflict", message);
}

/** Where a machine is, and how old that is what is said of it. */
interface MachinePlace {
  readonly host: HostUuid;
  /** The name of the host. */
  readonly name: string;
  readonly ageMs: number;
}

/** A machine of a host, or the job that is about to create one. */
export interface ListedMachine {
  readonly uuid: string;
  /** Undefined while there is only a job. */
  readonly place: MachinePlace | undefined;
  readonly machine: JsonObject | null;
  readonly job: Job | undefined;
}

/** What vmadm reported of all machines, and how long ago, milliseconds. */
interface MachineReading {
  readonly machines: readonly JsonObject[];
  readonly ageMs: number;
}

/** Reads the machines of the host. @param maxAgeMs 0 asks vmadm */
export type ReadMachines = (maxAgeMs: number) => Promise<MachineReading>;

/** Most machines in a list that is kept for later requests; a longer one would take too much memory. */
const KEPT_MAX = 2_000;

/**
 * Asks vmadm for the machines and keeps its latest answer for display only: vmadm takes seconds on a host
 * with hundreds of machines. If vmadm fails, the kept answer is not used instead.
 */
export function openMachineReading(
  vmadm: { list(options: { detailed: true }): Promise<JsonObject[]> },
  monotonicMs: () => number,
): ReadMachines {
  let kept: { readonly machines: readonly JsonObject[]; readonly atMs: number } | undefined;
  return async (maxAgeMs) => {
    if (kept !== undefined && maxAgeMs > 0) {
      const ageMs = monotonicMs() - kept.atMs;
      if (ageMs <= maxAgeMs) return { machines: kept.machines, ageMs };
    }
    // Taken before the call: the answer may be as old as the question.
    const atMs = monotonicMs();
    const machines = await vmadm.list({ detailed: true });
    // Of two concurrent calls, the one that started later is kept.
    if (kept === undefined || kept.atMs <= atMs) {
      kept = machines.length <= KEPT_MAX ? { machines, atMs } : undefined;
    }
    return { machines, ageMs: 0 };
  };
}

/** Machines with their places. */
export type PlacedMachines = readonly {
  readonly machine: JsonObject;
  readonly place: MachinePlace;
}[];

/**
 * Lists these machines, and those that jobs are about to create. Of two with one uuid the first counts.
 * @returns `stale` when these jobs cannot be read, and their machines are left out
 */
export async function listAllMachines(
  machines: PlacedMachines,
  { jobs }: JobsOnly,
): Promise<{ readonly listed: readonly ListedMachine[]; readonly stale: boolean }> {
  const listed = new Map<string, ListedMachine>();
  for (const { machine, place } of machines) {
    const uuid = String(machine.uuid);
    if (!listed.has(uuid)) listed.set(uuid, { uuid, place, machine, job: undefined });
  }
  const workflow_uuid = PROVISION_MACHINE.uuid;
  for (const execution of UNFINISHED) {
    const making = await whileThere(
      jobs.list({ execution, workflow_uuid }, { limit: MAKING_MAX }),
    );
    if (making === undefined) return { listed: [...listed.values()], stale: true };
    for (const { job } of making) {
      const uuid = machineOfTarget(job.target);
      if (uuid !== undefined && !listed.has(uuid)) {
        listed.set(uuid, { uuid, place: undefined, machine: null, job });
      }
    }
  }
  return { listed: [...listed.values()], stale: false };
}
