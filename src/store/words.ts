// The closed lists of words of a job as SQL, for the schemas and statements of both stores. The lists themselves
// are in the domain.

import { EXECUTIONS, isFinal, UNFINISHED } from "../domain/job/state.ts";

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

/**
 * The executions that are counted, each in a column of its own. A running job counts as queued: it costs no
 * write of the counters to begin, and there are never more running ones than slots.
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
 * First letters of the rows of job_counts: all jobs, those that ended in one hour, those made in one minute, those
 * that retention may remove, and those made in one second.
 */
export const SPAN = { all: "a", hour: "h", minute: "m", removable: "r", second: "s" } as const;
