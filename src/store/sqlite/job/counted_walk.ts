// Walks jobs by place. With the counters of counters.ts it skips blocks without matching jobs, and blocks
// where only the number of jobs matters. In the others it examines each job, in parts of some milliseconds,
// and yields to the event loop in between.

import type { JobFilter } from "../../job_store.ts";
import type { Connection } from "../connection.ts";
import { yieldTurn } from "../../limits.ts";
import { BLOCK, EVERY } from "../counters.ts";

/** Maximum definitions per filter whose counters are added; with more, jobs are examined one by one. */
const DEFINITIONS_MAX = 64;

/** The places from `from` up to, not including, `below`. */
export interface Stretch {
  readonly from: number;
  readonly below: number;
  /** Number of matching jobs if the counters show it; otherwise the jobs must be examined. */
  readonly jobs: number | undefined;
}

interface BlockRow {
  readonly block: number;
  readonly jobs: number;
  readonly first_at: string;
  readonly last_at: string;
}

/** Range and options of a walk. */
interface PlaceWalk {
  readonly filter: JobFilter;
  /** Only jobs below this place. */
  readonly before?: number | undefined;
  /** Examines every job, even where counters would do. */
  readonly looks?: boolean;
}

/** Jobs examined in the first part of a walk, and at most in any part. */
const PART_FIRST = 100;
/** Target duration of a part, milliseconds; the size of the next part is adjusted to it. */
const PART_MS = 4;

/** Visits the ranges where a filter may match, until the visitor has enough. */
export async function walkPlaces(
  db: Connection,
  { filter, before, looks = false }: PlaceWalk,
  visit: (stretch: Stretch) => "more" | "enough",
): Promise<void> {
  const counted = !looks && isCounted(db, filter);
  const newest = selectNewest(db);
  const top = Math.min(before ?? newest + 1, newest + 1);
  let jobs = PART_FIRST;
  for (const row of blocksOf(db, filter, top)) {
    const bottom = row.block * BLOCK;
    let below = Math.min(bottom + BLOCK, top);
    const whole = before === undefined || before >= bottom + BLOCK;
    if (counted && whole && isWithin(row, filter)) {
      if (visit({ from: bottom, below, jobs: row.jobs }) === "enough") return;
      continue;
    }
    while (below > bottom) {
      const from = Math.max(below - jobs, bottom);
      const beganMs = performance.now();
      if (visit({ from, below, jobs: undefined }) === "enough") return;
      const inTime = performance.now() - beganMs < PART_MS;
      jobs = inTime ? Math.min(jobs * 2, BLOCK) : Math.max(Math.floor(jobs / 2), 1);
      below = from;
      await yieldTurn();
    }
  }
}

/** The blocks that may hold matching jobs, newest first. */
function blocksOf(db: Connection, filter: JobFilter, top: number): BlockRow[] {
  const { since = "", until = "9999" } = filter;
  return db.rows<BlockRow>(
    `SELECT block, sum(jobs) AS jobs, min(first_at) AS first_at, max(last_at) AS last_at
       FROM job_places
      WHERE definition_id IN (SELECT value FROM json_each(?1)) AND block <= ?2
        AND last_at >= ?3 AND first_at < ?4
      GROUP BY block ORDER BY block DESC`,
    JSON.stringify(definitionsOf(db, filter) ?? [EVERY]),
    Math.floor((top - 1) / BLOCK),
    since,
    until,
  );
}

/** The highest id of a job; 0 when there is none. */
function selectNewest(db: Connection): number {
  return db.row<{ id: number | null }>("SELECT max(id) AS id FROM jobs")?.id ?? 0;
}

/** Whether counters answer every key of a filter, for a block within its time range. */
function isCounted(db: Connection, filter: JobFilter): boolean {
  const { execution, target, params = {}, name, workflow_uuid } = filter;
  if (execution !== undefined || target !== undefined || Object.keys(params).length > 0) {
    return false;
  }
  if (name === undefined && workflow_uuid === undefined) return true;
  return definitionsOf(db, filter) !== undefined;
}

function isWithin({ first_at, last_at }: BlockRow, { since, until }: JobFilter): boolean {
  return (since === undefined || first_at >= since) && (until === undefined || last_at < until);
}

/** The definitions of a name or workflow; undefined when neither is given, or for more than {@linkcode DEFINITIONS_MAX}. */
export function definitionsOf(
  db: Connection,
  { name, workflow_uuid }: Pick<JobFilter, "name" | "workflow_uuid">,
): number[] | undefined {
  if (name === undefined && workflow_uuid === undefined) return undefined;
  const rows = db.rows<{ id: number }>(
    `SELECT id FROM definitions
      WHERE ${workflow_uuid === undefined ? "name = ?1" : "workflow_uuid = ?2"}
        AND (?1 IS NULL OR name = ?1) AND (?2 IS NULL OR workflow_uuid = ?2) LIMIT ?3`,
    name ?? null,
    workflow_uuid ?? null,
    DEFINITIONS_MAX + 1,
  );
  return rows.length > DEFINITIONS_MAX ? undefined : rows.map(({ id }) => id);
}
