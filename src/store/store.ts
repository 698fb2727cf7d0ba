// The interface of the store, which sqlite/ and postgres/ implement. Every method resolves once its effect is durable,
// and assumes neither one process nor a call that returns immediately.

import type { JobUuid, WorkflowUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { FailedAttempt, Job } from "../domain/job/job.ts";
import type { Phase } from "../domain/job/state.ts";
import type { JobLogLine } from "../domain/job/log_line.ts";
import type { JsonObject } from "../domain/json.ts";
import type { StoredWorkflow, Workflow } from "../domain/job/workflow.ts";
import type { EventStore } from "./event_store.ts";
import type { HostStore } from "./host_store.ts";
import type { MachineHistoryStore } from "./machine_store.ts";
import type { MachineClaimStore } from "./claim_store.ts";
import type { MachineReportStore } from "./report_store.ts";
import type { ImageStore } from "./image_store.ts";
import type { MediaStore } from "./media_store.ts";
import type { JobStore } from "./job_store.ts";
import type { NextDue } from "./run_store.ts";
import type { StoredText, TextPage } from "./stored_text.ts";

/**
 * Everything that the agent keeps between restarts. A write resolves once it is on the disk, and rejects
 * with AgentError `overloaded` when too many wait, or `storage_full`.
 */
export interface Store {
  readonly workflows: WorkflowStore;
  readonly jobs: JobStore;
  readonly info: InfoStore;
  readonly log: JobLogStore;
  readonly callbacks: CallbackStore;
  readonly events: EventStore;
  readonly index: IndexStore;
  readonly media: MediaStore;
  readonly images: ImageStore;
  readonly machineClaims: MachineClaimStore;
  readonly machineHistories: MachineHistoryStore;
  readonly hosts: HostStore;
  /** What other hosts report about their machines; null for a store of one host. */
  readonly machineReports: MachineReportStore | null;
  readonly measures: MeasureStore;
  /** Which database holds the workflows and jobs. */
  readonly kind: "sqlite" | "postgres";
  /**
   * Whether agents of other hosts share the store. If so, a runner kills its guests before its lease expires, because
   * another runner may then claim its jobs. Otherwise no other runner can, and an outage of the store kills nothing.
   */
  readonly shared: boolean;
  /** Commits pending writes and closes the files. No method may be called afterwards. */
  close(): Promise<void>;
}

/** The store in the file of one host. */
export interface LocalStore extends Store {
  readonly journal: JournalStore;
}

/** A write that waits in the journal. */
export interface JournalRow {
  /** Increases with every row. */
  readonly id: number;
  readonly job_uuid: JobUuid;
  /** JSON text. */
  readonly entry: string;
}

/** The journal: writes of this host's runners that the shared database could not take, in order. */
export interface JournalStore {
  /** @throws {AgentError} `storage_full` */
  append(job_uuid: JobUuid, entry: string): Promise<void>;
  /** The oldest rows, as many as are delivered together; none when the journal is empty. */
  first(): Promise<JournalRow[]>;
  remove(ids: readonly number[]): Promise<void>;
  /** The jobs that any row is about. */
  jobs(): Promise<readonly JobUuid[]>;
  size(): Promise<{ readonly rows: number; readonly bytes: number }>;
}

/** Rules for writing a workflow. */
export interface WorkflowRules {
  /** Maximum number of workflows, including this one. */
  readonly max: number;
  /** Whether names must be unique. */
  readonly uniqueName?: boolean;
}

/** Outcome of creating a workflow; nothing is written unless it was created. */
export type CreateWorkflowOutcome =
  | { readonly kind: "created" }
  /** The maximum number of workflows is reached. */
  | { readonly kind: "full" }
  /** Another workflow has the name, which must be unique. */
  | { readonly kind: "name_taken"; readonly uuid: WorkflowUuid }
  | { readonly kind: "uuid_taken" };

/** Outcome of replacing a workflow. */
export type ReplaceWorkflowOutcome =
  | { readonly kind: "replaced" }
  /** It does not exist, or is built in. */
  | { readonly kind: "not_found" }
  | Extract<CreateWorkflowOutcome, { kind: "name_taken" }>;

/** Selects workflows; a workflow must match every given key. */
export interface WorkflowFilter {
  readonly name?: string;
  /** Prefix of the uuid, in lower case. */
  readonly uuid?: string;
  readonly builtin?: boolean;
}

/** A page of the matching workflows, in order of creation. */
export interface WorkflowPage {
  readonly limit?: number;
  readonly offset?: number;
  /** Only workflows created after this `place`, taken from one read earlier. */
  readonly after?: number;
}

/** A workflow in a list, and its place among all workflows, from which the next page continues. */
export interface ListedWorkflow extends StoredWorkflow {
  readonly place: number;
}

/**
 * Workflows by uuid. Built-in workflows are read like others, but replace() and remove() do
 * not touch them.
 */
export interface WorkflowStore {
  /** A call that is repeated after a lost answer finds the uuid taken by its own workflow. */
  create(
    workflow: Workflow,
    rules: WorkflowRules,
  ): Promise<CreateWorkflowOutcome>;
  /** Writes built-in workflows, all or none; those that are missing are created, those that differ are replaced. */
  putBuiltin(...workflows: readonly Workflow[]): Promise<void>;
  replace(
    workflow: Workflow,
    rules?: Pick<WorkflowRules, "uniqueName">,
  ): Promise<ReplaceWorkflowOutcome>;
  /** @returns whether the workflow existed */
  remove(uuid: WorkflowUuid): Promise<boolean>;
  get(uuid: WorkflowUuid): Promise<StoredWorkflow | undefined>;
  /** The matching workflows in order of creation. */
  list(filter: WorkflowFilter, page?: WorkflowPage): Promise<ListedWorkflow[]>;
  /** A workflow as text: as stored, or as GET shows it, with `wf_uuid`. */
  text(uuid: WorkflowUuid, as: "stored" | "shown"): Promise<StoredText | undefined>;
  /** As list(), but as texts, one part at a time. */
  texts(filter: WorkflowFilter, page: WorkflowPage & { readonly limit: number }): Promise<TextPage>;
  count(filter: WorkflowFilter): Promise<number>;
}

/** The info of jobs: append-only lists. */
export interface InfoStore {
  /**
   * Appends one entry to a job's info.
   * @param entriesMax maximum number of entries of one job
   * @param attempt attempt of the task that appends it
   * @param call identifies the call when it may be repeated, so that it adds one entry only
   */
  append(
    uuid: JobUuid,
    entry: JsonObject,
    now: Instant,
    entriesMax: number,
    attempt?: number | undefined,
    call?: string,
  ): Promise<"appended" | "full" | "not_found">;
  /**
   * Lists entries, oldest first; undefined when the job does not exist.
   * @param after number of entries to skip
   * @param limit number of entries to return
   */
  list(uuid: JobUuid, after?: number, limit?: number): Promise<JsonObject[] | undefined>;
  /** As list(), but as texts, one part at a time. */
  texts(uuid: JobUuid, after: number, limit: number): Promise<TextPage | undefined>;
}

/** Size limit of a page, bytes; a single line may exceed it. */
export const LOG_PAGE_BYTES = 256 * 1024;

/** Selects the newest lines, the newest before a line, or the oldest after one. */
export interface JobLogPage {
  readonly limit: number;
  /** Only lines before this `seq`: the newest of those, unless `after` is given. */
  readonly before?: number;
  /** Only lines after this `seq`: the oldest of those. */
  readonly after?: number;
}

/** A page of a log, its lines oldest first. */
export interface JobLogPart {
  readonly lines: readonly JobLogLine[];
  /** Whether more lines follow in the direction of the page. */
  readonly more: boolean;
  /** Names of the fields that the job's workflow declares secret. */
  readonly secrets: readonly string[];
}

/** A failed attempt, and the phase of its task. */
export interface JobAttempt extends FailedAttempt {
  readonly phase: Phase;
}

/** Reads the logs that recordTask(), recordAttempt() and the info store write. */
interface JobLogStore {
  /** One page of lines; undefined when the job does not exist. */
  lines(uuid: JobUuid, page: JobLogPage): Promise<JobLogPart | undefined>;
  /** The failed attempts that are kept, by phase and task; of a phase with many, only the newest. */
  attempts(uuid: JobUuid): Promise<JobAttempt[]>;
}

/** A finished job whose callback is due. */
export interface DueCallback {
  readonly job: Job;
  readonly url: string;
  /** Attempts before this one. */
  readonly attempts: number;
}

/** The callbacks of finished jobs. A callback exists from the end of its job until done(). */
export interface CallbackStore {
  /**
   * Takes due callbacks and postpones each, so that only one caller tries it at a time.
   * @param again_ms milliseconds until they are due again
   * @param passedOver receivers' hosts whose callbacks are skipped
   */
  take(again_ms: number, limit: number, passedOver?: readonly string[]): Promise<DueCallback[]>;
  nextDue(passedOver?: readonly string[]): Promise<NextDue>;
  /** Removes a callback that the receiver accepted, or that the runner gave up. */
  done(uuid: JobUuid): Promise<void>;
  postpone(uuid: JobUuid, wait_ms: number): Promise<void>;
}

/** A document of the image index, as it is served. */
export interface IndexDocument {
  /** Below the base, without a leading slash: `v1/distros/omnios/index.json`. */
  readonly path: string;
  readonly body: Uint8Array;
  /** Lower-case hex SHA-256 of the body, from which the agent derives its strong ETag. */
  readonly sha256: string;
  /** The upstream's `ETag` and `Last-Modified`, verbatim, for the next conditional request. */
  readonly etag: string | null;
  readonly last_modified: string | null;
  readonly fetched_at: Instant;
}

/** What one sync of the index did, kept as its report. */
export interface IndexSync {
  readonly started_at: Instant;
  readonly finished_at: Instant;
  readonly upstream: string;
  readonly outcome: "complete" | "partial" | "failed";
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  /** Documents that were rejected or could not be read; their distro keeps its last good version. */
  readonly problems: readonly IndexProblem[];
  /**
   * When the tree was last compared with its upstream, by this sync or an earlier one; absent if
   * never, and in reports of earlier versions.
   */
  readonly compared_at?: Instant;
  /** The pause that the upstream asked for, if any. */
  readonly retry_after_seconds?: number;
}

/** A document that was rejected or could not be read. */
export interface IndexProblem {
  readonly document: string;
  readonly message: string;
  /** Path of the rejected value, such as `$.releases[2].id`. */
  readonly json_path?: string;
  /** What was found and what was expected, worded to follow the path. */
  readonly reason?: string;
  /** Whether a last good version is stored and kept; for a distro, all of its documents. */
  readonly kept?: boolean;
}

/** The published digests and signatures of an artifact that has left the index. */
export interface IndexPin {
  readonly distro: string;
  readonly release: string;
  /** Identifies the artifact within its release. */
  readonly artifact: string;
  /** The published digests and signatures, as JSON text. */
  readonly pin: string;
}

/** Pins written with a swap. */
export interface IndexPinChanges {
  readonly put: readonly IndexPin[];
  /** Pins of artifacts that are listed again, to be dropped. */
  readonly remove: readonly Omit<IndexPin, "pin">[];
}

/**
 * The stored copy of the image index: its documents by path, the report of the last sync, and the
 * pins of artifacts that have left.
 */
export interface IndexStore {
  get(path: string): Promise<IndexDocument | undefined>;
  /** Every document without its body. */
  list(): Promise<Omit<IndexDocument, "body">[]>;
  /** Puts and removes documents and records the sync, atomically. */
  swap(
    put: readonly IndexDocument[],
    remove: readonly string[],
    sync: IndexSync,
    pins?: IndexPinChanges,
  ): Promise<void>;
  lastSync(): Promise<IndexSync | undefined>;
  /** The pins of artifacts that have left a release, the most recent ones. */
  pins(distro: string, release: string): Promise<IndexPin[]>;
}

/** What monitoring reads from the store. */
export interface StoreMeasures {
  /**
   * Since when the oldest ready job has been waiting; null when none is ready, undefined while the database is
   * away.
   */
  readonly oldest_ready_at: Instant | null | undefined;
  /** Size of the database without its write-ahead log. */
  readonly file_bytes: number;
  /** Bytes of free pages within it. */
  readonly free_bytes: number;
}

interface MeasureStore {
  /** Takes bounded time, however many jobs there are. */
  read(): Promise<StoreMeasures>;
  /** Writes a probe row. @returns once it is durable */
  check(): Promise<void>;
}
