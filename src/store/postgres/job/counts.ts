// Counts of jobs by time and execution, as sums of the rows that each change has inserted. Only two things are counted
// job by job: the minute in which a window begins, and the running jobs, which the sums contain as queued.

import { HOUR_MS, type Instant, instantAfter } from "../../../domain/instant.ts";
import {
  type Counts,
  type HourCount,
  type HourOfJobs,
  hoursOf,
  type JobStats,
  statsFrom,
  TURNS_MAX,
  windowStarts,
} from "../../stats.ts";
import type { Asking, SharedDatabase, Transaction } from "../connection.ts";
import { MINUTE_CHARS } from "../schema.ts";
import { COUNTED, COUNTED_COLUMNS } from "../../sql.ts";

type CountSums = Readonly<Record<typeof COUNTED[number], number>>;

const SUMS = COUNTED.map((column) => `coalesce(sum(${column}), 0)::bigint AS ${column}`).join(", ");
/** 1 for a job that the column counts, else 0. */
const ONES = COUNTED.map((column) =>
  column === "queued"
    ? "(execution IN ('queued', 'running'))::int::bigint"
    : `(execution = '${column}')::int::bigint`
).join(", ");

/** Counts the jobs created since then. */
async function countsSince(tx: Transaction, since: Instant): Promise<Counts> {
  const row = await tx.row<CountSums>(
    `SELECT ${SUMS} FROM (
       SELECT ${COUNTED_COLUMNS} FROM job_counts WHERE minute > $1
       UNION ALL
       SELECT ${ONES} FROM jobs WHERE created_at >= $2 AND created_at < $1 || ':60') AS summed`,
    since.slice(0, MINUTE_CHARS),
    since,
  );
  return await withRunning(tx, row, since);
}

/** Counts all jobs by execution. */
export async function countsOfAll(tx: Transaction): Promise<Counts> {
  const row = await tx.row<CountSums>(`SELECT ${SUMS} FROM job_counts`);
  return await withRunning(tx, row, "");
}

/** Counts all unfinished jobs, whose number is limited. */
export async function countUnfinished(tx: Asking): Promise<number> {
  const row = await tx.row<{ jobs: number }>(
    "SELECT coalesce(sum(queued + waiting), 0)::bigint AS jobs FROM job_counts",
  );
  return row?.jobs ?? 0;
}

/** Milliseconds for which a count of unfinished jobs is used again. */
const RECENT_MS = 1_000;
/** With fewer free places than this, or than half of the limit, each commit counts again. */
const PLACES_MIN = 10_000;

/** A recent count of unfinished jobs, so that an agent need not count for each commit while the limit is far. */
export class RecentCount {
  #counted = 0;
  /** By performance.now(). */
  #countedAtMs = -RECENT_MS;
  /** Jobs that this agent may have created since the count. */
  #made = 0;

  /**
   * @param jobs number of jobs to be created
   * @param most the limit
   */
  async count(tx: Asking, jobs: number, most: number): Promise<number> {
    const free = most - this.#counted - this.#made - jobs;
    const isFar = free > Math.max(PLACES_MIN, most / 2);
    if (!isFar || performance.now() >= this.#countedAtMs + RECENT_MS) {
      this.#counted = await countUnfinished(tx);
      this.#countedAtMs = performance.now();
      this.#made = 0;
    }
    this.#made += jobs;
    return this.#counted + this.#made - jobs;
  }
}

async function withRunning(
  tx: Transaction,
  row: CountSums | undefined,
  since: string,
): Promise<Counts> {
  const found = await countRunning(tx, since);
  if (row === undefined || found === undefined) {
    throw new Error("Cannot count jobs: the database returned no row");
  }
  const { running } = found;
  return { ...row, running, queued: row.queued - running };
}

function countRunning(tx: Transaction, since: string): Promise<{ running: number } | undefined> {
  return tx.row(
    "SELECT count(*) AS running FROM jobs WHERE execution = 'running' AND created_at >= $1",
    since,
  );
}

/** The advisory lock that keeps two agents from folding at the same time. */
const FOLD_LOCK = 8_780_004;
/** No window of the stats begins earlier than this. */
const MINUTES_KEPT_MS = 48 * HOUR_MS;
/** Rows that are searched for equal keys, and rows that are folded in one transaction. */
const LOOKED_AT_MAX = 100_000;
const FOLDED_MAX = 10_000;

/**
 * Folds the rows of the counters into one per minute, and one for all minutes older than any window. If another agent
 * is folding, there is nothing to do.
 */
export async function foldCounts(db: SharedDatabase): Promise<void> {
  // Stops when only a few rows were left, which the next call folds.
  while (await db.write(foldSome) > FOLDED_MAX / 2);
}

/** @returns by how many the number of rows has decreased */
async function foldSome(tx: Transaction): Promise<number> {
  const turn = await tx.row<{ mine: boolean }>(
    `SELECT pg_try_advisory_xact_lock(${FOLD_LOCK}) AS mine`,
  );
  if (turn?.mine !== true) return 0;
  const old = instantAfter(tx.now, -MINUTES_KEPT_MS).slice(0, MINUTE_CHARS);
  const minute = "CASE WHEN minute < $1 THEN '' ELSE minute END";
  const jobs = await fold(tx, "job_counts", [`${minute} AS minute`], COUNTED, [old]);
  return jobs + await fold(tx, "finished_counts", ["hour", "execution"], ["jobs"], []);
}

/** Folds the rows that this snapshot contains; rows inserted meanwhile stay. */
async function fold(
  tx: Transaction,
  table: "job_counts" | "finished_counts",
  keys: readonly string[],
  sums: readonly string[],
  values: readonly string[],
): Promise<number> {
  const names = keys.map((key) => key.split(" AS ").at(-1)).join(", ");
  const summed = sums.map((column) => `sum(${column})::bigint`).join(", ");
  const row = await tx.row<{ fewer: number }>(
    `WITH looked AS (
       SELECT id, ${keys.join(", ")} FROM (
         SELECT * FROM ${table} ORDER BY id LIMIT ${LOOKED_AT_MAX}) AS oldest),
     equal AS (
       SELECT id FROM (
         SELECT id, ${names}, count(*) OVER (PARTITION BY ${names}) AS equals FROM looked) AS counted
        WHERE equals > 1 ORDER BY ${names}, id LIMIT ${FOLDED_MAX}),
     gone AS (
       DELETE FROM ${table} WHERE id IN (SELECT id FROM equal)
       RETURNING ${keys.join(", ")}, ${sums.join(", ")}),
     folded AS (
       INSERT INTO ${table} (${names}, ${sums.join(", ")})
       SELECT ${names}, ${summed} FROM gone GROUP BY ${names}
       HAVING ${sums.map((column) => `sum(${column}) <> 0`).join(" OR ")} RETURNING 1)
     SELECT (SELECT count(*) FROM gone) - (SELECT count(*) FROM folded) AS fewer`,
    ...values,
  );
  return row?.fewer ?? 0;
}

/** Counts the jobs by time of creation and execution. */
export async function selectStats(tx: Transaction): Promise<JobStats> {
  const [hour, twoHours, day] = windowStarts(tx.now);
  return statsFrom(await countsOfAll(tx), [
    await countsSince(tx, hour),
    await countsSince(tx, twoHours),
    await countsSince(tx, day),
  ]);
}

/** Counts how jobs ended, per hour since then, oldest first, without hours that have none. */
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
         -- Jobs that have become due but have no turn yet, because no runner has looked since.
         (SELECT claimable_at FROM jobs
           WHERE jobs.queue = own.queue AND claimable_at <= $2 AND turn IS NULL
           ORDER BY claimable_at, id LIMIT 1)) AS ready`,
    queues,
    tx.now,
  );
  return row?.oldest ?? null;
}

/** Writes a dummy row of the host, to probe whether the database takes writes. */
export async function writeCheck(tx: Transaction, host: string): Promise<void> {
  await tx.run(
    `INSERT INTO write_checks (host, checked_at) VALUES ($1, $2)
     ON CONFLICT (host) DO UPDATE SET checked_at = $2`,
    host,
    tx.now,
  );
}
