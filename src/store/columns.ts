// The columns of jobs, as every store reads them.

import type { Incarnation, JobUuid, WorkflowUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import type { Phase } from "../domain/job/state.ts";
import type { CreateJobOutcome, JobStore } from "./job_store.ts";

/** The columns of a job, for SELECT and RETURNING on `jobs`. */
export const JOB_COLUMNS = `
  id, uuid, workflow_uuid, definition_id, execution, phase, exec_after, claimable_at, target, locks,
  callback_url, machine_uuid, params, props, requested_params, created_at, started_at, finished_at,
  elapsed_ms, phases_ms, elapsed_at, failures, retry_at, runner_id, lease, starts`;

/** Columns of JSON, as the texts that the store made. */
interface JobTexts {
  readonly params: string;
  readonly props: string;
  /** Null when they are those of `params`. */
  readonly requested_params: string | null;
}

/** Fields of a job whose entries are rows of their own. */
type ResultLists = "chain_results" | "onerror_results" | "oncancel_results";

/** A row of JOB_COLUMNS; the schema's CHECKs guarantee the unions. */
export interface JobRow
  extends Omit<Job, keyof JobDefinition | keyof JobTexts | ResultLists | "host">, JobTexts {
  readonly id: number;
  readonly definition_id: number;
}

/** What a job keeps of its workflow. */
export type JobDefinition = Pick<Job, "name" | "chain" | "onerror" | "oncancel" | "timeout">;

/** The columns that a claim reads. */
export type ReadyRow = Pick<
  JobRow,
  "id" | "execution" | "phase" | "runner_id" | "claimable_at" | "lease" | "starts"
>;

/** The columns of a job whose current attempt was cut off with its runner. */
export interface BrokenOff {
  readonly id: number;
  /** Place of its task in the phase. */
  readonly index: number;
  readonly phase: Phase;
  readonly definition_id: number;
  readonly starts: number;
  readonly failures: number;
  readonly elapsed_at: Instant;
  readonly retry_at: Instant | null;
}

/** Who has the lease of a runner, and how long. */
export interface LeaseRow {
  readonly incarnation: Incarnation;
  readonly leased_until: Instant;
}

/** What the end of a task needs of its job. */
export interface RecordedRow {
  readonly id: number;
  readonly workflow_uuid: WorkflowUuid;
  /** Null for a job without a callback. */
  readonly callback_host: string | null;
}

/** Outcome of inserting a new job. */
export type InsertOutcome = Extract<
  CreateJobOutcome,
  { kind: "created" | "duplicate" | "machine_taken" | "no_host" }
>;

/** The checks made before the write for the job that replaces another. */
export interface ReadySuccessor {
  readonly paramsSha256: string | null;
  /** Whether the lock of a job accepted in the meantime covers its target. */
  readonly lock: { readonly kind: "free" } | {
    readonly kind: "locked";
    readonly job_uuid: JobUuid;
  };
}

/** The methods of a store that create jobs. */
export type JobCreation = Pick<JobStore, "create" | "order" | "retry" | "recordTask" | "creating">;
