// What is shown of all jobs together: their numbers by time and execution, and since when one waits.

import type { Instant } from "../../../domain/instant.ts";
import { type HourCount, hoursOf, statsFrom, TURNS_MAX, windowStarts } from "../../stats.ts";
import type { HourOfJobs, JobStats } from "../../stats.ts";
import type { Transaction } from "../connection.ts";
import { countsOfAll, countsSince } from "./counts.ts";

/** The jobs by time of creation and execution. */
export async function selectStats(tx: Transaction): Promise<JobStats> {
  const [hour, twoHours, day] = windowStarts(tx.now);
  return statsFrom(await countsOfAll(tx), [
    await countsSince(tx, hour),
    await countsSince(tx, twoHours),
    await countsSince(tx, day),
  ]);
}

/** How jobs ended, per hour since then, oldest first; hours without jobs are left out. */
export async function selectFinished(tx: Transaction, since: Instant): Promise<HourOfJobs[]> {
  const rows = await tx.rows<HourCount>(
    `SELECT hour, execution, sum(jobs)::bigint AS jobs FROM finished_counts WHERE hour >= left($1, 13)
      GROUP BY hour, execution HAVING sum(jobs) <> 0 ORDER BY hour`,
    since,
  );
  return hoursOf(rows);
}

/** Since when the oldest ready job of these queues has been waiting; null when none is ready. */
export async function selectOldestReady(
  tx: Transaction,
  queues: readonly string[],
): Promise<Instant | null> {
  const row = await tx.row<{ oldest: Instant | null }>(
    `SELECT min(ready.claimable_at) AS oldest
       FROM unnest($1::text[]) AS own (queue) CROSS JOIN LATERAL (
         (SELECT claimable_at FROM jobs WHERE jobs.queue = own.queue AND turn IS NOT NULL
           ORDER BY turn, id LIMIT ${TURNS_MAX})
         UNION ALL
         -- Their time has come, but no runner has looked yet.
         (SELECT claimable_at FROM jobs
           WHERE jobs.queue = own.queue AND claimable_at <= $2 AND turn IS NULL
           ORDER BY claimable_at, id LIMIT 1)) AS ready`,
    queues,
    tx.now,
  );
  return row?.oldest ?? null;
}
