// The log of a job: its info entries and its failed attempts, in one order. Failed attempts do not appear in the info, and
// only the first and the last ones of each task are kept, so a task may fail any number of times. Each statement follows an
// index of one job and stops after a page.

import type { JobUuid } from "../../../domain/id.ts";
import { executionOf, heldIn, type Phase, PHASES } from "../../../domain/job/state.ts";
import type { InterruptedRow } from "../../sql.ts";
import {
  attemptFromRow,
  type AttemptRow,
  ATTEMPTS_OF_A_PHASE_MAX,
  attemptText,
  interruptedAttempt,
  lineFromRow,
  type LineRow,
  type SizedLine,
} from "../../summary_rows.ts";
import { type JobAttempt, type JobLogPage, type JobLogPart, LOG_PAGE_BYTES } from "../../store.ts";
import { fitting, type TextPage } from "../../stored_text.ts";
import type { Connection } from "../connection.ts";
import { definitionOf, secretNamesOf, selectJobOfLog } from "./rows.ts";
import { type Instant, instantAfter, MS_PER_SECOND } from "../../../domain/instant.ts";
import type { JsonObject } from "../../../domain/json.ts";
import { textAt } from "../text_parts.ts";
import { ATTEMPTS_KEPT, type FailedAttempt } from "../../../domain/job/job.ts";
import type { AttemptRecord } from "../../run_store.ts";
import { changingJob } from "./texts.ts";
import { traceAttempt } from "./traces.ts";

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

/** Appends an entry, unless the job has reached its limit. */
export function insertInfo(
  db: Connection,
  uuid: JobUuid,
  entry: JsonObject,
  now: Instant,
  entriesMax: number,
  { attempt, call }: { readonly attempt: number | null; readonly call: string | null },
): "appended" | "full" | "not_found" {
  const job = selectJobId(db, uuid);
  if (job === undefined) return "not_found";
  // The line has an event too.
  db.events.write();
  const appended = db.run(
    `INSERT INTO job_log (job_id, position, entry, created_at, attempt, call_id)
     SELECT ?1, position, ?2, ?3, ?5, ?6 FROM (
       SELECT coalesce(
         (SELECT max(position) FROM job_log WHERE job_id = ?1 AND position IS NOT NULL) + 1,
         0) AS position)
      WHERE position < ?4
     ON CONFLICT (job_id, call_id) WHERE call_id IS NOT NULL DO NOTHING`,
    job,
    JSON.stringify(entry),
    now,
    entriesMax,
    attempt,
    call,
  );
  return appended > 0 || isAppended(db, job, call) ? "appended" : "full";
}

/** Whether an earlier call with this id appended the entry and its answer was lost. */
function isAppended(db: Connection, job: number, call: string | null): boolean {
  const sql = "SELECT 1 FROM job_log WHERE job_id = ? AND call_id = ?";
  return call !== null && db.row(sql, job, call) !== undefined;
}

function selectJobId(db: Connection, uuid: JobUuid): number | undefined {
  return db.row<{ id: number }>("SELECT id FROM jobs WHERE uuid = ?", uuid)?.id;
}

/** Info entries, oldest first; undefined when the job does not exist. */
export function selectInfo(
  db: Connection,
  uuid: JobUuid,
  after: number,
  limit: number,
): JsonObject[] | undefined {
  const job = selectJobId(db, uuid);
  if (job === undefined) return undefined;
  const rows = db.rows<{ entry: string }>(
    "SELECT entry FROM job_log WHERE job_id = ? AND position >= ? ORDER BY position LIMIT ?",
    job,
    after,
    limit,
  );
  // The text was made by this store from an object.
  return rows.map(({ entry }) => JSON.parse(entry) as JsonObject);
}

/** The next part of the same list; undefined when there is no such job. */
export function infoTexts(
  db: Connection,
  uuid: JobUuid,
  after: number,
  limit: number,
): TextPage | undefined {
  const job = selectJobOfLog(db, uuid);
  if (job === undefined) return undefined;
  const rows = db.rows<{ position: number; bytes: number }>(
    `SELECT position, octet_length(entry) AS bytes FROM job_log
      WHERE job_id = ? AND position >= ? ORDER BY position LIMIT ?`,
    job.id,
    after,
    limit,
  );
  const fit = rows.slice(0, fitting(rows));
  const [first] = fit;
  const place = fit.at(-1)?.position;
  const last = rows.length < limit && fit.length === rows.length;
  if (first === undefined || place === undefined) {
    return { texts: [], entries: 0, place: undefined, last };
  }
  const text = textAt(db, {
    // Entries are only added, never changed.
    row: `info ${job.id}`,
    sql: "group_concat(entry, ',')",
    from: `(SELECT entry FROM job_log WHERE job_id = ? AND position BETWEEN ? AND ?
             ORDER BY position)`,
    values: [job.id, first.position, place],
    bytes: fit.reduce((sum, { bytes }) => sum + bytes, fit.length - 1),
  }, job.secrets);
  return { texts: [text], entries: fit.length, place, last };
}

/**
 * Records a failed attempt that will be repeated, unless the runner has lost the job. Writing the same
 * record again has no effect. @returns whether the claim held
 */
export function recordAttempt(db: Connection, record: AttemptRecord, now: Instant): boolean {
  const { attempt, failures, phase, elapsed_ms } = record;
  changingJob(db, record.job_uuid);
  const { state } = heldIn(phase);
  const hold = [record.job_uuid, record.runner_id, record.lease, executionOf(state), phase];
  const row = db.row<{ id: number }>(
    `UPDATE jobs SET failures = ?6 + 1, retry_at = ?7, elapsed_ms = ?8, elapsed_at = ?9,
            params = ?10, props = ?11,
            requested_params = coalesce(requested_params, CASE WHEN params <> ?10 THEN params END)
      WHERE uuid = ?1 AND runner_id = ?2 AND lease = ?3 AND execution = ?4 AND phase = ?5
        AND failures = ?6
     RETURNING id`,
    ...hold,
    failures,
    instantAfter(now, attempt.wait_seconds * MS_PER_SECOND),
    Math.round(elapsed_ms),
    now,
    JSON.stringify(record.params),
    JSON.stringify(record.props),
  );
  if (row === undefined) return isRecorded(db, hold, failures + 1);
  traceAttempt(db, row.id, executionOf(state), phase, now);
  insertAttempt(db, row.id, phase, attempt);
  return true;
}

function isRecorded(
  db: Connection,
  hold: readonly (string | number)[],
  failures: number,
): boolean {
  return db.row(
    `SELECT 1 FROM jobs
      WHERE uuid = ? AND runner_id = ? AND lease = ? AND execution = ? AND phase = ?
        AND failures = ?`,
    ...hold,
    failures,
  ) !== undefined;
}

/** Adds an attempt to the log of its job, and drops an older one beyond the limit. */
export function insertAttempt(
  db: Connection,
  id: number,
  phase: Phase,
  attempt: FailedAttempt,
): void {
  // The line has an event too.
  db.events.write();
  db.run(
    `INSERT INTO job_log (job_id, phase, task, attempt, entry, created_at)
     VALUES (?, ?, ?, ?, ?, ?)`,
    id,
    phase,
    attempt.index,
    attempt.attempt,
    attemptText(attempt, () => secretNamesOf(db, id)),
    attempt.finished_at,
  );
  deleteMiddleAttempt(db, id, phase, attempt);
}

/** Removes the attempt that is now between the first and the last ones to keep. */
function deleteMiddleAttempt(
  db: Connection,
  id: number,
  phase: Phase,
  { index, attempt: number }: FailedAttempt,
): void {
  db.run(
    `DELETE FROM job_log
      WHERE job_id = ?1 AND phase = ?2 AND task = ?3 AND attempt > ?4 AND attempt <= ?5`,
    id,
    phase,
    index,
    ATTEMPTS_KEPT.first,
    number - ATTEMPTS_KEPT.last,
  );
}

/**
 * Records the attempt that was interrupted with the runner of a held job, if any.
 * @returns false when the job was waiting for its next attempt
 */
export function insertInterrupted(db: Connection, id: number, now: Instant): boolean {
  const row = db.row<InterruptedRow>(
    `SELECT id, phase, definition_id, starts, failures, elapsed_at, retry_at,
            (SELECT count(*) FROM task_results
              WHERE job_id = jobs.id AND phase = jobs.phase) AS "index"
       FROM jobs WHERE id = ? AND runner_id IS NOT NULL`,
    id,
  );
  if (row === undefined) return true;
  const task = definitionOf(db, row.definition_id)[row.phase][row.index];
  // The phase was complete, but its end was not recorded yet.
  if (task === undefined) return true;
  const attempt = interruptedAttempt(row, task, now);
  if (attempt === undefined) return false;
  insertAttempt(db, id, row.phase, attempt);
  return true;
}
