// The rows of job summaries, log lines and failed attempts, and their conversion.

import type { JobHost } from "../domain/host.ts";
import type { JobUuid } from "../domain/id.ts";
import { type Instant, MS_PER_SECOND, msBetween, notBefore } from "../domain/instant.ts";
import { type FailedAttempt, INTERRUPTED, type Job, keptError } from "../domain/job/job.ts";
import type { Phase } from "../domain/job/state.ts";
import type { JobSummary, SummaryTask } from "../domain/job/summary.ts";
import type { JobLogLine } from "../domain/job/log_line.ts";
import { type Task, taskName } from "../domain/job/workflow.ts";
import type { JsonObject } from "../domain/json.ts";
import type { InterruptedRow } from "./sql.ts";
import type { JobAttempt } from "./store.ts";

/** Longest params that a summary contains, bytes. */
export const SUMMARY_PARAMS_BYTES_MAX = 4096;
/** Longest progress that a summary contains, bytes; a page of events has one per job. */
export const PROGRESS_BYTES_MAX = 4096;
/** Newest log lines that are searched for the latest progress. */
export const PROGRESS_LINES_MAX = 20;

/** The columns of a job for its summary. */
export type SummaryRow =
  & Omit<
    JobSummary,
    | "name"
    | "task"
    | "tasks_done"
    | "tasks_total"
    | "progress"
    | "params"
    | "secrets"
    | "host"
    | "free"
    | "read_at"
  >
  & {
    readonly id: number;
    readonly definition_id: number;
    readonly phase: Phase;
    /** Finished tasks of the chain and of the current phase. */
    readonly chain_ended: number;
    readonly phase_ended: number;
    readonly params: string | null;
    readonly secrets: string | null;
    /** JSON of the workflow's `placement`. */
    readonly placement: string | null;
  };

/** The part of a definition that a summary needs. */
type SummaryDefinition = Pick<Job, Phase | "name">;

/**
 * Converts a row to a summary.
 * @param progress the latest report of its current task
 * @param host the host of the job, if known
 */
export function summaryFromRow(
  row: SummaryRow,
  definition: SummaryDefinition,
  { progress, host, read_at }: Pick<JobSummary, "progress" | "read_at"> & {
    readonly host: JobHost | undefined;
  },
): JobSummary {
  const {
    id: _id,
    definition_id: _definition,
    chain_ended,
    phase_ended: _ended,
    placement,
    ...columns
  } = row;
  return {
    ...columns,
    name: definition.name,
    task: presentTask(row, definition),
    // A waiting task already has an entry, but ends only when the job is resumed.
    tasks_done: chain_ended - Number(row.execution === "waiting" && row.phase === "chain"),
    tasks_total: definition.chain.length,
    progress,
    read_at,
    host: host ?? null,
    free: placement !== null,
    // This store made the texts from values of these types.
    params: row.params === null ? null : JSON.parse(row.params) as JsonObject,
    secrets: row.secrets === null ? [] : JSON.parse(row.secrets) as string[],
    alias: typeof row.alias === "string" ? row.alias : null,
    prev_attempt: row.prev_attempt as JobUuid | null,
    next_attempt: row.next_attempt as JobUuid | null,
  };
}

/** The task that is running, which is the only one with progress; null if none is. */
export function runningTask(row: SummaryRow, definition: SummaryDefinition): SummaryTask | null {
  return row.runner_id === null ? null : presentTask(row, definition);
}

/** The task that runs or waits, or the one that failed in the chain. */
function presentTask(row: SummaryRow, definition: SummaryDefinition): SummaryTask | null {
  const { execution, phase, phase_ended, chain_ended, runner_id } = row;
  const named = (phase: Phase, index: number): SummaryTask | null => {
    const task = definition[phase][index];
    return task === undefined ? null : { name: taskName(task), phase, index };
  };
  if (runner_id !== null) return named(phase, phase_ended);
  if (execution === "waiting") return named(phase, phase_ended - 1);
  return execution === "failed" ? named("chain", chain_ended - 1) : null;
}

/** Folds a text for a case-insensitive search. Only ASCII is folded, as in the databases. */
export function folded(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Newest failed attempts of one phase that are read with a job. */
export const ATTEMPTS_OF_A_PHASE_MAX = 50;

/** A log line with its size, whose entry is not read yet. */
export interface SizedLine {
  readonly seq: number;
  readonly bytes: number;
}

/** A line of a log. */
export interface LineRow {
  readonly seq: number;
  readonly phase: Phase | null;
  readonly attempt: number | null;
  readonly entry: string;
  readonly created_at: Instant;
}

/** Parses what the statements leave as text. */
export function lineFromRow({ entry, ...line }: LineRow): JobLogLine {
  // This store made the text from an object.
  return { ...line, entry: JSON.parse(entry) as JsonObject };
}

/** A row of a failed attempt. */
export interface AttemptRow {
  readonly phase: Phase;
  readonly task: number;
  readonly attempt: number;
  readonly entry: string;
  readonly created_at: Instant;
}

/** Converts a row to a failed attempt. */
export function attemptFromRow(
  { phase, task, attempt, entry, created_at }: AttemptRow,
): JobAttempt {
  return {
    phase,
    index: task,
    attempt,
    fallback: false,
    // This store made the text from an attempt.
    ...JSON.parse(entry) as Pick<JobAttempt, "task" | "error" | "started_at" | "wait_seconds">,
    finished_at: created_at,
  };
}

/** The entry of a failed attempt as a text. @param secrets reads the names of the job's secrets, if they are needed */
export function attemptText(
  { index: _index, attempt: _attempt, fallback, finished_at: _end, ...shown }: FailedAttempt,
  secrets: () => ReadonlySet<string>,
): string {
  const error = keptError(shown.error, secrets);
  return JSON.stringify({ ...shown, ...(fallback ? { fallback } : {}), error });
}

/**
 * The attempt of a held job that was interrupted with its runner; undefined while the job was waiting for its next
 * attempt.
 */
export function interruptedAttempt(
  { index, starts, failures, elapsed_at, retry_at }: InterruptedRow,
  task: Task,
  now: Instant,
): FailedAttempt | undefined {
  const leftMs = retry_at === null ? 0 : msBetween(now, retry_at);
  // A wait longer than the whole delay means that the clock was set back.
  if (leftMs > 0 && leftMs <= (task.retry_delay ?? 0) * MS_PER_SECOND) return undefined;
  const started_at = retry_at !== null && retry_at > elapsed_at ? retry_at : elapsed_at;
  return {
    task: taskName(task),
    index,
    attempt: starts + failures,
    fallback: false,
    error: INTERRUPTED,
    started_at,
    finished_at: notBefore(started_at, now),
    wait_seconds: 0,
  };
}
