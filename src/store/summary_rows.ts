// Summaries and log lines of jobs as rows of the store, and what is made of them.

import type { JobHost } from "../domain/host.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import type { Phase } from "../domain/job/state.ts";
import type { JobLogLine, JobSummary, SummaryTask } from "../domain/job/summary.ts";
import { taskName } from "../domain/job/workflow.ts";
import type { JsonObject } from "../domain/json.ts";
import type { JobAttempt } from "./store.ts";

/** Bytes of params that a summary holds. */
export const SUMMARY_PARAMS_BYTES_MAX = 4096;
/** Bytes of progress that a summary holds: a page of events has one of each. */
export const PROGRESS_BYTES_MAX = 4096;
/** Newest log lines searched for the latest progress. */
export const PROGRESS_LINES_MAX = 20;

/** What is read of a job for its summary. */
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

/** What the summary of a job needs of its definition. */
type SummaryDefinition = Pick<Job, Phase | "name">;

/**
 * @param progress the latest report of its present task
 * @param host where one is known
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
    // The task that waits has an entry already; it ends with its resume.
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

/** The task that runs, if any: only of that one there is progress. */
export function runningTask(row: SummaryRow, definition: SummaryDefinition): SummaryTask | null {
  return row.runner_id === null ? null : presentTask(row, definition);
}

/** The task that runs, the one that waits, or the one of the chain that failed. */
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
/** Most jobs examined for one uuid prefix; of a million jobs, four characters leave some fifteen. */
export const UUIDS_MAX = 1000;
/** Definitions of a workflow, one per change of it, that are merged. */
export const DEFINITIONS_MAX = 16;

/** A text for a search in any case: ASCII alone is folded, as databases do it. */
export function folded(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

// Lines of logs.

/** The newest failed attempts of one phase that are read with a job. */
export const ATTEMPTS_OF_A_PHASE_MAX = 50;

/** A line, not yet read. */
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

/** The line as it was written. */
export function lineFromRow({ entry, ...line }: LineRow): JobLogLine {
  // The text was made by this store from an object.
  return { ...line, entry: JSON.parse(entry) as JsonObject };
}

/** An attempt that failed, as its row. */
export interface AttemptRow {
  readonly phase: Phase;
  readonly task: number;
  readonly attempt: number;
  readonly entry: string;
  readonly created_at: Instant;
}

/** The attempt as it was recorded. */
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
