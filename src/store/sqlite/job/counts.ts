// Counts of jobs by time and execution, from the counters of counters.ts. Only the second in which a time range
// begins is counted job by job, and the running jobs, which the counters include in the queued ones.

import type { Instant } from "../../../domain/instant.ts";
import {
  type Counts,
  type HourOfJobs,
  type JobStats,
  statsFrom,
  TURNS_MAX,
  windowStarts,
} from "../../stats.ts";
import type { Connection } from "../connection.ts";
import { COUNTED, COUNTED_COLUMNS, counts, SPAN } from "../../sql.ts";
import type { StoreMeasures } from "../../store.ts";

type CountedRow = Readonly<Record<typeof COUNTED[number], number>>;

const SUMS = COUNTED.map((column) => `coalesce(sum(${column}), 0) AS ${column}`).join(", ");

/** The jobs that were created since then. */
function countsSince(db: Connection, since: Instant): Counts {
  const row = db.row<CountedRow>(
    `SELECT ${SUMS} FROM (
       SELECT ${COUNTED_COLUMNS} FROM job_counts
        WHERE span > '${SPAN.minute}' || ?1 AND span < '${SPAN.minute}:'
       UNION ALL
       SELECT ${COUNTED_COLUMNS} FROM job_counts
        WHERE span > '${SPAN.second}' || ?2 AND span < '${SPAN.second}' || ?1 || ':60'
       UNION ALL
       SELECT ${COUNTED.map((column) => counts(column)).join(", ")} FROM jobs
        WHERE created_at >= ?3 AND created_at < ?2 || ':')`,
    since.slice(0, 16),
    since.slice(0, 19),
    since,
  );
  return withRunning(db, row, since);
}

/** All jobs, by execution. */
export function countsOfAll(db: Connection): Counts {
  const sql = `SELECT ${COUNTED_COLUMNS} FROM job_counts WHERE span = '${SPAN.all}'`;
  return withRunning(db, db.row<CountedRow>(sql), "");
}

/** Counts all unfinished jobs, whose number is limited. */
export function countUnfinished(db: Connection): number {
  return db.counters.unfinished(() => selectUnfinished(db));
}

function selectUnfinished(db: Connection): number {
  const row = db.row<{ jobs: number }>(
    `SELECT queued + waiting AS jobs FROM job_counts WHERE span = '${SPAN.all}'`,
  );
  return row?.jobs ?? 0;
}

/** Number of jobs that retention may remove. */
export function countRemovable(db: Connection): number {
  const row = db.row<{ jobs: number }>(
    `SELECT ${COUNTED.join(" + ")} AS jobs FROM job_counts WHERE span = '${SPAN.removable}'`,
  );
  return row?.jobs ?? 0;
}

function withRunning(db: Connection, row: CountedRow | undefined, since: string): Counts {
  const found = countRunning(db, since);
  if (row === undefined || found === undefined) {
    throw new Error("Cannot count jobs: the database returned no row");
  }
  const { running } = found;
  return { ...row, running, queued: row.queued - running };
}

function countRunning(db: Connection, since: string): { running: number } | undefined {
  return db.row(
    "SELECT count(*) AS running FROM jobs WHERE execution = 'running' AND created_at >= ?",
    since,
  );
}

/** The jobs by age and execution. */
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
            -- Jobs that have become due but have no turn yet, because the runner has not looked since.
            SELECT claimable_at FROM jobs WHERE claimable_at <= ? AND turn IS NULL
             ORDER BY claimable_at, id LIMIT 1))) AS oldest_ready_at,
       (SELECT page_count FROM pragma_page_count) * page_size AS file_bytes,
       (SELECT freelist_count FROM pragma_freelist_count) * page_size AS free_bytes
     FROM pragma_page_size`,
    now,
  );
  if (row === undefined) throw new Error("Cannot measure the store: the database returned no row");
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
