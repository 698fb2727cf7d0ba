// Counts of jobs by execution, from the counters of counters.ts. Only the second in which a span of time
// begins is counted job by job, and the running jobs, which the counters have among the queued ones.

import type { Instant } from "../../../domain/instant.ts";
import type { Counts } from "../../stats.ts";
import type { Connection } from "../connection.ts";
import { COUNTED, counts, SPAN } from "../../columns.ts";

type CountedRow = Readonly<Record<typeof COUNTED[number], number>>;

const SUMS = COUNTED.map((column) => `coalesce(sum(${column}), 0) AS ${column}`).join(", ");
const COLUMNS = COUNTED.join(", ");

/** The jobs that were made since then. */
export function countsSince(db: Connection, since: Instant): Counts {
  const row = db.row<CountedRow>(
    `SELECT ${SUMS} FROM (
       SELECT ${COLUMNS} FROM job_counts
        WHERE span > '${SPAN.minute}' || ?1 AND span < '${SPAN.minute}:'
       UNION ALL
       SELECT ${COLUMNS} FROM job_counts
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

/** The jobs of the whole table, by execution. */
export function countsOfAll(db: Connection): Counts {
  const sql = `SELECT ${COLUMNS} FROM job_counts WHERE span = '${SPAN.all}'`;
  return withRunning(db, db.row<CountedRow>(sql), "");
}

/** How many jobs of the whole table have not ended, which limits new ones. */
export function countUnfinished(db: Connection): number {
  return db.counters.unfinished(() => {
    const row = db.row<{ jobs: number }>(
      `SELECT queued + waiting AS jobs FROM job_counts WHERE span = '${SPAN.all}'`,
    );
    return row?.jobs ?? 0;
  });
}

/** Number of jobs that retention may remove. */
export function countRemovable(db: Connection): number {
  const row = db.row<{ jobs: number }>(
    `SELECT ${COUNTED.join(" + ")} AS jobs FROM job_counts WHERE span = '${SPAN.removable}'`,
  );
  return row?.jobs ?? 0;
}

function withRunning(db: Connection, row: CountedRow | undefined, since: string): Counts {
  const found = db.row<{ running: number }>(
    "SELECT count(*) AS running FROM jobs WHERE execution = 'running' AND created_at >= ?",
    since,
  );
  if (row === undefined || found === undefined) throw new Error("Cannot count jobs: no row came");
  const { running } = found;
  return { ...row, running, queued: row.queued - running };
}
