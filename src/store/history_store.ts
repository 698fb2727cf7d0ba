// What lists of machines show of jobs: which job has made a machine, what media it has placed, and which machines are only
// being made. A page of a list is one call, and nothing of a job is read that no list shows.

import type { HostUuid, JobUuid, MachineUuid, WorkflowUuid } from "../domain/id.ts";
import type { TaskResult } from "../domain/job/job.ts";
import type { Execution } from "../domain/job/state.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";

/** The workflows that matter, each of which does what its name says. */
export interface MachineWorkflows {
  readonly make: WorkflowUuid;
  readonly eject: WorkflowUuid;
  readonly remove: WorkflowUuid;
}

/** A job of such a workflow. */
export interface MachineJob {
  readonly uuid: JobUuid;
  readonly machine_uuid: MachineUuid;
  readonly workflow_uuid: WorkflowUuid;
  readonly execution: Execution;
  /** The host that runs it; null where none is known. */
  readonly host_uuid: HostUuid | null;
  /** The name of that host. */
  readonly host: string | null;
  /** What lists show of the params of a job that makes a machine: `machine` and `media`; else empty. */
  readonly asked: JsonObject;
  /** The medium that it has placed in the zone, as the machine sees it. */
  readonly placed: string | null;
  /** The media that it has ejected. */
  readonly ejected: readonly string[];
}

/** Which machines of a list are meant. */
export interface MachineFilter {
  /** vmadm's word. */
  readonly state?: string | undefined;
  readonly brand?: string | undefined;
  readonly alias?: string | undefined;
  /** Only those of this host. */
  readonly host?: HostUuid | undefined;
}

/** A part of the machines that match, and which are left out since they are listed already. */
export interface MachinePage {
  readonly limit: number;
  readonly offset: number;
  readonly without: readonly string[];
}

/** The jobs of machines. */
export interface MachineHistoryStore {
  /**
   * The jobs of each of these machines, newest first: the last 64 among its last 1,024, whatever their workflow.
   * @param targets as machineTarget() makes them
   */
  of(targets: readonly string[], workflows: MachineWorkflows): Promise<readonly MachineJob[]>;
  /**
   * Unfinished jobs that make a machine which no host has reported, newest first, and how many there are on all pages.
   * @param filter its state is that of every such machine
   */
  making(
    workflow: WorkflowUuid,
    filter: Omit<MachineFilter, "state">,
    page: MachinePage,
  ): Promise<{ readonly jobs: readonly MachineJob[]; readonly count: number }>;
}

/** The newest jobs of a machine that are looked at. */
export const HISTORY_LOOKED_AT_MAX = 1024;
/** The newest jobs among them that are read. */
export const HISTORY_READ_MAX = 64;

/** The files that a task of the workflow `eject` says it has ejected. */
function ejectedBy({ error, result }: TaskResult): string[] {
  const files = error === "" && isJsonObject(result) ? result.files : undefined;
  return Array.isArray(files)
    ? files.filter((file): file is string => typeof file === "string")
    : [];
}

/** A row of a job in the history of a machine; texts are JSON. */
export interface MachineJobRow extends Omit<MachineJob, "asked" | "ejected"> {
  readonly id: number;
  readonly asked: string | null;
}

/** The jobs of these rows. @param entries results of those that eject, with the ids of their jobs */
export function machineJobs(
  rows: readonly MachineJobRow[],
  entries: readonly { readonly job_id: number; readonly entry: string }[],
): MachineJob[] {
  return rows.map(({ id, asked, ...row }) => ({
    ...row,
    // The texts were made by the store from an object and from results.
    asked: asked === null ? {} : JSON.parse(asked) as JsonObject,
    ejected: entries.filter(({ job_id }) => job_id === id)
      .flatMap(({ entry }) => ejectedBy(JSON.parse(entry) as TaskResult)),
  }));
}
