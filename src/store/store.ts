// The interface of the store, which sqlite/ implements. Every method answers after its effect is
// durable; nothing here assumes one process or a call that returns at once.

import type { JobUuid, WorkflowUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { FailedAttempt, Job } from "../domain/job/job.ts";
import type { Phase } from "../domain/job/state.ts";
import type { JobLogLine } from "../domain/job/summary.ts";
import type { JsonObject } from "../domain/json.ts";
import type { StoredWorkflow, Workflow } from "../domain/job/workflow.ts";
import type { MachineClaimStore } from "./machine_claim_store.ts";
import type { ImageStore } from "./image_store.ts";
import type { JobStore } from "./job_store.ts";
import type { StoredText, TextPage } from "./stored_text.ts";
import type { MediaStore } from "./media_store.ts";

/**
 * All that the agent keeps between restarts. A write resolves once it is on the disk, and rejects
 * with AgentError `overloaded` when too many wait, or `storage_full`.
 */
export interface Store {
  readonly workflows: WorkflowStore;
  readonly jobs: JobStore;
  readonly info: InfoStore;
  readonly log: JobLogStore;
  readonly callbacks: CallbackStore;
  readonly index: IndexStore;
  readonly media: MediaStore;
  readonly images: ImageStore;
  readonly machineClaims: MachineClaimStore;
  readonly measures: MeasureStore;
  /**
   * Whether agents of other hosts work on the store. A runner then ends its guests before its lease does;
   * otherwise nobody could take its jobs, and a store that is away for a while ends nothing.
   */
  readonly shared: boolean;
  /** Commits what is under way and closes the files. No method may be called after it. */
  close(): Promise<void>;
}

/** Rules under which a workflow is written. */
export interface WorkflowRules {
  /** Workflows that may be there, this one counted. */
  readonly max?: number;
  /** Whether no other workflow may have its name. */
  readonly uniqueName?: boolean;
}

/** What became of a request for a workflow; nothing was written unless it was created. */
export type CreateWorkflowOutcome =
  | { readonly kind: "created" }
  /** As many workflows are there as may be. */
  | { readonly kind: "full" }
  /** Another workflow has the name that only one may have. */
  | { readonly kind: "name_taken"; readonly uuid: WorkflowUuid }
  | { readonly kind: "uuid_taken" };

/** What became of a request to replace a workflow. */
export type ReplaceWorkflowOutcome =
  | { readonly kind: "replaced" }
  /** It is not there, or is part of the agent. */
  | { readonly kind: "not_found" }
  | Extract<CreateWorkflowOutcome, { kind: "name_taken" }>;

/** Which workflows are meant; a workflow must fit every key that is given. */
export interface WorkflowFilter {
  readonly name?: string;
  /** Whether it is part of the agent. */
  readonly builtin?: boolean;
}

/** Which part of the workflows that fit, in the order of their creation. */
export interface WorkflowPage {
  readonly limit?: number;
  readonly offset?: number;
  /** Only workflows that were made after this one, which is `place` of one read earlier. */
  readonly after?: number;
}

/** A workflow in a list, and its place among all workflows: a list goes on after it. */
export interface ListedWorkflow extends StoredWorkflow {
  readonly place: number;
}

/**
 * Workflows by uuid. Those built into the agent are read like others, but replace() and remove() do
 * not touch them.
 */
export interface WorkflowStore {
  /** A repetition finds the uuid taken by the workflow that the first call made. */
  create(
    workflow: Workflow,
    now: Instant,
    rules?: WorkflowRules,
  ): Promise<CreateWorkflowOutcome>;
  /** Writes a workflow that is part of the agent: made when missing, replaced when different. */
  putBuiltin(workflow: Workflow, now: Instant): Promise<void>;
  replace(
    workflow: Workflow,
    rules?: Pick<WorkflowRules, "uniqueName">,
  ): Promise<ReplaceWorkflowOutcome>;
  /** @returns whether the workflow was there */
  remove(uuid: WorkflowUuid): Promise<boolean>;
  get(uuid: WorkflowUuid): Promise<StoredWorkflow | undefined>;
  /** In the order of their creation. */
  list(filter: WorkflowFilter, page?: WorkflowPage): Promise<ListedWorkflow[]>;
  /** One workflow as text: as it is stored, or as GET shows it, with `wf_uuid`. */
  text(uuid: WorkflowUuid, as: "stored" | "shown"): Promise<StoredText | undefined>;
  /** The next part of the same list, as texts. */
  texts(filter: WorkflowFilter, page: WorkflowPage & { readonly limit: number }): Promise<TextPage>;
  /** How many workflows fit. */
  count(filter: WorkflowFilter): Promise<number>;
}

/** The info of jobs: append-only lists. */
export interface InfoStore {
  /**
   * Appends one member to a job's info.
   * @param entriesMax entries that one job may have
   * @param attempt number of the attempt of a task that appends it
   * @param call names the call, for those who may repeat it: its entry stands once
   */
  append(
    uuid: JobUuid,
    entry: JsonObject,
    now: Instant,
    entriesMax?: number,
    attempt?: number | undefined,
    call?: string,
  ): Promise<"appended" | "full" | "not_found">;
  /**
   * Oldest first; undefined when there is no such job. `after` skips as many entries, `limit` ends
   * the list.
   */
  list(uuid: JobUuid, after?: number, limit?: number): Promise<JsonObject[] | undefined>;
  /** The next part of the same list, as texts. */
  texts(uuid: JobUuid, after: number, limit: number): Promise<TextPage | undefined>;
}

/** Bytes of the lines of one page, unless it has one line only. */
export const LOG_PAGE_BYTES = 256 * 1024;

/** Which lines: the newest ones, those before a line, or those after one. */
export interface JobLogPage {
  readonly limit: number;
  /** Only lines before this `seq`; the newest of them, unless `after` is given. */
  readonly before?: number;
  /** Only lines after this `seq`, the oldest of them. */
  readonly after?: number;
}

/** Lines, oldest first. */
export interface JobLogPart {
  readonly lines: readonly JobLogLine[];
  /** Whether others follow in the direction of the page. */
  readonly more: boolean;
  /** Names of fields that the workflow of the job calls secret. */
  readonly secrets: readonly string[];
}

/** A failed attempt, and the chain of its task. */
export interface JobAttempt extends FailedAttempt {
  readonly phase: Phase;
}

/** The reading side of the logs; recordTask(), recordAttempt() and the info write them. */
interface JobLogStore {
  /** A page of lines within a bounded size; undefined when there is no such job. */
  lines(uuid: JobUuid, page: JobLogPage): Promise<JobLogPart | undefined>;
  /** The failed attempts that are kept, by phase and task, the newest of a phase if there are many. */
  attempts(uuid: JobUuid): Promise<JobAttempt[]>;
}

/** A finished job whose callback is due. */
export interface DueCallback {
  readonly job: Job;
  readonly url: string;
  /** Times it was tried before. */
  readonly attempts: number;
}

/** The callbacks of finished jobs. A row is there from the end of the job until `done`. */
export interface CallbackStore {
  /**
   * Takes due callbacks and puts each off until `again`, so that one caller at a time tries it.
   * @param passedOver hosts whose callbacks are left alone
   */
  take(
    now: Instant,
    again: Instant,
    limit: number,
    passedOver?: readonly string[],
  ): Promise<DueCallback[]>;
  nextDue(passedOver?: readonly string[]): Promise<Instant | undefined>;
  /** The callback was taken, or is given up. */
  done(uuid: JobUuid): Promise<void>;
  /** The next attempt is due then. */
  postpone(uuid: JobUuid, due_at: Instant): Promise<void>;
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
  readonly problems: readonly IndexProblem[];
  /**
   * When the tree was last compared with its upstream, by this sync or an earlier one; absent when
   * it never was, and in reports of earlier versions.
   */
  readonly compared_at?: Instant;
  /** How long the upstream asked to be left alone, where it did. */
  readonly retry_after_seconds?: number;
}

/** One document that was refused or not reached. */
export interface IndexProblem {
  readonly document: string;
  readonly message: string;
  /** Where in the document a rule is broken, such as `$.releases[2].id`. */
  readonly json_path?: string;
  /** Words that follow the path: what was found and what was expected. */
  readonly reason?: string;
  /** Whether a last good version is here, and stays; of a distro, all of it. */
  readonly kept?: boolean;
}

/** What was published for checking an artifact that has left the index. */
export interface IndexPin {
  readonly distro: string;
  readonly release: string;
  /** Names the artifact within its release. */
  readonly artifact: string;
  /** JSON text. */
  readonly pin: string;
}

/** Pins that are written with a swap. */
export interface IndexPinChanges {
  readonly put: readonly IndexPin[];
  /** Those of artifacts that came back. */
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
  /** Puts and removes documents and records the sync that did so: all of it at once, or nothing. */
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

// Measures of the store that no list of jobs shows, for those who watch the agent.

/** What the store measures of itself. */
export interface StoreMeasures {
  /** From when on the job has waited that has waited longest; null when none is ready. */
  readonly oldest_ready_at: Instant | null;
  /** Size of the database without its log. */
  readonly file_bytes: number;
  /** Part of it that is empty. */
  readonly free_bytes: number;
}

/** The measuring side of the store. */
interface MeasureStore {
  /** Takes a bounded time, however many jobs there are. */
  read(now: Instant): Promise<StoreMeasures>;
  /** Makes a write of its own. @returns once it is on the disk */
  check(): Promise<void>;
}
