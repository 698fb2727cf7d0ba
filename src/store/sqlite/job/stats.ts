// What is shown of all jobs together: their numbers by time and execution, and the measurements of the store.

import type { Instant } from "../../../domain/instant.ts";
import { statsFrom, TURNS_MAX, windowStarts } from "../../stats.ts";
import type { HourOfJobs, JobStats } from "../../stats.ts";
import type { StoreMeasures } from "../../store.ts";
import type { Connection } from "../connection.ts";
import { SPAN } from "../../columns.ts";
import { countsOfAll, countsSince } from "./counts.ts";

/** The jobs by time of creation and execution. */
export function selectStats(db: Connection, now: Instant): JobStats {
  const [hour, twoHours, day] = windowStarts(now);
  const since = (start: Instant) => countsSince(db, start);
  return statsFrom(countsOfAll(db), [since(hour), since(twoHours), since(day)]);
}

/** How jobs ended, per hour since then, oldest first; hours without jobs are left out. */
export function selectFinished(db: Connection, since: Instant): HourOfJobs[] {
  return db.rows<HourOfJobs>(
    `SELECT substr(span, 2) || ':00:00.000Z' AS hour, succeeded, failed, canceled, retried FROM job_counts
      WHERE span >= '${SPAN.hour}' || substr(?, 1, 13) AND span < '${SPAN.hour}:' ORDER BY span`,
    since,
  );
}

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
