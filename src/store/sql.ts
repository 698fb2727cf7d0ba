// SQL that both stores use: conditions and CHECKs of jobs, the columns of a job, and the types of its rows.

import type { Incarnation, JobUuid, RunnerId, WorkflowUuid } from "../domain/id.ts";
import { type Instant, msBetween } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import {
  type Execution,
  EXECUTIONS,
  isFinal,
  type KeptState,
  type Phase,
  type Standing,
  stateOf,
  UNFINISHED,
} from "../domain/job/state.ts";
import { machineTarget } from "../domain/job/summary.ts";
import type { CreateJobOutcome, JobStore } from "./job_store.ts";
import type { NextDue } from "./run_store.ts";

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

/** A list in SQL. @param words must not contain quotes */
function listed(words: readonly string[]): string {
  return `(${words.map((word) => `'${word}'`).join(", ")})`;
}

/**
 * A condition that compares a column with each word. Used in CHECKs of tables with frequent writes, because SQLite
 * builds a temporary index per row for `IN` with a list.
 * @param words without quotes, the most frequent ones first
 */
export function isOneOf(column: string, words: readonly string[]): string {
  return `(${words.map((word) => `${column} = '${word}'`).join(" OR ")})`;
}

/** A condition that a job is unfinished, for CHECKs. */
export const IS_UNFINISHED = isOneOf("execution", UNFINISHED);
/** Conditions that every row of `jobs` meets: the states of domain/job/state.ts, and columns that are set together. */
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
/** Conditions that every row of `job_log` meets: it is an entry of the info, or a failed attempt of a task. */
export const LOG_CHECKS = `CHECK ((position IS NULL) = (phase IS NOT NULL)),
    CHECK ((phase IS NULL) = (task IS NULL)),
    CHECK (phase IS NULL OR attempt IS NOT NULL)`;
/** Executions of finished jobs, as a list in SQL. */
export const FINISHED = listed(EXECUTIONS.filter(isFinal));
/**
 * A condition that a job occupies its target: it is unfinished, or it was canceled and its stop or its oncancel chain
 * is not done. A statement only uses a partial index if it contains exactly the index's condition.
 */
export const HOLDS_TARGET = `(${IS_UNFINISHED}
    OR (execution = 'canceled' AND (runner_id IS NOT NULL OR claimable_at IS NOT NULL)))`;

/** The condition of the partial index of jobs that retention may remove. */
export const REMOVABLE = removable("");

/** The same condition for a trigger. @param row prefix of the columns; empty in a statement */
export function removable(row: "" | "old." | "new."): string {
  return `${row}finished_at IS NOT NULL AND ${row}kept = 0
    AND ${row}runner_id IS NULL AND ${row}claimable_at IS NULL`;
}

/** Joins the claims `c` of jobs on machines with those jobs `j`. */
export const CLAIMS_WITH_JOBS = "machine_claims c LEFT JOIN jobs j ON j.uuid = c.job_uuid";
/**
 * A condition that the job of a claim has ended without a machine, including its last task: a canceled job is final
 * before that. Once the job's row is removed, the claim keeps its outcome.
 */
export const IS_LEFT = `(coalesce(j.execution, c.execution) IN ${
  listed(EXECUTIONS.filter((word) => isFinal(word) && word !== "succeeded"))
}
        AND j.runner_id IS NULL AND j.claimable_at IS NULL)`;

/**
 * Executions with a counter column of their own. A running job is counted as queued, so that its start writes no
 * counter; counting the running jobs is cheap, because there are never more than slots.
 */
export const COUNTED = EXECUTIONS.filter((word) => word !== "running");
/** Their columns. */
export const COUNTED_COLUMNS: string = COUNTED.join(", ");
/** Columns of an event that is not about a job. */
export const OF_AGENT = "job_id IS NULL AND change IS NULL AND line IS NULL AND body IS NOT NULL";
/** Position of the uuid in the target of a machine, from 1. */
export const MACHINE_AT: number = machineTarget("").length + 1;

/** A condition that the column counts a job. @param row prefix of the columns of the job */
export function counts(column: typeof COUNTED[number], row: "" | "old." | "new." = ""): string {
  const execution = `${row}execution`;
  return column === "queued"
    ? `(${execution} = 'queued' OR ${execution} = 'running')`
    : `(${execution} = '${column}')`;
}

/**
 * Prefixes of the keys in job_counts: for all jobs, jobs that ended in an hour, jobs created in a minute, jobs that
 * retention may remove, and jobs created in a second.
 */
export const SPAN = { all: "a", hour: "h", minute: "m", removable: "r", second: "s" } as const;

/** The columns of a job, for SELECT and RETURNING on `jobs`. */
export const JOB_COLUMNS = `
  id, uuid, workflow_uuid, definition_id, execution, phase, exec_after, claimable_at, target, locks,
  callback_url, machine_uuid, params, props, requested_params, created_at, started_at, finished_at,
  elapsed_ms, phases_ms, elapsed_at, failures, retry_at, runner_id, lease, starts`;

/** The JSON columns of a job, as texts that the store has written. */
interface JobTexts {
  readonly params: string;
  readonly props: string;
  /** Null when equal to `params`. */
  readonly requested_params: string | null;
}

/** Fields of a job that are stored as rows of task_results. */
type ResultLists = "chain_results" | "onerror_results" | "oncancel_results";

/** A row of JOB_COLUMNS; the schema's CHECKs guarantee the unions. */
export interface JobRow
  extends Omit<Job, keyof JobDefinition | keyof JobTexts | ResultLists | "host">, JobTexts {
  readonly id: number;
  readonly definition_id: number;
}

/** The part of a workflow that its jobs keep. */
export type JobDefinition = Pick<Job, "name" | "chain" | "onerror" | "oncancel" | "timeout">;

/** The columns that a decision about a job needs; the schema's CHECKs guarantee the unions. */
export interface StateRow {
  readonly id: number;
  readonly uuid: JobUuid;
  readonly workflow_uuid: WorkflowUuid;
  readonly execution: Execution;
  readonly phase: Phase;
  /** 1 for a job with an oncancel chain. */
  readonly undoable: number;
  readonly claimable_at: Instant | null;
  readonly started_at: Instant | null;
  readonly elapsed_ms: number;
  readonly elapsed_at: Instant | null;
  readonly runner_id: RunnerId | null;
  readonly lease: number;
  readonly starts: number;
  /** Null for a job without a callback. */
  readonly callback_host: string | null;
}

/** The state of a row, as decide() takes it. */
export function standingOf(row: KeptState): Standing {
  return { state: stateOf(row), phase: row.phase };
}

/** The time until the earliest instant of some rows; `none` when there is none. */
export function dueFrom(now: Instant, due: Instant | null): NextDue {
  if (due === null) return { kind: "none" };
  const ms = msBetween(now, due);
  return ms <= 0 ? { kind: "ready" } : { kind: "in", ms };
}

/** The columns that a claim reads. */
export type ReadyRow = Pick<
  JobRow,
  "id" | "execution" | "phase" | "runner_id" | "claimable_at" | "lease" | "starts"
>;

/** The columns of a job whose current attempt was interrupted with its runner. */
export interface InterruptedRow {
  readonly id: number;
  /** Index of the job's current task in its phase. */
  readonly index: number;
  readonly phase: Phase;
  readonly definition_id: number;
  readonly starts: number;
  readonly failures: number;
  readonly elapsed_at: Instant;
  readonly retry_at: Instant | null;
}

/** The lease of a runner, and the life that holds it. */
export interface LeaseRow {
  readonly incarnation: Incarnation;
  readonly leased_until: Instant;
}

/** Outcome of inserting a new job. */
export type InsertOutcome = Extract<
  CreateJobOutcome,
  { kind: "created" | "duplicate" | "machine_taken" | "no_host" }
>;

/** The methods of a store that create jobs. */
export type JobCreation = Pick<JobStore, "create" | "order" | "retry" | "recordTask" | "creating">;
