// Jobs that are read ahead of their claims, so that not every claim reads the lists of claimable jobs. A new job is
// inserted into what was read; other changes discard it.

import type { JobUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { Connection } from "../connection.ts";

/** The lists: ready jobs by turn, and delayed jobs by time. */
export const CLAIMABLE_LISTS = ["turns", "delayed"] as const;
type ClaimableList = typeof CLAIMABLE_LISTS[number];

/** A job that may be claimed. */
interface AheadRow {
  readonly id: number;
  readonly uuid: JobUuid;
  /** The list's sort key before the id: a turn, or the time before which the job may not start. */
  readonly place: number | Instant;
}

/** The first jobs of a list. */
interface ClaimableJobs {
  readonly rows: AheadRow[];
  /** Whether the list has no other jobs. */
  whole: boolean;
}

const READ = {
  turns: `SELECT id, uuid, turn AS place FROM jobs
    WHERE turn IS NOT NULL ORDER BY turn, id LIMIT ?`,
  delayed: `SELECT id, uuid, claimable_at AS place FROM jobs
    WHERE claimable_at IS NOT NULL AND turn IS NULL ORDER BY claimable_at, id LIMIT ?`,
};
/** Jobs read at a time, and the most that are kept. */
const READ_AHEAD = 64;
const KEPT_JOBS_MAX = 4 * READ_AHEAD;
/** Cache key of the lists. */
const CACHED_AHEAD = "ahead";

/** Returns at least `wanted` jobs, if there are that many. */
export function readClaimable(db: Connection, list: ClaimableList, wanted: number): ClaimableJobs {
  const read = () =>
    db.cached(CACHED_AHEAD, list, () => {
      const limit = Math.max(wanted, READ_AHEAD);
      const rows = db.rows<AheadRow>(READ[list], limit);
      return { value: { rows, whole: rows.length < limit }, chars: 0 };
    });
  const kept = read();
  if (kept.whole || kept.rows.length >= wanted) return kept;
  discardClaimable(db, list);
  return read();
}

/**
 * Inserts a new job. It has the highest id, so it follows all jobs with its sort key.
 * @throws {Error} when its row is missing
 */
export function addClaimable(
  db: Connection,
  list: ClaimableList,
  made: Pick<AheadRow, "id" | "uuid">,
): void {
  const ahead = db.keptAlready<ClaimableJobs>(CACHED_AHEAD, list);
  if (ahead === undefined) return;
  const found = selectPlace(db, made.id);
  if (found === undefined) throw new Error(`Cannot list job ${made.uuid}: its row is missing`);
  const job = { ...made, ...found };
  const { rows } = ahead;
  const last = rows.at(-1);
  if (last === undefined || last.place <= job.place) {
    if (ahead.whole && rows.length < KEPT_JOBS_MAX) rows.push(job);
    else ahead.whole = false;
  } else if (rows.length < KEPT_JOBS_MAX) {
    rows.splice(rows.findIndex(({ place }) => place > job.place), 0, job);
  } else discardClaimable(db, list);
}

function selectPlace(db: Connection, id: number): Pick<AheadRow, "place"> | undefined {
  return db.row("SELECT coalesce(turn, claimable_at) AS place FROM jobs WHERE id = ?", id);
}

/** Removes a job that was claimed. */
export function removeClaimable(db: Connection, uuid: JobUuid): void {
  for (const list of CLAIMABLE_LISTS) {
    const rows = db.keptAlready<ClaimableJobs>(CACHED_AHEAD, list)?.rows ?? [];
    const at = rows.findIndex((row) => row.uuid === uuid);
    if (at !== -1) return void rows.splice(at, 1);
  }
}

/** Discards a list: another job may now come before those that were read. */
export function discardClaimable(db: Connection, list: ClaimableList): void {
  db.forget(CACHED_AHEAD, list);
}
