// Which job has begun to make which machine. A claim is written before vmadm makes anything, and only
// when nothing on the host has the machine's uuid. Anything with that uuid afterwards is the job's to
// remove, even after agent and vmadm crashed together, or after an undo that failed.

import type { JobUuid, MachineUuid, WorkflowUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { Execution } from "../domain/job/state.ts";

/** That a job may remove whatever carries the uuid of a machine. */
export interface MachineClaim {
  readonly uuid: MachineUuid;
  /** The managed host that has the machine, as Transport names it; another one finds nothing of it. */
  readonly host: string;
  readonly job_uuid: JobUuid;
  readonly claimed_at: Instant;
  /** Attempts to remove what is left, made since the job ended. */
  readonly tries: number;
  /** Null until the first check after the end of the job. */
  readonly next_try_at: Instant | null;
  /** What the latest attempt failed with; null before the first. */
  readonly error: string | null;
}

/**
 * A claim whose job has ended without a machine: something of it may be left. It outlives its job, which
 * retention removes like others.
 */
export interface Leftover extends MachineClaim {
  /** How the job ended. */
  readonly execution: Exclude<Execution, "queued" | "running" | "waiting" | "succeeded">;
  readonly workflow_uuid: WorkflowUuid;
}

/** The claims; a machine has one at a time. */
export interface MachineClaimStore {
  /**
   * Assigns the machine to this job, replacing any earlier claim.
   * @returns whether there is such a job; nothing is claimed for another
   */
  take(machine: Pick<MachineClaim, "uuid" | "host" | "job_uuid">): Promise<boolean>;
  get(uuid: MachineUuid): Promise<MachineClaim | undefined>;
  /** Drops the claim once nothing is left, or the machine is someone else's. Claims of other jobs stay. */
  release(uuid: MachineUuid, job_uuid: JobUuid): Promise<void>;
  /** The same for a leftover that an operator gives up: something of it may be there still. */
  drop(uuid: MachineUuid, job_uuid: JobUuid): Promise<void>;
  /** Releases the claims of jobs that succeeded: their machines stand. */
  settle(): Promise<void>;
  /**
   * Claims of jobs that have ended otherwise, with their last task; the oldest come first.
   * @param host only those of this host
   */
  left(limit?: number, host?: string): Promise<Leftover[]>;
  /** The claim of a machine, if it is one of those; undefined for any other. */
  leftover(uuid: MachineUuid): Promise<Leftover | undefined>;
  /**
   * Sets when the next attempt is due.
   * @param claim as it was read: the attempt counts once, also when the call is repeated
   * @param wait_ms milliseconds from now, by the store's clock
   * @param error what an attempt has just failed with; null when none was made
   */
  postpone(claim: MachineClaim, wait_ms: number, error: string | null): Promise<void>;
}
