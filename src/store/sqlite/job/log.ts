// The log of a job: entries of its info and failed attempts, in one order. Each statement walks an index of one
// job and stops after a page.

import type { JobUuid } from "../../../domain/id.ts";
import { PHASES } from "../../../domain/job/state.ts";
import {
  attemptFromRow,
  type AttemptRow,
  ATTEMPTS_OF_A_PHASE_MAX,
  lineFromRow,
  type LineRow,
  type SizedLine,
} from "../../summary_rows.ts";
import { type JobAttempt, type JobLogPage, type JobLogPart, LOG_PAGE_BYTES } from "../../store.ts";
import { fitting } from "../../stored_text.ts";
import type { Connection } from "../connection.ts";
import { selectJobOfLog } from "./rows.ts";

/** A page of lines, oldest first; undefined when there is no such job. */
export function selectLog(
  db: Connection,
  uuid: JobUuid,
  page: JobLogPage,
): JobLogPart | undefined {
  const job = selectJobOfLog(db, uuid);
  if (job === undefined) return undefined;
  const backwards = page.after === undefined;
  const { before = Number.MAX_SAFE_INTEGER, after = -1 } = page;
  const select = backwards ? selectNewest : selectOldest;
  const found = select(db, job.id, after, before, page.limit + 1);
  const fit = found.slice(0, Math.min(fitting(found, 0, LOG_PAGE_BYTES), page.limit));
  if (backwards) fit.reverse();
  return {
    lines: fit.flatMap(({ seq }) => selectLine(db, seq) ?? []).map(lineFromRow),
    more: fit.length < found.length,
    secrets: job.secrets === null ? [] : JSON.parse(job.secrets) as string[],
  };
}

/** Lines strictly between two others. */
type SelectLines = (
  db: Connection,
  job: number,
  after: number,
  before: number,
  limit: number,
) => SizedLine[];

const selectNewest: SelectLines = (db, ...bounds) =>
  db.rows<SizedLine>(
    `SELECT seq, octet_length(entry) AS bytes FROM job_log
      WHERE job_id = ? AND seq > ? AND seq < ? ORDER BY seq DESC LIMIT ?`,
    ...bounds,
  );

const selectOldest: SelectLines = (db, ...bounds) =>
  db.rows<SizedLine>(
    `SELECT seq, octet_length(entry) AS bytes FROM job_log
      WHERE job_id = ? AND seq > ? AND seq < ? ORDER BY seq LIMIT ?`,
    ...bounds,
  );

function selectLine(db: Connection, seq: number): LineRow | undefined {
  const sql = "SELECT seq, phase, attempt, entry, created_at FROM job_log WHERE seq = ?";
  return db.row<LineRow>(sql, seq);
}

/** The failed attempts of a job by phase and task; none when the job is missing. */
export function selectAttempts(db: Connection, uuid: JobUuid): JobAttempt[] {
  const rows = PHASES.flatMap((phase) =>
    db.rows<AttemptRow>(
      `SELECT phase, task, attempt, entry, created_at FROM job_log
        WHERE job_id = (SELECT id FROM jobs WHERE uuid = ?) AND phase = ?
        ORDER BY task DESC, attempt DESC LIMIT ?`,
      uuid,
      phase,
      ATTEMPTS_OF_A_PHASE_MAX,
    ).reverse()
  );
  return rows.map(attemptFromRow);
}
