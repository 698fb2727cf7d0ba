// The interface of jobs in the store: what requests do with them, besides what runners do. A method resolves once its effect
// is durable, and many processes may call it on one store.

import type { HostUuid, JobUuid, WorkflowUuid } from "../domain/id.ts";
import type { JobNotice, NoHost } from "./host_store.ts";
import type { Instant } from "../domain/instant.ts";
import type { Job, JobFields, NewJob } from "../domain/job/job.ts";
import type { Idempotency } from "../domain/job/idempotency.ts";
import type { Resume } from "../domain/job/request.ts";
import type { DenialReason, Execution } from "../domain/job/state.ts";
import type { JobSummary, SummaryFilter, SummaryPlace } from "../domain/job/summary.ts";
import type { JsonValue } from "../domain/json.ts";
import type { RunStore } from "./run_store.ts";
import type { HourOfJobs, JobStats } from "./stats.ts";
import type { Showing, StoredText, TextPage } from "./stored_text.ts";

/** What became of a request for a job: made, found, or refused. */
export type CreateJobOutcome =
  | PlaceJobOutcome
  /** A repetition of an earlier request with the same idempotency key. */
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
  /** Another unfinished job is for the same machine. */
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
  /** Largest workflow to read, bytes; it is read as a whole. */
  readonly workflowBytesMax: number;
  /** Whether a workflow without tasks is refused. */
  readonly needsTasks: boolean;
  readonly showing: Showing;
}

/** Outcome of an order: the text of its job, or why there is none. */
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
  /** The host that runs the job or has run it. */
  readonly host?: HostUuid;
  /** Created at this time or later. */
  readonly since?: Instant;
  /** Created before this time. */
  readonly until?: Instant;
  /** Top-level params; a string matches that string, or the JSON of any other value. */
  readonly params?: Readonly<Record<string, string>>;
}

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
  /** Whether the job was retried as another job. */
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

/** How many jobs match a filter. */
export interface SummaryCounts {
  readonly counts: ReadonlyMap<Execution, number>;
  /** Whether all jobs were examined; otherwise there may be more. */
  readonly whole: boolean;
}

/** The job of a change request, without its contents. */
export interface ChangedJob extends Pick<Job, "uuid" | "execution"> {
  /** Whether the runner of another host still holds the canceled job and must end its task. */
  readonly held?: boolean;
}

/** Outcome of a change request; `text` is set if the caller asked for the job. */
export type ChangeOutcome =
  | { readonly kind: "changed"; readonly job: ChangedJob; readonly text?: StoredText }
  /** An earlier identical call did this already, so a repetition after a lost answer succeeds. */
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

/** Which finished jobs may be removed. */
export interface Retention {
  /** Minimum milliseconds since the end; null for no limit by age. */
  readonly age_ms: number | null;
  /** Removable jobs to keep; the oldest beyond this number are removed. */
  readonly finished_max: number;
  /** Jobs that are removed in one write, so that other writes do not wait long. */
  readonly limit: number;
}

/**
 * Jobs, their order, and their moves through the states of domain/job/state.ts. A read returns undefined when the job
 * does not exist. Every call may be repeated after its answer was lost: create(), retry(), cancel(), resume() and the
 * writes of a runner recognize the first call and return its result; the others are idempotent. Instants are taken from
 * the store's clock and callers pass durations, except for `exec_after`, the bounds of a filter, and the times in a
 * task's entry, which its runner measured.
 */
export interface JobStore extends RunStore {
  /** @param unfinishedMax maximum number of unfinished jobs, including this one */
  create(job: NewJob, unfinishedMax: number): Promise<CreateJobOutcome>;
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
  /** Lists the matching jobs, newest first. */
  list(filter: JobFilter, page?: JobPage): Promise<ListedJob[]>;
  /** As list(), but as texts, one part at a time. */
  texts(
    filter: JobFilter,
    page: JobPage & { readonly limit: number },
    showing: Showing,
  ): Promise<TextPage>;
  /** As list(), without the contents of the jobs. */
  keys(filter: JobFilter, page?: JobPage): Promise<JobKey[]>;
  /** Lists summaries, newest first. A page examines a bounded number of jobs, however many exist. */
  summaries(filter: SummaryFilter, page: SummaryPage): Promise<SummaryPart>;
  /** Counts the jobs of all pages of such a list; it examines as many jobs as a page. */
  summaryCounts(filter: SummaryFilter): Promise<SummaryCounts>;
  summary(uuid: JobUuid): Promise<JobSummary | undefined>;
  /** The newest jobs of one target. */
  ofTarget(target: string, limit: number): Promise<Job[]>;
  count(filter: JobFilter): Promise<number>;
  /** Whether one of the PARAM_LOOKED_AT_MAX newest jobs has a param of this name. */
  hasParam(name: string): Promise<boolean>;
  /**
   * Calls back after changes; if agents share the store, after those of all agents that concern this host. Calls may be
   * lost in an outage, so followers also poll.
   * @returns a function that ends it
   */
  follow(noticed: (notice: JobNotice) => void): () => void;
  /** Has followers called with `changed` too, for the jobs of all agents. @returns a function that ends it */
  watch(): () => void;
  /** Number of new jobs that are being written by create(), order() and retry(). */
  creating(): number;
  /**
   * Cancels a job. If it had started and has an oncancel chain, that chain becomes due. If it was canceled before,
   * nothing changes and the outcome is `made`.
   */
  cancel(uuid: JobUuid, showing?: Showing): Promise<ChangeOutcome>;
  /** @param call identifies the call if it may be repeated, so that it ends only one wait */
  resume(
    uuid: JobUuid,
    resume: Resume,
    showing?: Showing,
    call?: string,
  ): Promise<ChangeOutcome>;
  /** Creates a new job from a finished one; the two jobs refer to each other. */
  retry(uuid: JobUuid, successor: NewJob, unfinishedMax: number): Promise<RetryOutcome>;
  /** Job counts per execution in the disjoint windows of document 2. */
  stats(): Promise<JobStats>;
  /**
   * How the kept jobs ended, per hour since the hour of an instant, oldest first, without hours that have none. Takes
   * the same time however many jobs there are.
   */
  finished(since: Instant): Promise<HourOfJobs[]>;
  /**
   * Removes finished jobs and everything that belongs to them, except jobs that still answer a repeated request or have
   * a pending callback.
   * @returns the number of jobs
   */
  prune(retention: Retention): Promise<number>;
  /** Forgets up to `limit` idempotency keys that are older than a day. @returns the number of keys */
  pruneKeys(limit: number): Promise<number>;
  /** Removes info entries of jobs that prune() has removed, in bounded writes. @returns the number of entries */
  pruneInfo(entries: number): Promise<number>;
}
