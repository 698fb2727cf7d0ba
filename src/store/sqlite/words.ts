// The closed lists of words of a job as SQL, for the CHECKs of the schema and for statements. The lists
// themselves are in the domain.

import { EXECUTIONS, isFinal, UNFINISHED as UNFINISHED_WORDS } from "../../domain/job/state.ts";

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

/** Executions of unfinished jobs, as a list in SQL. */
export const UNFINISHED = listed(UNFINISHED_WORDS);
/** Whether a job is unfinished, for CHECKs. */
export const IS_UNFINISHED = isOneOf("execution", UNFINISHED_WORDS);
/** Executions of finished jobs, as a list in SQL. */
export const FINISHED = listed(EXECUTIONS.filter(isFinal));
/**
 * Whether a job occupies its target: it is unfinished, or canceled with its oncancel chain pending or
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
