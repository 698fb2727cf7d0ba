// The closed words of jobs as conditions of SQL: for the schema, which refuses every other word, and for the
// statements. Each list of words stands in the domain; here it only becomes SQL.

import { EXECUTIONS, isFinal, UNFINISHED as UNFINISHED_WORDS } from "../../domain/job/state.ts";

/** A list of SQL. @param words without quotes in them */
function listed(words: readonly string[]): string {
  return `(${words.map((word) => `'${word}'`).join(", ")})`;
}

/**
 * Whether a column has one of some words, compared one after the other. It is for checks of rows that are
 * written often: for `IN` with a list SQLite builds an index with every row.
 * @param words without quotes in them, the most frequent ones first
 */
export function isOneOf(column: string, words: readonly string[]): string {
  return `(${words.map((word) => `${column} = '${word}'`).join(" OR ")})`;
}

/** Executions of jobs that are not final, as a list of SQL. */
export const UNFINISHED = listed(UNFINISHED_WORDS);
/** Whether a job is not final, for checks of rows. */
export const IS_UNFINISHED = isOneOf("execution", UNFINISHED_WORDS);
/** Executions of jobs that are final, as a list of SQL. */
export const FINISHED = listed(EXECUTIONS.filter(isFinal));
/**
 * Whether a job holds its target: it is unfinished, or canceled and still held or still to be undone. The
 * condition of the partial indexes, word for word, and of the statements that use them.
 */
export const HOLDS_TARGET = `(${IS_UNFINISHED}
    OR (execution = 'canceled' AND (runner_id IS NOT NULL OR claimable_at IS NOT NULL)))`;

/** The condition of the index of jobs that retention may remove, word for word, as above. */
export const REMOVABLE = removable("");

/** That condition in a trigger. @param row which row is looked at; empty in a statement */
export function removable(row: "" | "old." | "new."): string {
  return `${row}finished_at IS NOT NULL AND ${row}kept = 0
    AND ${row}runner_id IS NULL AND ${row}claimable_at IS NULL`;
}
