// What a runner does with jobs in the store: it begins a life, claims jobs, and writes what became of them while its claims
// hold.

import type { Admission } from "../domain/host.ts";
import type { Incarnation, JobUuid, RunnerId } from "../domain/id.ts";
import type { FailedAttempt, Job, NewJob, TaskResult } from "../domain/job/job.ts";
import type { Phase, TaskEvent } from "../domain/job/state.ts";
import type { JsonObject } from "../domain/json.ts";

/** Names a job and its claim. A write with it takes effect only while the claim holds. */
export interface Hold {
  readonly job_uuid: JobUuid;
  readonly runner_id: RunnerId;
  /** The job's `lease` when it was claimed. */
  readonly lease: number;
  /** The phase that the runner executes; a cancel may have changed the row's phase. */
  readonly phase: Phase;
}

/** The end of a task and the next state of its job, which are written in one transaction. */
export interface TaskRecord extends Hold {
  /**
   * Number of results in the phase before this one, which is the position of `entry`. It identifies the record: when a
   * write is repeated after a lost answer, it is stored only once.
   */
  readonly position: number;
  /** Absent when no task ended. */
  readonly entry?: TaskResult;
  readonly params: JsonObject;
  readonly props: JsonObject;
  /** Milliseconds that the phase has run, over all claims. */
  readonly elapsed_ms: number;
  readonly event: TaskEvent;
  /** The last attempt and its fallback, if they failed. */
  readonly attempts?: readonly FailedAttempt[];
  /** The job that replaces a job that ends as retried; null for none. */
  readonly successor?: NewJob | null;
}

/** A failed attempt after which the task is repeated. */
export interface AttemptRecord extends Hold {
  /** The next attempt may start after `wait_seconds`. */
  readonly attempt: FailedAttempt & { readonly wait_seconds: number };
  /** The job's `failures` before this attempt. */
  readonly failures: number;
  /** The data of the job after the attempt, with which the next attempt starts. */
  readonly params: JsonObject;
  readonly props: JsonObject;
  /** Milliseconds that the phase has run, over all claims. */
  readonly elapsed_ms: number;
}

/** When there is something to claim, as a duration: instants are of the store's clock. */
export type NextDue =
  | { readonly kind: "ready" }
  | { readonly kind: "in"; readonly ms: number }
  | { readonly kind: "none" };

/** A runner in one of its lives. */
export interface RunnerLife {
  readonly runner_id: RunnerId;
  readonly incarnation: Incarnation;
}

/** Outcome of beginning a life. */
export type BeginOutcome =
  /** `rescued` is the number of jobs of earlier lives that are queued again. */
  | { readonly kind: "begun"; readonly rescued: number }
  /** Another life of the runner holds the lease for this long, and longer if it renews it. */
  | { readonly kind: "held"; readonly left_ms: number };

/** What a runner learns when it renews its lease. */
export type RenewOutcome =
  | {
    readonly kind: "renewed";
    /** Reported claims that no longer hold. */
    readonly lost: readonly JobUuid[];
    /** Reported claims whose job was canceled; its oncancel chain may run on this host. */
    readonly canceled: readonly JobUuid[];
    /**
     * Claims that the runner did not report, because the answer to the claim was lost or because it has ended their
     * tasks. `elapsed_at` is the time of the answer.
     */
    readonly unknown: readonly Job[];
    /** What the host of the runner may claim. */
    readonly admission: Admission;
    /** Whether the store does not know the host in this life, for example after a restore; it must register again. */
    readonly unregistered?: true;
  }
  /** A later life of the runner has begun; this one no longer holds any job. */
  | { readonly kind: "superseded" };

/** The jobs of a claim, and when to claim again. */
export interface Claimed {
  readonly jobs: readonly Job[];
  readonly due: NextDue;
  /** Whether free jobs are ready, which only claim() takes. */
  readonly free?: boolean;
}

/**
 * The jobs of runners. Every call may be repeated after its answer was lost, as those of JobStore. Instants are taken from
 * the store's clock and callers pass durations, except for the times in a task's entry, which its runner measured.
 */
export interface RunStore {
  /**
   * Claims ready jobs, fairly between workflows, and counts the start of their current task. Each job is claimed by one
   * conditional update, so no two callers get it. After a lost answer, renew() returns the claimed jobs, while another
   * claim() takes different ones. An ended life gets no jobs.
   * @param limit 0 to ask only when there is something to claim
   * @param which `free` to claim only free jobs, where hosts share the store
   */
  claim(life: RunnerLife, limit: number, which?: "all" | "free"): Promise<Claimed>;
  /**
   * The jobs that claim() would take, as claim() would return them. Nothing is written or reserved: hold() claims them
   * in a later commit. Where hosts share the store, free jobs are left to claim().
   * @param passedOver jobs to skip because hold() was already called for them
   */
  ready(life: RunnerLife, limit: number, passedOver: ReadonlySet<JobUuid>): Promise<Claimed>;
  /**
   * Claims jobs as ready() returned them, except those that have changed since. The write may wait some milliseconds to
   * share a commit, unless hurry() is called.
   * @returns the jobs that the runner holds
   */
  hold(life: RunnerLife, jobs: readonly Job[]): Promise<readonly JobUuid[]>;
  /** Commits the waiting writes now. */
  hurry(): void;
  /**
   * Begins a life of a runner: it gets the lease, and the jobs of earlier lives are queued again. While another life
   * still has its lease, as after the state folder was copied, this call changes nothing.
   * @param earlier lives of the runner that have certainly ended
   */
  begin(
    life: RunnerLife,
    earlier: readonly Incarnation[],
    lease_ms: number,
  ): Promise<BeginOutcome>;
  /**
   * Renews the lease of a runner, which is also the heartbeat of its host; no other runner rescues its jobs before the
   * lease expires. A forgotten host holds nothing.
   * @param held the claims that the runner knows
   */
  renew(life: RunnerLife, held: readonly Hold[], lease_ms: number): Promise<RenewOutcome>;
  /**
   * @returns whether the record is stored, by this call or by an earlier one whose answer was lost; false
   * when the claim no longer holds and nothing was written
   * @param patient whether the write may wait a few milliseconds to share a commit
   */
  recordTask(record: TaskRecord, patient?: boolean): Promise<boolean>;
  /**
   * Adds a failed attempt to the log of the job. Writing the same record twice has no effect.
   * @returns false when the claim no longer holds and nothing was written
   */
  recordAttempt(record: AttemptRecord): Promise<boolean>;
  /**
   * Releases a claimed job without counting the start of its task.
   * @param elapsed_ms milliseconds that the phase has run, over all claims; ignored when a cancel has changed the phase
   * @returns whether the claim held
   */
  release(hold: Hold, elapsed_ms: number): Promise<boolean>;
  /** Releases a claimed job after a defect of the agent; the start of its task stays counted. */
  abandon(hold: Hold): Promise<boolean>;
  /**
   * Queues the jobs of other runners whose leases have expired.
   * @param runner_id the calling runner, whose own jobs are left alone
   * @returns the number of jobs
   */
  rescue(runner_id: RunnerId): Promise<number>;
}
