// What is shown of all jobs together: their numbers by time and execution, and the measurements of the store.

import { HOUR_MS, type Instant, instantAfter } from "../../../domain/instant.ts";
import { EXECUTIONS, type FinalExecution } from "../../../domain/job/state.ts";
import type { HourOfJobs, JobStats } from "../../job_store.ts";
import type { StoreMeasures } from "../../store.ts";
import type { Connection } from "../connection.ts";
import { type Counts, countsOfAll, countsSince } from "./counts.ts";

/**
 * The four disjoint windows by instant of creation: `current` under one hour ago, `past_hour` one to
 * two hours, `past_24h` two to 24 hours, `all_time` longer.
 * @see document 2, Stats
 */
export function selectStats(db: Connection, now: Instant): JobStats {
  const hour = countsSince(db, instantAfter(now, -HOUR_MS));
  const twoHours = countsSince(db, instantAfter(now, -2 * HOUR_MS));
  const day = countsSince(db, instantAfter(now, -24 * HOUR_MS));
  return {
    all_time: difference(countsOfAll(db), day),
    past_24h: difference(day, twoHours),
    past_hour: difference(twoHours, hour),
    current: hour,
  };
}

interface CountRow {
  readonly hour: string;
  readonly execution: FinalExecution;
  readonly jobs: number;
}

function difference(from: Counts, less: Counts): Counts {
  return Object.fromEntries(
    EXECUTIONS.map((execution) => [execution, from[execution] - less[execution]]),
  ) as Counts;
}

/** How jobs ended, per hour since then, oldest first; hours without jobs are left out. */
export function selectFinished(db: Connection, since: Instant): HourOfJobs[] {
  const rows = db.rows<CountRow>(
    `SELECT hour, execution, jobs FROM finished_counts WHERE hour >= substr(?, 1, 13)
      ORDER BY hour`,
    since,
  );
  const hours = new Map<string, Record<FinalExecution, number>>();
  for (const { hour, execution, jobs } of rows) {
    const counts = hours.get(hour) ?? { succeeded: 0, failed: 0, canceled: 0, retried: 0 };
    hours.set(hour, { ...counts, [execution]: jobs });
  }
  return Array.from(hours, ([hour, counts]) => ({ hour: `${hour}:00:00.000Z`, ...counts }));
}

/**
 * Turns searched for the oldest job. The ready jobs of a workflow are in the order in which they became
 * ready, and the first jobs of all workflows are at the front (see turns.ts), so the answer is exact with
 * fewer workflows than this.
 */
const TURNS_MAX = 1000;

/**
 * Reads the measurements.
 * @throws {Error} when the database gives no row
 */
export function selectMeasures(db: Connection, now: Instant): StoreMeasures {
  const row = db.row<StoreMeasures>(
    `SELECT
       (SELECT min(claimable_at) FROM (
          SELECT claimable_at FROM (
            SELECT claimable_at FROM jobs WHERE turn IS NOT NULL ORDER BY turn, id
             LIMIT ${TURNS_MAX})
          UNION ALL
          SELECT claimable_at FROM (
            -- Their time has come, but the runner has not looked yet.
            SELECT claimable_at FROM jobs WHERE claimable_at <= ? AND turn IS NULL
             ORDER BY claimable_at, id LIMIT 1))) AS oldest_ready_at,
       (SELECT page_count FROM pragma_page_count) * page_size AS file_bytes,
       (SELECT freelist_count FROM pragma_freelist_count) * page_size AS free_bytes
     FROM pragma_page_size`,
    now,
  );
  if (row === undefined) throw new Error("Cannot measure the store: no answer");
  return row;
}

/** Writes a dummy row, to probe whether writes reach the disk. */
export function writeCheck(db: Connection, now: Instant): void {
  db.run(
    `INSERT INTO write_checks (id, checked_at) VALUES (1, ?1)
     ON CONFLICT (id) DO UPDATE SET checked_at = ?1`,
    now,
  );
}
