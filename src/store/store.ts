// What the rest of the house may ask of the store. sqlite/ implements it. Every method answers after
// its effect is durable; nothing here assumes one process or a call that returns at once.

import type { JobUuid, RunnerId, WorkflowUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { Job, NewJob, Phase, Resume, TaskResult } from "../domain/job.ts";
import type { DenialReason, Execution } from "../domain/job_state.ts";
import type { JsonObject } from "../domain/json.ts";
import type { StoredWorkflow, Workflow } from "../domain/workflow.ts";

export interface Store {
  readonly workflows: WorkflowStore;
  readonly jobs: JobStore;
  readonly info: InfoStore;
  readonly index: IndexStore;
  /** Commits what is under way and closes the files. No method may be called after it. */
  close(): Promise<void>;
}

export interface WorkflowStore {
  create(workflow: Workflow, now: Instant): Promise<void>;
  /** Writes a workflow that is part of the agent: made when missing, replaced when different. */
  putBuiltin(workflow: Workflow, now: Instant): Promise<void>;
  /** @returns whether the workflow was there */
  replace(workflow: Workflow): Promise<boolean>;
  /** @returns whether the workflow was there */
  remove(uuid: WorkflowUuid): Promise<boolean>;
  get(uuid: WorkflowUuid): Promise<StoredWorkflow | undefined>;
  /** In the order of their creation. */
  list(filter: { name?: string }): Promise<StoredWorkflow[]>;
}

export type CreateJobOutcome =
  | { readonly kind: "created"; readonly job: Job }
  /** An unfinished job has the same target and equal params. */
  | { readonly kind: "duplicate"; readonly job_uuid: JobUuid };

export interface JobFilter {
  readonly execution?: Execution;
  readonly target?: string;
  readonly name?: string;
  readonly workflow_uuid?: WorkflowUuid;
  /** created_at at or after. */
  readonly since?: Instant;
  /** created_at before. */
  readonly until?: Instant;
  readonly limit?: number;
  readonly offset?: number;
}

/** The end of one task, and what becomes of its job: both are written, or neither. */
export interface TaskRecord {
  readonly job_uuid: JobUuid;
  /** The write happens only while this runner owns the job. */
  readonly runner_id: RunnerId;
  readonly phase: Phase;
  /** Place in the results of the phase; equal to their number so far. Absent when no task ended. */
  readonly entry?: TaskResult;
  readonly params: JsonObject;
  readonly props: JsonObject;
  /** Milliseconds the phase has run, all claims together. */
  readonly elapsed_ms: number;
  readonly next: NextStep;
  readonly now: Instant;
}

/** What becomes of a job after a task. */
export type NextStep =
  /** The next task of the phase follows; the runner keeps the job. */
  | { readonly kind: "continue" }
  /** The chain has failed and onerror follows; the runner keeps the job. */
  | { readonly kind: "onerror" }
  | { readonly kind: "queued"; readonly claimable_at: Instant }
  | { readonly kind: "waiting" }
  | { readonly kind: "finished"; readonly execution: "succeeded" | "failed" }
  /** The whole job is made anew: this one ends as retried, and its successor is written with it. */
  | { readonly kind: "retried"; readonly successor: NewJob | null }
  /** A task canceled its own job; with an oncancel chain the runner keeps the job. */
  | { readonly kind: "canceled"; readonly oncancel: boolean }
  /** The oncancel chain of a canceled job is done. */
  | { readonly kind: "cancel_done" };

export type ChangeOutcome =
  | { readonly kind: "changed"; readonly job: Job }
  | { readonly kind: "denied"; readonly reason: DenialReason; readonly job: Job }
  | { readonly kind: "not_found" };

export interface JobStore {
  create(job: NewJob): Promise<CreateJobOutcome>;
  get(uuid: JobUuid): Promise<Job | undefined>;
  /** Newest first. */
  list(filter: JobFilter): Promise<Job[]>;
  /** The newest jobs of one target. */
  ofTarget(target: string, limit: number): Promise<Job[]>;
  count(filter: JobFilter): Promise<number>;
  /**
   * Takes due jobs, oldest due first, and counts the start of their present task. One conditional
   * update that names the runner: a job is given to one caller.
   */
  claim(runner_id: RunnerId, limit: number, now: Instant): Promise<Job[]>;
  /** When the next job becomes due, or undefined when none is queued. */
  nextDue(): Promise<Instant | undefined>;
  /** @returns false when the runner no longer owned the job; nothing was written then */
  recordTask(record: TaskRecord): Promise<boolean>;
  /** Gives a claimed job back unrun, its start not counted. @returns whether it was owned */
  release(uuid: JobUuid, runner_id: RunnerId, now: Instant): Promise<boolean>;
  /** Gives a job back whose run broke off in the agent; its start stays counted. */
  abandon(uuid: JobUuid, runner_id: RunnerId, now: Instant): Promise<boolean>;
  /** Queues again what other runners left behind when they died. @returns how many jobs */
  rescue(runner_id: RunnerId, now: Instant): Promise<number>;
  /** A job with an oncancel chain that had started is canceled, and that chain becomes due. */
  cancel(uuid: JobUuid, now: Instant): Promise<ChangeOutcome>;
  resume(uuid: JobUuid, resume: Resume, now: Instant): Promise<ChangeOutcome>;
  /** Numbers of jobs per execution in the disjoint windows of document 2. */
  stats(now: Instant): Promise<JobStats>;
}

export const STATS_WINDOWS = ["all_time", "past_24h", "past_hour", "current"] as const;
export type StatsWindow = typeof STATS_WINDOWS[number];
/** @see document 2, Stats */
export type JobStats = Record<StatsWindow, Record<Execution, number>>;

export interface InfoStore {
  /** Appends one member to a job's info. @returns false when there is no such job */
  append(uuid: JobUuid, entry: JsonObject, now: Instant): Promise<boolean>;
  /** Oldest first; undefined when there is no such job. `after` skips as many entries. */
  list(uuid: JobUuid, after?: number): Promise<JsonObject[] | undefined>;
}

/** One document of the image index, as the upstream wrote it. */
export interface IndexDocument {
  /** Below the base, without a leading slash: `v1/distros/omnios/index.json`. */
  readonly path: string;
  readonly body: Uint8Array;
  /** Lower-case hex SHA-256 of the body; our strong ETag is made of it. */
  readonly sha256: string;
  /** The upstream's `ETag` and `Last-Modified`, verbatim, for the next conditional request. */
  readonly etag: string | null;
  readonly last_modified: string | null;
  readonly fetched_at: Instant;
}

/** What one sync did. */
export interface IndexSync {
  readonly started_at: Instant;
  readonly finished_at: Instant;
  readonly upstream: string;
  readonly outcome: "complete" | "partial" | "failed";
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  /** Documents that were refused or not reached; their distro keeps its last good version. */
  readonly problems: readonly { readonly document: string; readonly message: string }[];
}

export interface IndexStore {
  get(path: string): Promise<IndexDocument | undefined>;
  /** Every document without its body. */
  list(): Promise<Omit<IndexDocument, "body">[]>;
  /** Puts and removes documents and records the sync that did so: all of it at once, or nothing. */
  swap(put: readonly IndexDocument[], remove: readonly string[], sync: IndexSync): Promise<void>;
  lastSync(): Promise<IndexSync | undefined>;
}
