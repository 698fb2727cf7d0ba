// The history of machines in the store: the jobs that created them, ejected their media, or are about to create them.

import type { HostUuid, JobUuid, MachineUuid, WorkflowUuid } from "../domain/id.ts";
import type { TaskResult } from "../domain/job/job.ts";
import type { Execution } from "../domain/job/state.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";

/** The workflows whose jobs these lists read. */
export interface MachineWorkflows {
  readonly make: WorkflowUuid;
  readonly eject: WorkflowUuid;
  readonly remove: WorkflowUuid;
}

/** A job of one of these workflows. */
export interface MachineJob {
  readonly uuid: JobUuid;
  readonly machine_uuid: MachineUuid;
  readonly workflow_uuid: WorkflowUuid;
  readonly execution: Execution;
  /** The host that runs the job; null when unknown. */
  readonly host_uuid: HostUuid | null;
  /** The name of that host. */
  readonly host: string | null;
  /** The params `machine` and `media` of a job that creates a machine; otherwise empty. */
  readonly asked: JsonObject;
  /** The medium that the job placed in the zone, by its path inside the machine. */
  readonly placed: string | null;
  /** The media that the job has ejected. */
  readonly ejected: readonly string[];
}

/** Selects machines of a list. */
export interface MachineFilter {
  /** A state in vmadm's words. */
  readonly state?: string | undefined;
  readonly brand?: string | undefined;
  readonly alias?: string | undefined;
  /** Only machines of this host. */
  readonly host?: HostUuid | undefined;
}

/** A part of the matching machines, without those that are already listed. */
export interface MachinePage {
  readonly limit: number;
  readonly offset: number;
  readonly without: readonly string[];
}

/**
 * What lists of machines show about jobs: which job created a machine, which media it placed, and which machines are being
 * created. One call reads a page of a list, and reads no more of a job than lists show.
 */
export interface MachineHistoryStore {
  /**
   * The jobs of each of these machines, newest first: at most 64, from its last 1,024 jobs of any workflow.
   * @param targets as machineTarget() makes them
   */
  of(targets: readonly string[], workflows: MachineWorkflows): Promise<readonly MachineJob[]>;
  /**
   * Unfinished jobs that create a machine which no host has reported yet, newest first, and their number on all pages.
   * @param filter without `state`, which is the same for all such machines
   */
  making(
    workflow: WorkflowUuid,
    filter: Omit<MachineFilter, "state">,
    page: MachinePage,
  ): Promise<{ readonly jobs: readonly MachineJob[]; readonly count: number }>;
}

/** The files that a task of the workflow `eject` reports as ejected. */
function ejectedBy({ error, result }: TaskResult): string[] {
  const files = error === "" && isJsonObject(result) ? result.files : undefined;
  return Array.isArray(files)
    ? files.filter((file): file is string => typeof file === "string")
    : [];
}

/** A job in the history of a machine, as a row; texts are JSON. */
export interface MachineJobRow extends Omit<MachineJob, "asked" | "ejected"> {
  readonly id: number;
  readonly asked: string | null;
}

/** Converts rows to jobs. @param entries results of jobs that eject, with the ids of those jobs */
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
