// The columns of jobs as every store reads them, and the closed lists of words of a job as SQL.

import type { Incarnation, JobUuid, WorkflowUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import { EXECUTIONS, isFinal, type Phase, UNFINISHED } from "../domain/job/state.ts";
import type { CreateJobOutcome, JobStore } from "./job_store.ts";

/** The steps from one version of the schema to the next. */
export interface SchemaSteps {
  /** The version after the first step, which creates the tables. */
  readonly first: number;
  /** The first creates the tables; each further one migrates from the previous version. */
  readonly steps: readonly string[];
}

/** The version after the last step. */
export function latestOf({ first, steps }: SchemaSteps): number {
  return first + steps.length - 1;
}

// The lists, for the schemas and statements of both stores; the words themselves are in the domain.

/** A list in SQL. @param words must not contain quotes */
function listed(words: readonly string[]): string {
  return `(${words.map((word) => `'${word}'`).join(", ")})`;
}

/**
 * A condition that compares a column with words one by one. For CHECKs of frequently written rows: for
 * `IN` with a list, SQLite builds a temporary index for every row.
 * @param words without quotes, the most frequent ones first
 */
export function isOneOf(column: string, words: readonly string[]): string {
  return `(${words.map((word) => `${column} = '${word}'`).join(" OR ")})`;
}

/** Whether a job is unfinished, for CHECKs. */
export const IS_UNFINISHED = isOneOf("execution", UNFINISHED);
/** What is true of every row of `jobs`: the states of domain/job/state.ts, and columns that go together. */
export const JOB_RULES: readonly string[] = [
  "(params_sha256 IS NULL) = (target IS NULL)",
  "(callback_host IS NULL) = (callback_url IS NULL)",
  "turn IS NULL OR claimable_at IS NOT NULL",
  "(elapsed_at IS NULL) = (runner_id IS NULL)",
  "failures > 0 OR retry_at IS NULL",
  "execution <> 'queued' OR (claimable_at IS NOT NULL AND runner_id IS NULL)",
  "execution <> 'running' OR (claimable_at IS NULL AND runner_id IS NOT NULL)",
  "execution <> 'running' OR started_at IS NOT NULL",
  "execution <> 'succeeded' OR phase = 'chain'",
  `execution = 'queued' OR execution = 'running' OR execution = 'canceled'
      OR (claimable_at IS NULL AND runner_id IS NULL)`,
  `(finished_at IS NULL) = ${IS_UNFINISHED}`,
];
/** What every line of `job_log` is: an entry of the info, or a failed attempt of a task. */
export const LOG_CHECKS = `CHECK ((position IS NULL) = (phase IS NOT NULL)),
    CHECK ((phase IS NULL) = (task IS NULL)),
    CHECK (phase IS NULL OR attempt IS NOT NULL)`;
/** Executions of finished jobs, as a list in SQL. */
export const FINISHED = listed(EXECUTIONS.filter(isFinal));
/**
 * Whether a job occupies its target: it is unfinished, or canceled with its stop or its oncancel chain pending or
 * running. Partial indexes and the statements that use them need exactly the same text.
 */
export const HOLDS_TARGET = `(${IS_UNFINISHED}
    OR (execution = 'canceled' AND (runner_id IS NOT NULL OR claimable_at IS NOT NULL)))`;

/** The condition of the index of jobs that retention may remove; the text must be the same too. */
export const REMOVABLE = removable("");

/** The same condition for a trigger. @param row prefix of the columns; empty in a statement */
export function removable(row: "" | "old." | "new."): string {
  return `${row}finished_at IS NOT NULL AND ${row}kept = 0
    AND ${row}runner_id IS NULL AND ${row}claimable_at IS NULL`;
}

/** The claims `c` of jobs on machines, and those jobs `j`. */
export const CLAIMS_WITH_JOBS = "machine_claims c LEFT JOIN jobs j ON j.uuid = c.job_uuid";
/**
 * Whether the job of a claim has ended without a machine; a canceled job is final before its last task. The
 * row of the job says how it ended, or the claim once that row is removed.
 */
export const IS_LEFT = `(coalesce(j.execution, c.execution) IN ('failed', 'canceled', 'retried')
        AND j.runner_id IS NULL AND j.claimable_at IS NULL)`;

/**
 * The executions that are counted in columns of their own. Running jobs are counted as queued: their start then needs
 * no write of counters, and there are never more of them than slots.
 */
export const COUNTED = EXECUTIONS.filter((word) => word !== "running");

/** 1 for a job that is counted in the column, else 0. @param row prefix of the columns of the job */
export function counts(column: typeof COUNTED[number], row: "" | "old." | "new." = ""): string {
  const execution = `${row}execution`;
  return column === "queued"
    ? `(${execution} = 'queued' OR ${execution} = 'running')`
    : `(${execution} = '${column}')`;
}

/**
 * Prefixes of the rows of job_counts: all jobs, those that ended in one hour, those created in one minute, those that
 * retention may remove, and those created in one second.
 */
export const SPAN = { all: "a", hour: "h", minute: "m", removable: "r", second: "s" } as const;

/** The columns of a job, for SELECT and RETURNING on `jobs`. */
export const JOB_COLUMNS = `
  id, uuid, workflow_uuid, definition_id, execution, phase, exec_after, claimable_at, target, locks,
  callback_url, machine_uuid, params, props, requested_params, created_at, started_at, finished_at,
  elapsed_ms, phases_ms, elapsed_at, failures, retry_at, runner_id, lease, starts`;

/** JSON columns, as texts that the store wrote. */
interface JobTexts {
  readonly params: string;
  readonly props: string;
  /** Null when equal to `params`. */
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
  /** Index of its task in the phase. */
  readonly index: number;
  readonly phase: Phase;
  readonly definition_id: number;
  readonly starts: number;
  readonly failures: number;
  readonly elapsed_at: Instant;
  readonly retry_at: Instant | null;
}

/** The lease of a runner, and its holder. */
export interface LeaseRow {
  readonly incarnation: Incarnation;
  readonly leased_until: Instant;
}

/** What recording the end of a task needs of its job. */
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
