// Machines in the store: which jobs have made them, which job has claimed which, and what hosts have reported.

import { type OwnEvent, ownText } from "../domain/event.ts";
import type { HostUuid, JobUuid, MachineUuid, WorkflowUuid } from "../domain/id.ts";
import { type Instant, msBetween } from "../domain/instant.ts";
import { errorLine, type TaskResult } from "../domain/job/job.ts";
import type { Execution } from "../domain/job/state.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";
import type { ListedHost } from "./host_store.ts";

// What lists of machines show of jobs: which job has made a machine, what media it has placed, and which machines are only
// being made. A page of a list is one call, and nothing of a job is read that no list shows.

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

// Claims: which job is creating which machine. A claim is written before vmadm creates anything, and only if
// nothing on the host has the machine's uuid. Whatever has that uuid later was created by the job, which may
// remove it, even after a crash of agent and vmadm or a failed undo.

/** The right of a job to remove whatever has the uuid of a machine. */
export interface MachineClaim {
  readonly uuid: MachineUuid;
  /** The managed host of the machine, as Transport names it. */
  readonly host: string;
  /** The host whose agent has claimed it; null where it has not registered. */
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

/** A leftover as it is stored, when it is read. */
export function leftoverAt(row: Omit<Leftover, "wait_ms">, now: Instant): Leftover {
  const { next_try_at } = row;
  return { ...row, wait_ms: next_try_at === null ? null : msBetween(now, next_try_at) };
}

/** The event of a failed attempt to remove what a job has left. */
export function leftoverFailed(
  machine_uuid: MachineUuid,
  job_uuid: JobUuid,
  error: string,
): OwnEvent {
  const payload = {
    change: "leftover_failed",
    machine_uuid,
    job_uuid,
    // What vmadm says has several lines.
    error: ownText(errorLine(error, new Set())),
  } as const;
  return { kind: "own_machine", payload };
}

/** Which leftovers are meant. */
export interface LeftFilter {
  readonly uuid?: MachineUuid | undefined;
  /** Only those of this managed host that the agent has claimed itself. */
  readonly host?: string | undefined;
  /** Only those of the agent of this host. */
  readonly host_uuid?: HostUuid | undefined;
  readonly limit?: number;
}

/** The claims; each host has at most one of a machine, and its agent alone takes, releases and postpones it. */
export interface MachineClaimStore {
  /**
   * Assigns the machine to this job, replacing any earlier claim of this host.
   * @param lease the claim on the job under which it is taken, where it may be another by now
   * @returns whether there is such a job; nothing is claimed for another
   */
  take(
    machine: Pick<MachineClaim, "uuid" | "host" | "job_uuid">,
    lease?: number,
  ): Promise<boolean>;
  /** The claim of this host. */
  get(uuid: MachineUuid): Promise<MachineClaim | undefined>;
  /**
   * Drops the claim of this job, when nothing is left or the machine belongs to another.
   * @param lease as that of take()
   */
  release(uuid: MachineUuid, job_uuid: JobUuid, lease?: number): Promise<void>;
  /** Drops a leftover at the operator's request, although parts of it may still exist. */
  drop(uuid: MachineUuid, job_uuid: JobUuid): Promise<void>;
  /** Drops the claims of jobs that succeeded. */
  settle(): Promise<void>;
  /** Claims of jobs that ended otherwise, including their last task; oldest first. */
  left(filter?: LeftFilter): Promise<Leftover[]>;
  /**
   * Sets when the next attempt is due.
   * @param claim as it was read: the attempt counts once, also when the call is repeated
   * @param wait_ms milliseconds from now, by the store's clock
   * @param error what an attempt has just failed with; null when none was made
   */
  postpone(claim: MachineClaim, wait_ms: number, error: string | null): Promise<void>;
}

// What the hosts of a shared store last reported of their machines, so that any agent lists them all and knows whom to
// ask about one. It is for display and for finding the host, which alone acts on its machines.

/** A change of what a host reports. */
export interface MachineReport {
  /** Machines that are new or have changed, each as reportedMachine() makes it. */
  readonly machines: readonly JsonObject[];
  /** Machines that are gone; null when `machines` are all that there are. */
  readonly gone: readonly string[] | null;
}

/** A machine as its host last reported it. */
interface ReportedMachine {
  readonly host: HostUuid;
  /** The name of the host. */
  readonly name: string;
  /** When its host last looked at its machines. */
  readonly reported_at: Instant;
  readonly machine: JsonObject;
}

/** The hosts of the store at one time. */
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

/** The reports. Every call may be repeated after its answer was lost. */
export interface MachineReportStore {
  /** Writes what has changed on this host, and that it has looked. */
  report(report: MachineReport): Promise<void>;
  /**
   * The machines of other hosts that are not forgotten, by the names of the hosts. Of two with one uuid the first
   * counts.
   */
  list(filter: MachineFilter, page: MachinePage): Promise<ReportedMachines>;
  /** The hosts, to find the one that a name stands for or that has signed a call. */
  hosts(): Promise<HostReading>;
  /**
   * The host that has a machine, or whose unfinished job makes it: this one if it does; undefined when no host is
   * known to.
   */
  ownerOf(uuid: MachineUuid): Promise<HostUuid | undefined>;
}
