// Which job has begun to make which machine. A claim is written before vmadm makes anything, and only
// when nothing on the host carries the machine's uuid: what carries it afterwards is the job's to
// remove, also after a crash of agent and vmadm together, and after an undoing that failed.

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
  /** Null while nobody has looked since the job ended. */
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
   * The machine is this job's from now on, whosever it was.
   * @returns whether there is such a job; nothing is claimed for another
   */
  take(
    machine: Pick<MachineClaim, "uuid" | "host" | "job_uuid">,
    now: Instant,
  ): Promise<boolean>;
  get(uuid: MachineUuid): Promise<MachineClaim | undefined>;
  /** Nothing of it is left, or it is somebody else's. A claim of another job stays. */
  release(uuid: MachineUuid, job_uuid: JobUuid): Promise<void>;
  /** Releases the claims of jobs that succeeded: their machines stand. */
  settle(): Promise<void>;
  /**
   * Claims of jobs that have ended otherwise, with their last task; the oldest come first.
   * @param host only those of this host
   */
  left(limit?: number, host?: string): Promise<Leftover[]>;
  /**
   * When the next attempt is due.
   * @param claim as it was read: the attempt counts once, also when the call is repeated
   * @param error what an attempt has just failed with; null when none was made
   */
  postpone(claim: MachineClaim, next_try_at: Instant, error: string | null): Promise<void>;
}
