// The claims of jobs on machines that they create, and the leftovers of those that failed.

import { type OwnEvent, ownText } from "../domain/event.ts";
import type { HostUuid, JobUuid, MachineUuid, WorkflowUuid } from "../domain/id.ts";
import { type Instant, msBetween } from "../domain/instant.ts";
import { errorLine } from "../domain/job/job.ts";
import type { Execution } from "../domain/job/state.ts";

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
