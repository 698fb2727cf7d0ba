// Lines of logs as rows of the store, and what is made of them.

import type { Instant } from "../domain/instant.ts";
import type { Phase } from "../domain/job/state.ts";
import type { JobLogLine } from "../domain/job/summary.ts";
import type { JsonObject } from "../domain/json.ts";
import type { JobAttempt } from "./store.ts";

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
