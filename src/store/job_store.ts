// The jobs in the store. Methods take and give whole values and answer after their effect is durable;
// callers may be many processes on one store.

import type { Incarnation, JobUuid, RunnerId, WorkflowUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type {
  FailedAttempt,
  Idempotency,
  Job,
  JobFields,
  NewJob,
  STATS_WINDOWS,
  TaskResult,
} from "../domain/job/job.ts";
import type { Resume } from "../domain/job/request.ts";
import type { DenialReason, Execution, Phase, TaskEvent } from "../domain/job/state.ts";
import type { JobSummary, SummaryFilter, SummaryPlace } from "../domain/job/summary.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import type { Showing, StoredText, TextPage } from "./stored_text.ts";

/** What became of a request for a job. */
export type CreateJobOutcome =
  | PlaceJobOutcome
  /** The same request came before under the same idempotency key. */
  | { readonly kind: "repeated"; readonly job: Pick<Job, "uuid"> }
  /** The idempotency key was used for another request. */
  | { readonly kind: "key_reused"; readonly job_uuid: JobUuid };

/** What became of a job that is to be written among the others. */
export type PlaceJobOutcome =
  | { readonly kind: "created"; readonly job: Job }
  /** An unfinished job has the same target and equal params. */
  | { readonly kind: "duplicate"; readonly job_uuid: JobUuid }
  /** An unfinished job locks the target. */
  | { readonly kind: "locked"; readonly job_uuid: JobUuid }
  /** Another unfinished job has the machine. */
  | { readonly kind: "machine_taken"; readonly job_uuid: JobUuid }
  /** As many jobs are unfinished, or hold locks, as may. */
  | { readonly kind: "full"; readonly what: "unfinished jobs" | "locks"; readonly limit: number };

/** A job of a stored workflow, which is read together with the write. */
export type JobOrder = JobFields & { readonly workflow_uuid: WorkflowUuid };

/** What an order must keep to, and how its job is shown. */
export interface OrderRules {
  /** Jobs that may be unfinished, this one counted. */
  readonly unfinishedMax: number;
  /** Bytes of the workflow, which is read whole. */
  readonly workflowBytesMax: number;
  /** Whether a workflow without tasks is refused. */
  readonly needsTasks: boolean;
  readonly showing: Showing;
}

/** What became of an order: the job as it is shown, or why there is none. */
export type OrderOutcome =
  | Exclude<CreateJobOutcome, { kind: "created" | "repeated" }>
  | {
    readonly kind: "created" | "repeated";
    readonly job: Pick<Job, "uuid">;
    readonly text: StoredText;
  }
  | { readonly kind: "no_workflow" | "no_tasks" }
  | { readonly kind: "large_workflow"; readonly bytes: number };

/** What an earlier request under an idempotency key came to. */
export type EarlierOutcome = Extract<CreateJobOutcome, { kind: "repeated" | "key_reused" }>;

/** Which jobs are meant; a job must fit every key that is given. */
export interface JobFilter {
  readonly execution?: Execution;
  readonly target?: string;
  readonly name?: string;
  readonly workflow_uuid?: WorkflowUuid;
  /** created_at at or after. */
  readonly since?: Instant;
  /** created_at before. */
  readonly until?: Instant;
  /** Top-level params; a text fits the text itself, and the JSON of any other value. */
  readonly params?: Readonly<Record<string, string>>;
}

/** Jobs that are looked at, the newest ones, to learn whether a param of some name is in use. */
export const PARAM_LOOKED_AT_MAX = 1_000;

/** Which part of the jobs that fit, newest first. */
export interface JobPage {
  readonly limit?: number;
  readonly offset?: number;
  /** Only jobs that were made before this one, which is `place` of a job read earlier. */
  readonly before?: number;
}

/** A job in a list, and its place among all jobs: a list goes on before it. */
export interface ListedJob {
  readonly job: Job;
  readonly place: number;
}

/** A job in a list, without what it holds. */
export interface JobKey {
  readonly uuid: JobUuid;
  readonly place: number;
  /** Whether another job was made of it. */
  readonly retried: boolean;
}

/** Which part of a list of summaries. */
export interface SummaryPage {
  readonly limit: number;
  /** The page begins behind this place, which ended one that was read earlier. */
  readonly after?: SummaryPlace | undefined;
}

/** A part of a list of summaries: none, where none of the jobs that were looked at fits. */
export interface SummaryPart {
  readonly summaries: readonly JobSummary[];
  /** Where the next page begins; absent at the end of the list. */
  readonly next?: SummaryPlace;
}

/** Names a claimed job and the claim: a write under it happens only while the claim holds. */
export interface Hold {
  readonly job_uuid: JobUuid;
  readonly runner_id: RunnerId;
  /** `lease` of the job as it was claimed. */
  readonly lease: number;
  /** In which the runner has the job; a cancel may have brought another since. */
  readonly phase: Phase;
}

/** The end of one task, and what becomes of its job: both are written, or neither. */
export interface TaskRecord extends Hold {
  /**
   * How many tasks of the phase were recorded before: the place of `entry`. It names the record, so that
   * one which is written again after its answer was lost stands once.
   */
  readonly position: number;
  /** Absent when no task ended. */
  readonly entry?: TaskResult;
  readonly params: JsonObject;
  readonly props: JsonObject;
  /** Milliseconds the phase has run, all claims together. */
  readonly elapsed_ms: number;
  readonly event: TaskEvent;
  /** The last attempt and its fallback, those of them that failed: no other one follows. */
  readonly attempts?: readonly FailedAttempt[];
  /** The job that takes the place of one that ends as retried; null when there is none. */
  readonly successor?: NewJob | null;
  readonly now: Instant;
}

/** An attempt that failed and is followed by another one of the same task. */
export interface AttemptRecord extends Hold {
  readonly attempt: FailedAttempt;
  /** `failures` of the job before it. */
  readonly failures: number;
  /** From when on the next one may begin. */
  readonly retry_at: Instant;
  /** Milliseconds the phase has run, all claims together. */
  readonly elapsed_ms: number;
  readonly now: Instant;
}

/** A job that was to be changed, without what it holds. */
export type ChangedJob = Pick<Job, "uuid" | "execution">;

/** What became of a request to change a job; `text` is there for a caller that asked to see the job. */
export type ChangeOutcome =
  | { readonly kind: "changed"; readonly job: ChangedJob; readonly text?: StoredText }
  | { readonly kind: "denied"; readonly reason: DenialReason; readonly job: ChangedJob }
  | { readonly kind: "not_found" };

/** What became of a request to make a finished job again. */
export type RetryOutcome =
  | PlaceJobOutcome
  /** The job is unfinished, or another job was made of it already. */
  | { readonly kind: "denied"; readonly reason: "unfinished"; readonly job: ChangedJob }
  | { readonly kind: "denied"; readonly reason: "retried"; readonly next_attempt: JsonValue }
  | { readonly kind: "not_found" };

/** When there is something to claim. Milliseconds, since the clock is the store's. */
export type NextDue =
  | { readonly kind: "ready" }
  | { readonly kind: "in"; readonly ms: number }
  | { readonly kind: "none" };

/** A runner in one of its lives. */
export interface RunnerLife {
  readonly runner_id: RunnerId;
  readonly incarnation: Incarnation;
}

/** What became of a life that was to begin. */
export type BeginOutcome =
  /** `rescued`: jobs of an earlier life, which are queued again. */
  | { readonly kind: "begun"; readonly rescued: number }
  /** Another life of the runner has the lease, for so long unless it is renewed. */
  | { readonly kind: "held"; readonly left_ms: number };

/** What a runner learns with its lease. */
export type RenewOutcome =
  | {
    readonly kind: "renewed";
    /** Of the claims that it named: those that no longer hold. */
    readonly lost: readonly JobUuid[];
    /** Of the claims that it named: those whose job was canceled; its oncancel chain may go on here. */
    readonly canceled: readonly JobUuid[];
    /** Jobs that it has claimed and did not name: the answer to the claim was lost. */
    readonly unknown: readonly Job[];
  }
  /** A later life of the runner has begun: this one holds nothing. */
  | { readonly kind: "superseded" };

/** Jobs that were claimed, and when to ask again. */
export interface Claimed {
  readonly jobs: readonly Job[];
  readonly due: NextDue;
}

/** Which finished jobs may go. */
export interface Retention {
  /** Those that ended before. */
  readonly finished_before: Instant;
  /** The oldest ones, while there are more than so many. */
  readonly finished_max: number;
  /** At most so many at once, so that no other write waits for long. */
  readonly limit: number;
}

/**
 * Jobs, their order and their moves through the states of domain/job/state.ts. A read returns
 * undefined when the job is missing. Every call may be made again after its answer was lost: create(),
 * retry(), resume() and the writes of a runner find what the first one did and answer it; the others come
 * to the same end, and say what they find. Leases and due jobs go by the clock of the store alone.
 */
export interface JobStore {
  /** @param unfinishedMax jobs that may be unfinished, this one counted */
  create(job: NewJob, unfinishedMax?: number): Promise<CreateJobOutcome>;
  /** Makes a job of a workflow in one call: whether the request came before is looked at first. */
  order(order: JobOrder, rules: OrderRules): Promise<OrderOutcome>;
  /** What an earlier request under the key came to; undefined when there was none. */
  earlier(idempotency: Idempotency): Promise<EarlierOutcome | undefined>;
  get(uuid: JobUuid): Promise<Job | undefined>;
  /** One job as text. */
  text(uuid: JobUuid, showing: Showing): Promise<StoredText | undefined>;
  /** About how many bytes a job has as text, without reading it. */
  bytes(uuid: JobUuid): Promise<number | undefined>;
  /** The execution of a job, without what it holds. */
  execution(uuid: JobUuid): Promise<Execution | undefined>;
  /** Newest first. */
  list(filter: JobFilter, page?: JobPage): Promise<ListedJob[]>;
  /** The next part of the same list, as texts. */
  texts(
    filter: JobFilter,
    page: JobPage & { readonly limit: number },
    showing: Showing,
  ): Promise<TextPage>;
  /** The same list without what the jobs hold. */
  keys(filter: JobFilter, page?: JobPage): Promise<JobKey[]>;
  /** Newest first. A page is bounded by the jobs that it looks at, however many there are. */
  summaries(filter: SummaryFilter, page: SummaryPage): Promise<SummaryPart>;
  summary(uuid: JobUuid): Promise<JobSummary | undefined>;
  /** The newest jobs of one target. */
  ofTarget(target: string, limit: number): Promise<Job[]>;
  count(filter: JobFilter): Promise<number>;
  /** Whether one of the newest jobs, so many as PARAM_LOOKED_AT_MAX, has a param of this name. */
  hasParam(name: string): Promise<boolean>;
  /**
   * Takes ready jobs, fairly between workflows, and counts the start of their present task. One
   * conditional update that names the runner: a job is given to one caller. When the answer is lost,
   * renew() tells of the jobs; claiming again takes others. A life that has ended is given none.
   * @param limit 0 to ask only when there is something to claim
   */
  claim(life: RunnerLife, limit: number): Promise<Claimed>;
  /**
   * Begins the life of a runner: it has the lease, and what earlier lives held is queued again.
   * @param earlier lives of the runner that the caller knows to have ended. While the lease of another
   * one lasts, as after its state folder was copied, nothing is begun and nothing is taken.
   */
  begin(
    life: RunnerLife,
    earlier: readonly Incarnation[],
    lease_ms: number,
  ): Promise<BeginOutcome>;
  /**
   * Extends the lease of a runner from now on: nobody rescues its jobs before it ends.
   * @param held the claims that the runner knows of
   */
  renew(life: RunnerLife, held: readonly Hold[], lease_ms: number): Promise<RenewOutcome>;
  /**
   * @returns whether the record stands: written by this call, or by one before whose answer was lost; false
   * when the claim no longer holds, and nothing was written
   */
  recordTask(record: TaskRecord): Promise<boolean>;
  /**
   * Keeps a failed attempt in the log of the job. The same record may be written again.
   * @returns false when the claim no longer holds; nothing was written then
   */
  recordAttempt(record: AttemptRecord): Promise<boolean>;
  /**
   * Gives a claimed job back, the start of its task not counted. @returns whether the claim held
   * @param elapsed_ms milliseconds the phase has run, all claims together; a phase that a cancel has
   * brought has its own
   */
  release(hold: Hold, elapsed_ms: number, now: Instant): Promise<boolean>;
  /** Gives a job back whose run a defect of the agent broke off; its start stays counted. */
  abandon(hold: Hold, now: Instant): Promise<boolean>;
  /**
   * Queues again what other runners left behind, those whose lease is over. @returns how many jobs
   * @param runner_id the runner that asks, whose own jobs are left to it
   */
  rescue(runner_id: RunnerId): Promise<number>;
  /**
   * A job with an oncancel chain that had started is canceled, and that chain becomes due. A repetition is
   * denied, naming the job as canceled.
   */
  cancel(uuid: JobUuid, now: Instant, showing?: Showing): Promise<ChangeOutcome>;
  /** @param call names the call, for those who may repeat it: its wait is ended once */
  resume(
    uuid: JobUuid,
    resume: Resume,
    now: Instant,
    showing?: Showing,
    call?: string,
  ): Promise<ChangeOutcome>;
  /** Makes a finished job again; both jobs name each other. */
  retry(uuid: JobUuid, successor: NewJob, unfinishedMax?: number): Promise<RetryOutcome>;
  /** Numbers of jobs per execution in the disjoint windows of document 2. */
  stats(now: Instant): Promise<JobStats>;
  /**
   * Removes finished jobs with all that belongs to them, but none that still answers a repeated request
   * or whose callback is due. @returns how many jobs
   */
  prune(retention: Retention, now: Instant): Promise<number>;
  /**
   * Forgets idempotency keys that were used more than a day ago, so many at the most. @returns how many
   */
  pruneKeys(now: Instant, limit: number): Promise<number>;
  /**
   * Removes info of jobs that prune() has removed, at most so many entries, so that no write is
   * long. @returns how many
   */
  pruneInfo(entries: number): Promise<number>;
}

/** Info entries removed in one write: a job may have many thousand. */
export const INFO_BATCH = 10_000;

/** A member of GET /stats. */
export type StatsWindow = typeof STATS_WINDOWS[number];
/** @see document 2, Stats */
export type JobStats = Record<StatsWindow, Record<Execution, number>>;
