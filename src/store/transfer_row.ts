// The rows that a move between a host's own database and a shared one carries.

/** A row as it is stored. */
export type TransferRow = Readonly<Record<string, string | number | null>>;

/** A job with all that belongs to it. */
export interface TransferJob {
  readonly id: number;
  readonly uuid: string;
  readonly row: TransferRow;
  /** The row of `definitions` with the job's copy of its workflow. */
  readonly definition: TransferRow;
  /** Rows of `task_results`, and of `job_log` in the order of its lines. */
  readonly results: readonly TransferRow[];
  readonly lines: readonly TransferRow[];
  /** Rows of `idempotency_keys` and `callbacks`: one or none of each. */
  readonly keys: readonly TransferRow[];
  readonly callbacks: readonly TransferRow[];
}

/** The rows of a database that no agent has open. */
export interface TransferRows {
  /** The workflows that callers created, as rows of `workflows`. */
  workflows(): readonly TransferRow[];
  claims(): readonly TransferRow[];
  /** The next jobs in order of creation. @param after the id of the last one; 0 for the first */
  jobs(after: number, limit: number): readonly TransferJob[];
  /** The state of a job in this database as a text to compare; undefined when the job does not exist. */
  fingerprint(uuid: string): string | undefined;
  /** Results of shared jobs in the journal, which the shared database does not have yet. */
  undelivered(): number;
  close(): void;
}

/**
 * SQL for the state of a job as a text, which differs as soon as a runner has claimed the job or a caller has changed
 * it.
 */
export const JOB_FINGERPRINT =
  `concat_ws(' ', execution, phase, lease, starts, failures, (SELECT count(*) FROM task_results
     WHERE job_id = jobs.id), (SELECT count(*) FROM job_log WHERE job_id = jobs.id))`;

/** What a move has copied or removed. */
export interface TransferReport {
  readonly workflows: number;
  readonly jobs: number;
  /** Claims on machines. */
  readonly claims: number;
  /** How many of these were already in place, for example after an interrupted move. */
  readonly passed: number;
}
