// Summaries and log lines of jobs: their rows, and the conversion of rows.

import type { JobHost } from "../domain/host.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import type { Phase } from "../domain/job/state.ts";
import type { JobLogLine, JobSummary, SummaryTask } from "../domain/job/summary.ts";
import { taskName } from "../domain/job/workflow.ts";
import type { JsonObject } from "../domain/json.ts";
import type { JobAttempt } from "./store.ts";

/** Bytes of params up to which a summary contains them. */
export const SUMMARY_PARAMS_BYTES_MAX = 4096;
/** Bytes of progress up to which a summary contains it: a page of events has one for each. */
export const PROGRESS_BYTES_MAX = 4096;
/** Newest log lines searched for the latest progress. */
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
    // A waiting task already has an entry, but it ends only with its resume.
    tasks_done: chain_ended - Number(row.execution === "waiting" && row.phase === "chain"),
    tasks_total: definition.chain.length,
    progress,
    read_at,
    host: host ?? null,
    free: placement !== null,
    // The texts were made by this store from values of these types.
    params: row.params === null ? null : JSON.parse(row.params) as JsonObject,
    secrets: row.secrets === null ? [] : JSON.parse(row.secrets) as string[],
    alias: typeof row.alias === "string" ? row.alias : null,
    prev_attempt: row.prev_attempt as JobUuid | null,
    next_attempt: row.next_attempt as JobUuid | null,
  };
}

/** The running task, if there is one: only that one has progress. */
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

// How a list of summaries is read.

/** Jobs examined for one page. */
export const SUMMARIES_LOOKED_AT_MAX = 20_000;
/** Most jobs examined for one uuid prefix; of a million jobs, about fifteen share four characters. */
export const UUIDS_MAX = 1000;
/** Most versions of one workflow's definition that are merged. */
export const DEFINITIONS_MAX = 16;

/** A text for a case-insensitive search: only ASCII is folded, as databases do it. */
export function folded(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

// Lines of logs.

/** Newest failed attempts of one phase that are read with a job. */
export const ATTEMPTS_OF_A_PHASE_MAX = 50;

/** A line with its size, before it is read. */
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

/** Converts a row to a log line. */
export function lineFromRow({ entry, ...line }: LineRow): JobLogLine {
  // The text was made by this store from an object.
  return { ...line, entry: JSON.parse(entry) as JsonObject };
}

/** A failed attempt, as a row. */
export interface AttemptRow {
  readonly phase: Phase;
  readonly task: number;
  readonly attempt: number;
  readonly entry: string;
  readonly created_at: Instant;
}

/** Converts a row to the recorded attempt. */
export function attemptFromRow(
  { phase, task, attempt, entry, created_at }: AttemptRow,
): JobAttempt {
  return {
    phase,
    index: task,
    attempt,
    fallback: false,
    // The text was made by this store from an attempt.
    ...JSON.parse(entry) as Pick<JobAttempt, "task" | "error" | "started_at" | "wait_seconds">,
    finished_at: created_at,
  };
}
