// Counters of jobs, so that no count, offset or statistic takes longer with a long history. Every write that creates or
// moves a job adds to sums of its connection, and each counter is written once per commit, in the same transaction.
// Removing a job is rare and counted by triggers.
//
//     job_counts  by execution: all jobs, jobs created in one minute or one second, jobs that ended in one hour, and
//                 jobs that retention may remove. A job that is kept for its idempotency key or its callback is not
//                 among the last, so no newer job is removed in its place.
//     job_places  jobs by block of consecutive places, and their range of creation times: over all definitions, and
//                 for each one
//
//     places    0 ......... 4095 | 4096 ......... 8191 | 8192 ...

import type { BindValue } from "@db/sqlite";
import type { Instant } from "../../domain/instant.ts";
import { type Execution, isFinal } from "../../domain/job/state.ts";
import { COUNTED, counts, removable, SPAN } from "../sql.ts";

/** Places per block, as a power of two. */
const BLOCK_BITS = 12;
/** Places per block: few enough to examine in one statement, unless the jobs are large. */
export const BLOCK = 2 ** BLOCK_BITS;
/** The definition id of the counters over all definitions; real ids begin with 1. */
export const EVERY = 0;

const MINUTE = `'${SPAN.minute}' || substr(old.created_at, 1, 16)`;
const SECOND = `'${SPAN.second}' || substr(old.created_at, 1, 19)`;
const HOUR = `'${SPAN.hour}' || substr(old.finished_at, 1, 13)`;
const COLUMNS = COUNTED.join(", ");
const ZEROS = COUNTED.map(() => 0).join(", ");
const SUBTRACTED = COUNTED.map((column) => `${column} = ${column} - ${counts(column, "old.")}`)
  .join(
    ", ",
  );
const KEPT_LESS = COUNTED.map((column) =>
  `${column} = ${column} + ${counts(column, "new.")} * iif(${removable("new.")}, 1, -1)`
).join(", ");
const PLACE = `definition_id IN (${EVERY}, old.definition_id)
  AND block = old.id >> ${BLOCK_BITS}`;

/** The counters. A minute, a second, an hour or a block without jobs has no row. */
export const COUNTER_TABLES = `
  -- GET /stats and GET /agent/v1/stats/hourly read this table instead of counting jobs. It counts by second too,
  -- because the minute in which a window begins may contain a hundred thousand jobs.
  CREATE TABLE job_counts (
    -- The letter of the span, then the beginning of the instant.
    span TEXT PRIMARY KEY,
    ${COUNTED.map((column) => `${column} INTEGER NOT NULL CHECK (${column} >= 0)`).join(",\n    ")}
  ) STRICT, WITHOUT ROWID;
  INSERT INTO job_counts (span, ${COLUMNS})
    VALUES ('${SPAN.all}', ${ZEROS}), ('${SPAN.removable}', ${ZEROS});
  CREATE TRIGGER job_counts_delete AFTER DELETE ON jobs BEGIN
    UPDATE job_counts SET ${SUBTRACTED} WHERE span IN (
      '${SPAN.all}', ${MINUTE}, ${SECOND}, ${HOUR}, iif(${
  removable("old.")
}, '${SPAN.removable}', NULL));
    DELETE FROM job_counts WHERE span IN (${MINUTE}, ${SECOND}, ${HOUR}) AND ${
  COUNTED.join(" + ")
} = 0;
  END;
  CREATE TRIGGER job_counts_kept AFTER UPDATE OF kept ON jobs
  WHEN (${removable("old.")}) <> (${removable("new.")}) BEGIN
    UPDATE job_counts SET ${KEPT_LESS} WHERE span = '${SPAN.removable}';
  END;

  CREATE TABLE job_places (
    definition_id INTEGER NOT NULL,
    block INTEGER NOT NULL,
    jobs INTEGER NOT NULL CHECK (jobs >= 0),
    -- No job of the block was created before first_at or after last_at; the jobs with these times may be removed.
    first_at TEXT NOT NULL,
    last_at TEXT NOT NULL,
    PRIMARY KEY (definition_id, block)
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER job_places_delete AFTER DELETE ON jobs BEGIN
    UPDATE job_places SET jobs = jobs - 1 WHERE ${PLACE};
    DELETE FROM job_places WHERE ${PLACE} AND jobs = 0;
  END;
`;

/** The values of a job that counters depend on. */
interface CountedJob {
  readonly id: number;
  readonly definition_id: number;
  readonly created_at: Instant;
}

/** New jobs of one block. */
interface PlaceChange {
  readonly definition_id: number;
  readonly block: number;
  jobs: number;
  first_at: Instant;
  last_at: Instant;
}

/** Runs a statement. @returns the number of changed rows */
type CounterWrite = (sql: string, ...params: BindValue[]) => number;

const SET = COUNTED.map((column, at) => `${column} = ${column} + ?${at + 2}`).join(", ");
const PLACES = COUNTED.map((_, at) => `?${at + 2}`).join(", ");

/** Changes of the counters by a transaction, which no counter contains yet. */
export class CounterChanges {
  readonly #run: CounterWrite;
  /** By span, in the order of COUNTED. */
  readonly #spans = new Map<string, number[]>();
  readonly #places = new Map<string, PlaceChange>();
  /** The number of unfinished jobs, including these changes; undefined until the counter is read. */
  #unfinished: number | undefined;

  constructor(run: CounterWrite) {
    this.#run = run;
  }

  /** Counts a new queued job. */
  made({ id, definition_id, created_at }: CountedJob): void {
    this.#count(created_at, "queued", 1);
    this.#place(EVERY, id, created_at);
    this.#place(definition_id, id, created_at);
  }

  /** Counts a job whose execution changed. @param created_at of the job */
  moved(created_at: Instant, from: Execution, to: Execution): void {
    const [before, after] = [columnOf(from), columnOf(to)];
    if (before === after) return;
    this.#count(created_at, before, -1);
    this.#count(created_at, after, 1);
  }

  /** Counts a job that has ended. */
  ended(finished_at: Instant, execution: Execution): void {
    this.#add(SPAN.hour + finished_at.slice(0, 13), columnOf(execution), 1);
  }

  /** Counts a job that retention may now remove. */
  removable(execution: Execution): void {
    this.#add(SPAN.removable, columnOf(execution), 1);
  }

  /** Number of unfinished jobs. @param read reads the counter */
  unfinished(read: () => number): number {
    if (this.#unfinished === undefined) {
      this.write();
      this.#unfinished = read();
    }
    return this.#unfinished;
  }

  /** Writes the counters; call before a statement of the transaction reads or lowers one. */
  write(): void {
    for (const [span, changes] of this.#spans) this.#writeSpan(span, changes);
    this.#spans.clear();
    for (const place of this.#places.values()) this.#writePlace(place);
    this.#places.clear();
  }

  /** Forgets the changes: the transaction was rolled back. */
  drop(): void {
    this.#spans.clear();
    this.#places.clear();
    this.#unfinished = undefined;
  }

  #count(created_at: Instant, column: CountedColumn, jobs: number): void {
    this.#add(SPAN.all, column, jobs);
    this.#add(SPAN.minute + created_at.slice(0, 16), column, jobs);
    this.#add(SPAN.second + created_at.slice(0, 19), column, jobs);
    if (this.#unfinished !== undefined && !isFinal(column)) this.#unfinished += jobs;
  }

  #add(span: string, column: CountedColumn, jobs: number): void {
    const at = COUNTED.indexOf(column);
    const changes = this.#spans.get(span) ?? COUNTED.map(() => 0);
    changes[at] = (changes[at] ?? 0) + jobs;
    this.#spans.set(span, changes);
  }

  #place(definition_id: number, id: number, at: Instant): void {
    const block = Math.floor(id / BLOCK);
    const key = `${definition_id} ${block}`;
    const change = this.#places.get(key);
    if (change === undefined) {
      this.#places.set(key, { definition_id, block, jobs: 1, first_at: at, last_at: at });
      return;
    }
    change.jobs += 1;
    if (at < change.first_at) change.first_at = at;
    if (at > change.last_at) change.last_at = at;
  }

  #writePlace({ definition_id, block, jobs, first_at, last_at }: PlaceChange): void {
    this.#run(
      `INSERT INTO job_places (definition_id, block, jobs, first_at, last_at) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs,
         first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)`,
      definition_id,
      block,
      jobs,
      first_at,
      last_at,
    );
  }

  /** Tries an UPDATE first: an upsert's row would violate the CHECK if it contained a number below 0. */
  #writeSpan(span: string, changes: readonly number[]): void {
    if (changes.every((jobs) => jobs === 0)) return;
    if (!this.#updateSpan(span, changes)) this.#insertSpan(span, changes);
  }

  #updateSpan(span: string, changes: readonly number[]): boolean {
    return this.#run(`UPDATE job_counts SET ${SET} WHERE span = ?1`, span, ...changes) > 0;
  }

  #insertSpan(span: string, changes: readonly number[]): void {
    this.#run(`INSERT INTO job_counts (span, ${COLUMNS}) VALUES (?1, ${PLACES})`, span, ...changes);
  }
}

type CountedColumn = typeof COUNTED[number];

function columnOf(execution: Execution): CountedColumn {
  return execution === "running" ? "queued" : execution;
}
