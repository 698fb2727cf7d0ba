// Lists of job summaries, newest first, and how many jobs they hold. Conditions without an index are checked job
// by job, in parts that yield to the event loop, up to a number of jobs and bytes. Beyond that the page ends
// early, and the next one continues after the last examined job; a count says whether it was all.

import type { JobUuid } from "../../../domain/id.ts";
import { type Execution, EXECUTIONS } from "../../../domain/job/state.ts";
import type { JobSummary, SummaryFilter, SummaryPlace } from "../../../domain/job/summary.ts";
import type { SummaryCounts, SummaryPage, SummaryPart } from "../../job_store.ts";
import { SUMMARIES_LOOKED_AT_MAX } from "../../summary_rows.ts";
import type { Connection } from "../connection.ts";
import { isOtherHost } from "../host_rows.ts";
import { otherWork } from "../../rules.ts";
import { selectSummaries } from "./summary_rows.ts";
import { lookAt, PART_BYTES, walkOf } from "./summary_walk.ts";

/** Jobs examined in one part, without a pause. */
const PART_JOBS = 250;
/** Bytes of params that one page is searched in. */
const PAGE_BYTES = 32 * PART_BYTES;

/** A page of summaries, and where the next one begins. */
export async function listSummaries(
  db: Connection,
  filter: SummaryFilter,
  { limit, after }: SummaryPage,
): Promise<SummaryPart> {
  if (isOtherHost(db, filter.host)) return { summaries: [] };
  const walk = await db.durably(() => walkOf(db, filter, after?.order));
  const found: number[] = [];
  let place = after;
  let jobs = 0;
  let bytes = 0;
  for (;;) {
    const part = lookAt(db, walk, {
      place,
      jobs: Math.min(SUMMARIES_LOOKED_AT_MAX - jobs, PART_JOBS),
      found: limit - found.length,
    });
    found.push(...part.found);
    place = part.place ?? place;
    jobs += part.jobs;
    bytes += part.bytes;
    if (
      part.last || found.length >= limit || jobs >= SUMMARIES_LOOKED_AT_MAX || bytes >= PAGE_BYTES
    ) {
      const next = part.last ? undefined : place;
      const summaries = await db.durably(() => selectSummaries(db, found));
      return { summaries, ...(next === undefined ? {} : { next }) };
    }
    await otherWork();
  }
}

/** One job; undefined when it is missing. */
export function selectSummary(db: Connection, uuid: JobUuid): JobSummary | undefined {
  const row = db.row<{ id: number }>("SELECT id FROM jobs WHERE uuid = ?", uuid);
  return row === undefined ? undefined : selectSummaries(db, [row.id])[0];
}

/** Counts the jobs that fit, in parts, with other work let through in between. */
export async function countSummaries(
  db: Connection,
  filter: SummaryFilter,
): Promise<SummaryCounts> {
  const walk = await db.durably(() => walkOf(db, filter, undefined));
  const counts = new Map<Execution, number>(EXECUTIONS.map((execution) => [execution, 0]));
  if (isOtherHost(db, filter.host)) return { counts, whole: true };
  let place: SummaryPlace | undefined;
  let jobs = 0;
  let bytes = 0;
  for (;;) {
    const left = Math.min(SUMMARIES_LOOKED_AT_MAX - jobs, PART_JOBS);
    const part = lookAt(db, walk, { place, jobs: left, found: left });
    for (const { execution, count } of executionsOf(db, part.found)) {
      counts.set(execution, (counts.get(execution) ?? 0) + count);
    }
    place = part.place ?? place;
    jobs += part.jobs;
    bytes += part.bytes;
    if (part.last || jobs >= SUMMARIES_LOOKED_AT_MAX || bytes >= PAGE_BYTES) {
      return { counts, whole: part.last };
    }
    await otherWork();
  }
}

function executionsOf(
  db: Connection,
  ids: readonly number[],
): readonly { readonly execution: Execution; readonly count: number }[] {
  return db.rows(
    `SELECT execution, count(*) AS count FROM json_each(?) CROSS JOIN jobs ON jobs.id = value
      GROUP BY execution`,
    JSON.stringify(ids),
  );
}
