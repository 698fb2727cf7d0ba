// How many jobs fit the filter of a list, by their executions. Like a page of the list, a count looks at a
// bounded number of jobs and bytes, and says whether that was all.

import { type Execution, EXECUTIONS } from "../../../domain/job/state.ts";
import type { SummaryFilter, SummaryPlace } from "../../../domain/job/summary.ts";
import type { SummaryCounts } from "../../job_store.ts";
import { type Connection, otherWork } from "../connection.ts";
import { lookAt, LOOKED_AT_MAX, PAGE_BYTES, PART_JOBS, walkOf } from "./summaries.ts";

/** Counts the jobs that fit, in parts, with other work let through in between. */
export async function countSummaries(
  db: Connection,
  filter: SummaryFilter,
): Promise<SummaryCounts> {
  const walk = await db.durably(() => walkOf(db, filter, undefined));
  const counts = new Map<Execution, number>(EXECUTIONS.map((execution) => [execution, 0]));
  let place: SummaryPlace | undefined;
  let jobs = 0;
  let bytes = 0;
  for (;;) {
    const left = Math.min(LOOKED_AT_MAX - jobs, PART_JOBS);
    const part = lookAt(db, walk, { place, jobs: left, found: left });
    for (const { execution, count } of executionsOf(db, part.found)) {
      counts.set(execution, (counts.get(execution) ?? 0) + count);
    }
    place = part.place ?? place;
    jobs += part.jobs;
    bytes += part.bytes;
    if (part.last || jobs >= LOOKED_AT_MAX || bytes >= PAGE_BYTES) {
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
