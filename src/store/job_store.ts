// The jobs in the store. Methods take and give whole values and answer after their effect is durable;
// callers may be many processes on one store.

import type { HostUuid, Incarnation, JobUuid, RunnerId, WorkflowUuid } from "../domain/id.ts";
import type { Admission } from "../domain/host.ts";
import type { JobNotice, NoHost } from "./host_store.ts";
import type { Instant } from "../domain/instant.ts";
import type {
  FailedAttempt,
  Idempotency,
  Job,
  JobFields,
  NewJob,
  TaskResult,
} from "../domain/job/job.ts";
import type { Resume } from "../domain/job/request.ts";
import type { DenialReason, Execution, Phase, TaskEvent } from "../domain/job/state.ts";
import type { JobSummary, SummaryFilter, SummaryPlace } from "../domain/job/summary.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import type { HourOfJobs, JobStats } from "./stats.ts";
import type { Showing, StoredText, TextPage } from "./stored_text.ts";

/** Outcome of a request to create a job. */
export type CreateJobOutcome =
  | PlaceJobOutcome
  /** A repeat of an earlier request with the same idempotency key. */
  | { readonly kind: "repeated"; readonly job: Pick<Job, "uuid"> }
  /** The idempotency key was used for another request. */
  | { readonly kind: "key_reused"; readonly job_uuid: JobUuid };

/** Outcome of inserting a job. */
export type PlaceJobOutcome =
  | { readonly kind: "created"; readonly job: Job }
  /** An unfinished job has the same target and equal params. */
  | { readonly kind: "duplicate"; readonly job_uuid: JobUuid }
  /** An unfinished job locks the target. */
  | { readonly kind: "locked"; readonly job_uuid: JobUuid }
  /** Another unfinished job has the machine. */
  | { readonly kind: "machine_taken"; readonly job_uuid: JobUuid }
  /** The params name a host that is not registered, several of one name, or a forgotten one. */
  | NoHost
  /** The limit of unfinished jobs, or of jobs with locks, is reached. */
  | { readonly kind: "full"; readonly what: "unfinished jobs" | "locks"; readonly limit: number };

/** A new job of a stored workflow; the workflow is read in the same transaction. */
export type JobOrder = JobFields & { readonly workflow_uuid: WorkflowUuid };

/** Limits of an order, and how its job is shown. */
export interface OrderRules {
  /** Maximum number of unfinished jobs, including this one. */
  readonly unfinishedMax: number;
  /** Largest workflow, bytes: it is read whole. */
  readonly workflowBytesMax: number;
  /** Whether a workflow without tasks is refused. */
  readonly needsTasks: boolean;
  readonly showing: Showing;
}

/** Outcome of an order: the job as shown, or why there is none. */
export type OrderOutcome =
  | Exclude<CreateJobOutcome, { kind: "created" | "repeated" }>
  | {
    readonly kind: "created" | "repeated";
    readonly job: Pick<Job, "uuid">;
    readonly text: StoredText;
  }
  | { readonly kind: "no_workflow" | "no_tasks" }
  | { readonly kind: "large_workflow"; readonly bytes: number };

/** Outcome of an earlier request with the same idempotency key. */
export type EarlierOutcome = Extract<CreateJobOutcome, { kind: "repeated" | "key_reused" }>;

/** Selects jobs; a job must match every given key. */
export interface JobFilter {
  readonly execution?: Execution;
  readonly target?: string;
  readonly name?: string;
  readonly workflow_uuid?: WorkflowUuid;
  /** The host that runs it, or has run it. */
  readonly host?: HostUuid;
  /** Created at this time or later. */
  readonly since?: Instant;
  /** Created before this time. */
  readonly until?: Instant;
  /** Top-level params; a string matches that string, or the JSON of any other value. */
  readonly params?: Readonly<Record<string, string>>;
}

/** How many of the newest jobs are searched for a param name. */
export const PARAM_LOOKED_AT_MAX = 1_000;

/** A page of the matching jobs, newest first. */
export interface JobPage {
  readonly limit?: number;
  readonly offset?: number;
  /** Only jobs created before this `place`, taken from a job read earlier. */
  readonly before?: number;
}

/** A job in a list, and its place among all jobs, from which the next page continues. */
export interface ListedJob {
  readonly job: Job;
  readonly place: number;
}

/** A job in a list, without its contents. */
export interface JobKey {
  readonly uuid: JobUuid;
  readonly place: number;
  /** Whether it has been retried as another job. */
  readonly retried: boolean;
}

/** A page of a list of summaries. */
export interface SummaryPage {
  readonly limit: number;
  /** Starts after this place, where an earlier page ended. */
  readonly after?: SummaryPlace | undefined;
}

/** One page of summaries; empty when none of the examined jobs matches. */
export interface SummaryPart {
  readonly summaries: readonly JobSummary[];
  /** Where the next page starts; absent on the last page. */
  readonly next?: SummaryPlace;
}

/** How many jobs fit a filter. */
export interface SummaryCounts {
  readonly counts: ReadonlyMap<Execution, number>;
  /** Whether all jobs were examined; otherwise there may be more. */
  readonly whole: boolean;
}

/** Names a claimed job and the claim: a write under it happens only while the claim holds. */
export interface Hold {
  readonly job_uuid: JobUuid;
  readonly runner_id: RunnerId;
  /** `lease` of the job as it was claimed. */
  readonly lease: number;
  /** The phase the runner is in; a cancel may have changed it in the row. */
  readonly phase: Phase;
}

/** The end of one task and the next state of its job, written atomically. */
export interface TaskRecord extends Hold {
  /**
   * Tasks of the phase recorded before this one: the position of `entry`. It identifies the record, so that
   * a write repeated after a lost answer is stored once.
   */
  readonly position: number;
  /** Absent when no task ended. */
  readonly entry?: TaskResult;
  readonly params: JsonObject;
  readonly props: JsonObject;
  /** Milliseconds the phase has run, over all claims. */
  readonly elapsed_ms: number;
  readonly event: TaskEvent;
  /** The final attempt and its fallback, as far as they failed. */
  readonly attempts?: readonly FailedAttempt[];
  /** The job that replaces one that ends as retried; null for none. */
  readonly successor?: NewJob | null;
}

/** A failed attempt after which the task is tried again. */
export interface AttemptRecord extends Hold {
  /** The next attempt may start after `wait_seconds`. */
  readonly attempt: FailedAttempt & { readonly wait_seconds: number };
  /** `failures` of the job before it. */
  readonly failures: number;
  /** The job data as the attempt left it; the next attempt starts from it. */
  readonly params: JsonObject;
  readonly props: JsonObject;
  /** Milliseconds the phase has run, over all claims. */
  readonly elapsed_ms: number;
}

/** The job of a change request, without its contents. */
export interface ChangedJob extends Pick<Job, "uuid" | "execution"> {
  /** Whether the runner of another host still has the canceled job, and is to end its task. */
  readonly held?: boolean;
}

/** Outcome of a change request; `text` is set when the caller asked for the job. */
export type ChangeOutcome =
  | { readonly kind: "changed"; readonly job: ChangedJob; readonly text?: StoredText }
  /** Already done by an earlier identical call: a retry after a lost answer succeeds. */
  | { readonly kind: "made"; readonly job: ChangedJob }
  | { readonly kind: "denied"; readonly reason: DenialReason; readonly job: ChangedJob }
  | { readonly kind: "not_found" };

/** Outcome of a request to retry a finished job. */
export type RetryOutcome =
  | PlaceJobOutcome
  /** The job is unfinished, or was retried already. */
  | { readonly kind: "denied"; readonly reason: "unfinished"; readonly job: ChangedJob }
  | { readonly kind: "denied"; readonly reason: "retried"; readonly next_attempt: JsonValue }
  | { readonly kind: "not_found" };

/** When there is something to claim. A duration, because instants are by the store's clock. */
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
  /** `rescued`: jobs of an earlier life, which are queued again. */
  | { readonly kind: "begun"; readonly rescued: number }
  /** Another life of the runner holds the lease until then, unless it renews it. */
  | { readonly kind: "held"; readonly left_ms: number };

/** What a runner learns with its lease. */
export type RenewOutcome =
  | {
    readonly kind: "renewed";
    /** Reported claims that no longer hold. */
    readonly lost: readonly JobUuid[];
    /** Reported claims whose job was canceled; the oncancel chain may continue here. */
    readonly canceled: readonly JobUuid[];
    /**
     * Claimed jobs that it did not report: the answer to the claim was lost, or it has ended their tasks. Their
     * `elapsed_at` is the present.
     */
    readonly unknown: readonly Job[];
    /** What the host of the runner may claim. */
    readonly admission: Admission;
    /** Whether the store does not know the host in this life, as after a restore: it has to register again. */
    readonly unregistered?: true;
  }
  /** A later life of the runner has begun; this one holds nothing any more. */
  | { readonly kind: "superseded" };

/** Jobs that were claimed, and when to ask again. */
export interface Claimed {
  readonly jobs: readonly Job[];
  readonly due: NextDue;
  /** Whether free jobs are ready, which ready() leaves to claim(). */
  readonly free?: boolean;
}

/** Which finished jobs may be removed. */
export interface Retention {
  /** Minimum milliseconds since the end; null for no limit by age. */
  readonly age_ms: number | null;
  /** Removable jobs to keep; the oldest beyond this number are removed. */
  readonly finished_max: number;
  /** Jobs removed in one write, so that other writes do not wait long. */
  readonly limit: number;
}

/**
 * Jobs, their order and their moves through the states of domain/job/state.ts. A read returns undefined
 * when the job is missing. Every call may be repeated after its answer was lost: create(), retry(),
 * cancel(), resume() and the writes of a runner recognize the first call and return its result; the others
 * are idempotent. Instants are taken from the store's clock and callers pass durations, except for
 * `exec_after`, the bounds of a filter, and the times in a task's entry, which its runner measured.
 */
export interface JobStore {
  /** @param unfinishedMax maximum number of unfinished jobs, including this one */
  create(job: NewJob, unfinishedMax?: number): Promise<CreateJobOutcome>;
  /** Creates a job of a workflow in one call, after checking for a repeated request. */
  order(order: JobOrder, rules: OrderRules): Promise<OrderOutcome>;
  /** Outcome of an earlier request with this key, or undefined. */
  earlier(idempotency: Idempotency): Promise<EarlierOutcome | undefined>;
  get(uuid: JobUuid): Promise<Job | undefined>;
  text(uuid: JobUuid, showing: Showing): Promise<StoredText | undefined>;
  /** Approximate size of the job's text in bytes, without reading it. */
  bytes(uuid: JobUuid): Promise<number | undefined>;
  /** Only the execution of a job. */
  execution(uuid: JobUuid): Promise<Execution | undefined>;
  /** The matching jobs, newest first. */
  list(filter: JobFilter, page?: JobPage): Promise<ListedJob[]>;
  /** The same list as texts, one part at a time. */
  texts(
    filter: JobFilter,
    page: JobPage & { readonly limit: number },
    showing: Showing,
  ): Promise<TextPage>;
  /** The same list without the jobs' contents. */
  keys(filter: JobFilter, page?: JobPage): Promise<JobKey[]>;
  /** Newest first. A page examines a bounded number of jobs, however many exist. */
  summaries(filter: SummaryFilter, page: SummaryPage): Promise<SummaryPart>;
  /** Of all such lists together; bounded as a page is. */
  summaryCounts(filter: SummaryFilter): Promise<SummaryCounts>;
  summary(uuid: JobUuid): Promise<JobSummary | undefined>;
  /** The newest jobs of one target. */
  ofTarget(target: string, limit: number): Promise<Job[]>;
  count(filter: JobFilter): Promise<number>;
  /** Whether one of the PARAM_LOOKED_AT_MAX newest jobs has a param of this name. */
  hasParam(name: string): Promise<boolean>;
  /**
   * Takes ready jobs, fairly between workflows, and counts the start of their present task. One
   * conditional update that names the runner gives each job to one caller. After a lost answer,
   * renew() reports the claimed jobs; another claim takes different ones. An ended life gets none.
   * @param limit 0 to ask only when there is something to claim
   * @param which `free` for none but free jobs, where hosts share the store
   */
  claim(life: RunnerLife, limit: number, which?: "all" | "free"): Promise<Claimed>;
  /**
   * The jobs that claim() would take, as claim() would return them. Nothing is written or reserved:
   * hold() claims them in a later commit. Where hosts share the store, free jobs are left to claim().
   * @param passedOver jobs to skip because hold() was already called for them
   */
  ready(life: RunnerLife, limit: number, passedOver: ReadonlySet<JobUuid>): Promise<Claimed>;
  /**
   * Claims jobs as ready() returned them, except those that have changed since. The write may wait a few
   * milliseconds to share a commit, unless hurry() is called.
   * @returns the jobs that the runner holds
   */
  hold(life: RunnerLife, jobs: readonly Job[]): Promise<readonly JobUuid[]>;
  /**
   * Calls back after changes, this agent's too, if agents share the store; otherwise only when jobs were queued.
   * A call may be missing after an outage: runners also look by themselves. @returns ends that
   */
  follow(noticed: (notice: JobNotice) => void): () => void;
  /** Commits the waiting writes now. */
  hurry(): void;
  /** Number of new jobs that are being written by create(), order() and retry(). */
  creating(): number;
  /**
   * Begins the life of a runner: it gets the lease, and the jobs of earlier lives are queued again.
   * @param earlier lives of the runner that the caller knows to have ended. While another life still has
   * its lease, as after the state folder was copied, this call changes nothing.
   */
  begin(
    life: RunnerLife,
    earlier: readonly Incarnation[],
    lease_ms: number,
  ): Promise<BeginOutcome>;
  /**
   * Extends the lease of a runner, as a sign of life of its host; no other runner rescues its jobs before it
   * expires. A forgotten host holds nothing.
   * @param held the claims that the runner knows about
   */
  renew(life: RunnerLife, held: readonly Hold[], lease_ms: number): Promise<RenewOutcome>;
  /**
   * @returns whether the record is stored, by this call or by an earlier one whose answer was lost; false
   * when the claim no longer holds and nothing was written
   * @param patient whether the write may wait a few milliseconds to share a commit
   */
  recordTask(record: TaskRecord, patient?: boolean): Promise<boolean>;
  /**
   * Adds a failed attempt to the log of the job. The same record may be written again.
   * @returns false when the claim no longer holds and nothing was written
   */
  recordAttempt(record: AttemptRecord): Promise<boolean>;
  /**
   * Gives a claimed job back without counting the start of its task. @returns whether the claim held
   * @param elapsed_ms milliseconds the phase has run, over all claims; ignored when a cancel has changed
   * the phase
   */
  release(hold: Hold, elapsed_ms: number): Promise<boolean>;
  /** Gives a job back after a defect of the agent; the start of its task stays counted. */
  abandon(hold: Hold): Promise<boolean>;
  /**
   * Queues the jobs of other runners whose leases have expired again. @returns how many jobs
   * @param runner_id the calling runner, whose own jobs are not touched
   */
  rescue(runner_id: RunnerId): Promise<number>;
  /**
   * Cancels a job; if it had started and has an oncancel chain, that chain becomes due. For a job that is
   * canceled already, nothing changes and the outcome is `made`.
   */
  cancel(uuid: JobUuid, showing?: Showing): Promise<ChangeOutcome>;
  /** @param call identifies the call when it may be repeated, so that it ends one wait only */
  resume(
    uuid: JobUuid,
    resume: Resume,
    showing?: Showing,
    call?: string,
  ): Promise<ChangeOutcome>;
  /** Creates a finished job again; the two jobs refer to each other. */
  retry(uuid: JobUuid, successor: NewJob, unfinishedMax?: number): Promise<RetryOutcome>;
  /** Job counts per execution in the disjoint windows of document 2. */
  stats(): Promise<JobStats>;
  /**
   * How the kept jobs ended since the hour of an instant, per hour, oldest first. Hours without jobs are
   * left out. Takes the same time however many jobs there are.
   */
  finished(since: Instant): Promise<HourOfJobs[]>;
  /**
   * Removes finished jobs and everything that belongs to them, except jobs that still answer a repeated
   * request or have a pending callback. @returns how many jobs
   */
  prune(retention: Retention): Promise<number>;
  /** Forgets up to a number of idempotency keys used more than a day ago. @returns how many */
  pruneKeys(limit: number): Promise<number>;
  /** Removes info entries of jobs that prune() has removed, in bounded writes. @returns how many */
  pruneInfo(entries: number): Promise<number>;
}

/** Info entries removed in one write: a job may have many thousand. */
export const INFO_BATCH = 10_000;
