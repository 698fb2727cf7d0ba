// Machines in the store: the jobs that created them, the claims of jobs on them, and what hosts have reported.

import { type OwnEvent, ownText } from "../domain/event.ts";
import type { HostUuid, JobUuid, MachineUuid, WorkflowUuid } from "../domain/id.ts";
import { type Instant, msBetween } from "../domain/instant.ts";
import { errorLine, type TaskResult } from "../domain/job/job.ts";
import type { Execution } from "../domain/job/state.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";
import type { ListedHost } from "./host_store.ts";

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

/**
 * Which job is creating a machine. A claim is written before vmadm creates anything, and only if nothing on the host has
 * the machine's uuid. Whatever has that uuid later was created by the job, which may remove it, even after a crash of agent
 * and vmadm or a failed undo.
 */
export interface MachineClaim {
  readonly uuid: MachineUuid;
  /** The managed host of the machine, as Transport names it. */
  readonly host: string;
  /** The host whose agent made the claim; null when it has not registered. */
  readonly host_uuid: HostUuid | null;
  readonly job_uuid: JobUuid;
  readonly claimed_at: Instant;
  /** Attempts to remove the leftovers since the job ended. */
  readonly tries: number;
  /** Null until the first check after the end of the job. */
  readonly next_try_at: Instant | null;
  /** Error of the latest attempt; null before the first. */
  readonly error: string | null;
}

/**
 * A claim whose job ended without a machine, so parts of it may be left on the host. It stays when retention
 * removes the job.
 */
export interface Leftover extends MachineClaim {
  readonly execution: Exclude<Execution, "queued" | "running" | "waiting" | "succeeded">;
  readonly workflow_uuid: WorkflowUuid;
  /** Milliseconds to the next attempt, by the store's clock; null before the first check. */
  readonly wait_ms: number | null;
}

/** A stored leftover as of now. */
export function leftoverAt(row: Omit<Leftover, "wait_ms">, now: Instant): Leftover {
  const { next_try_at } = row;
  return { ...row, wait_ms: next_try_at === null ? null : msBetween(now, next_try_at) };
}

/** The event of a failed attempt to remove a leftover. */
export function leftoverFailed(
  machine_uuid: MachineUuid,
  job_uuid: JobUuid,
  error: string,
): OwnEvent {
  const payload = {
    change: "leftover_failed",
    machine_uuid,
    job_uuid,
    // vmadm's messages have several lines.
    error: ownText(errorLine(error, new Set())),
  } as const;
  return { kind: "own_machine", payload };
}

/** Selects leftovers. */
export interface LeftFilter {
  readonly uuid?: MachineUuid | undefined;
  /** Only those of this managed host that this agent claimed. */
  readonly host?: string | undefined;
  /** Only those of this host's agent. */
  readonly host_uuid?: HostUuid | undefined;
  readonly limit?: number;
}

/** The claims. Each host has at most one on a machine, and only its own agent takes, releases and postpones it. */
export interface MachineClaimStore {
  /**
   * Assigns the machine to this job, replacing any earlier claim of this host.
   * @param lease the job's claim under which this is done; by now another one may hold
   * @returns false when there is no such job, and nothing was claimed
   */
  take(
    machine: Pick<MachineClaim, "uuid" | "host" | "job_uuid">,
    lease?: number,
  ): Promise<boolean>;
  /** The claim of this host. */
  get(uuid: MachineUuid): Promise<MachineClaim | undefined>;
  /**
   * Drops the claim of this job, when nothing is left or the machine belongs to another job.
   * @param lease as for take()
   */
  release(uuid: MachineUuid, job_uuid: JobUuid, lease?: number): Promise<void>;
  /** Drops a leftover at the operator's request, even if parts of it still exist. */
  drop(uuid: MachineUuid, job_uuid: JobUuid): Promise<void>;
  /** Drops the claims of jobs that succeeded. */
  settle(): Promise<void>;
  /** Claims of jobs that ended otherwise, including their last task; oldest first. */
  left(filter?: LeftFilter): Promise<Leftover[]>;
  /**
   * Sets when the next attempt is due.
   * @param claim as it was read, so that a repeated call counts the attempt once
   * @param wait_ms milliseconds from now, by the store's clock
   * @param error the reason of the failed attempt; null when none was made
   */
  postpone(claim: MachineClaim, wait_ms: number, error: string | null): Promise<void>;
}

/** The differences since a host's last report. */
export interface MachineReport {
  /** New and changed machines, as reportedMachine() makes them. */
  readonly machines: readonly JsonObject[];
  /** Uuids of machines that no longer exist; null when `machines` is complete. */
  readonly gone: readonly string[] | null;
}

/** A machine as its host last reported it. */
interface ReportedMachine {
  readonly host: HostUuid;
  /** The name of the host. */
  readonly name: string;
  /** When the host last looked at its machines. */
  readonly reported_at: Instant;
  readonly machine: JsonObject;
}

/** All hosts at one moment. */
export interface HostReading {
  /** By the store's clock. */
  readonly now: Instant;
  readonly hosts: readonly ListedHost[];
}

/** A page of machines. */
export interface ReportedMachines extends Pick<HostReading, "now"> {
  readonly machines: readonly ReportedMachine[];
  /** How many there are on all pages. */
  readonly count: number;
}

/**
 * What the hosts of a shared store last reported about their machines, so that any agent can list them all and find the
 * host of one. Only that host acts on its machines. Every call may be repeated after its answer was lost.
 */
export interface MachineReportStore {
  /** Writes the differences on this host, and the time of its look. */
  report(report: MachineReport): Promise<void>;
  /**
   * Machines of other hosts that are not forgotten, ordered by the names of the hosts. If two have one uuid, the
   * first counts.
   */
  list(filter: MachineFilter, page: MachinePage): Promise<ReportedMachines>;
  /** The hosts, to find one by name, or the one that signed a call. */
  hosts(): Promise<HostReading>;
  /**
   * The host that has a machine, or whose unfinished job makes it: this host if it does; undefined when no host is
   * known to.
   */
  ownerOf(uuid: MachineUuid): Promise<HostUuid | undefined>;
}
