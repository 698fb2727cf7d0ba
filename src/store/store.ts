// What the rest of the house may ask of the store. sqlite/ implements it. Every method answers after
// its effect is durable; nothing here assumes one process or a call that returns at once.

import type { JobUuid, WorkflowUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { Job } from "../domain/job.ts";
import type { JsonObject } from "../domain/json.ts";
import type { StoredWorkflow, Workflow } from "../domain/workflow.ts";
import type { JobStore } from "./job_store.ts";

export interface Store {
  readonly workflows: WorkflowStore;
  readonly jobs: JobStore;
  readonly info: InfoStore;
  readonly callbacks: CallbackStore;
  readonly index: IndexStore;
  /** Commits what is under way and closes the files. No method may be called after it. */
  close(): Promise<void>;
}

/** The workflows. */
export interface WorkflowStore {
  /** @returns false when as many workflows are there as may be; nothing was written then */
  create(workflow: Workflow, now: Instant, workflowsMax?: number): Promise<boolean>;
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

/** The info of jobs: append-only lists. */
export interface InfoStore {
  /**
   * Appends one member to a job's info.
   * @param entriesMax entries that one job may have
   */
  append(
    uuid: JobUuid,
    entry: JsonObject,
    now: Instant,
    entriesMax?: number,
  ): Promise<"appended" | "full" | "not_found">;
  /**
   * Oldest first; undefined when there is no such job. `after` skips as many entries, `limit` ends
   * the list.
   */
  list(uuid: JobUuid, after?: number, limit?: number): Promise<JsonObject[] | undefined>;
}

/** A finished job whose callback has to be told. */
export interface DueCallback {
  readonly job: Job;
  readonly url: string;
  /** Times it was tried before. */
  readonly attempts: number;
}

/** The callbacks that finished jobs owe. A row is there from the end of the job until `done`. */
export interface CallbackStore {
  /** Takes due callbacks and puts each off until `again`, so that one caller at a time tries it. */
  take(now: Instant, again: Instant, limit: number): Promise<DueCallback[]>;
  nextDue(): Promise<Instant | undefined>;
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
