// Claims: which job is creating which machine. A claim is written before vmadm creates anything, and only if
// nothing on the host has the machine's uuid. Whatever has that uuid later was created by the job, which may
// remove it, even after a crash of agent and vmadm or a failed undo.

import type { HostUuid, JobUuid, MachineUuid, WorkflowUuid } from "../domain/id.ts";
import { type Instant, msBetween } from "../domain/instant.ts";
import type { Execution } from "../domain/job/state.ts";

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
