// The log of a job: its info entries and its failed attempts, stored as in sqlite/job/log.ts.

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
import { fitting, MEASURED_MAX, type TextPage } from "../../stored_text.ts";
import type { Transaction } from "../connection.ts";
import { type ByLife, isLatest, secretsFrom, secretsOf } from "../statements.ts";
import { type Instant, instantAfter, MS_PER_SECOND } from "../../../domain/instant.ts";
import type { JsonObject } from "../../../domain/json.ts";
import { wholeText } from "../large_text.ts";
import { ATTEMPTS_KEPT, type FailedAttempt } from "../../../domain/job/job.ts";
import type { AttemptRecord } from "../../run_store.ts";
import type { BoundValue } from "../server.ts";
import { definitionOf, secretNamesOf } from "./rows.ts";

/** The id of a job whose log is read, with the names of its secrets as a JSON list. */
async function selectJobOfLog(
  tx: Transaction,
  uuid: JobUuid,
): Promise<{ readonly id: number; readonly secrets: string | null } | undefined> {
  const row = await tx.row<{ id: number; secrets: string | null }>(
    `SELECT id, ${secretsOf("props")} AS secrets FROM jobs WHERE uuid = $1`,
    uuid,
  );
  return row === undefined ? undefined : { id: row.id, secrets: secretsFrom(row.secrets) };
}

/** A page of lines, oldest first; undefined when the job does not exist. */
export async function selectLog(
  tx: Transaction,
  uuid: JobUuid,
  page: JobLogPage,
): Promise<JobLogPart | undefined> {
  const job = await selectJobOfLog(tx, uuid);
  if (job === undefined) return undefined;
  const backwards = page.after === undefined;
  const { before = Number.MAX_SAFE_INTEGER, after = -1 } = page;
  const select = backwards ? selectNewest : selectOldest;
  const found = await select(tx, job.id, after, before, page.limit + 1);
  const fit = found.slice(0, Math.min(fitting(found, 0, LOG_PAGE_BYTES), page.limit));
  const lines = await selectLines(tx, fit.map(({ seq }) => seq));
  return {
    lines: lines.map(lineFromRow),
    more: fit.length < found.length,
    // This store made the text from a list of names.
    secrets: job.secrets === null ? [] : JSON.parse(job.secrets) as string[],
  };
}

/** Lines strictly between two others. */
type SelectSizedLines = (
  tx: Transaction,
  job: number,
  after: number,
  before: number,
  limit: number,
) => Promise<SizedLine[]>;

const selectNewest: SelectSizedLines = (tx, ...bounds) =>
  tx.rows<SizedLine>(
    `SELECT seq, octet_length(entry) AS bytes FROM job_log
      WHERE job_id = $1 AND seq > $2 AND seq < $3 ORDER BY seq DESC LIMIT $4`,
    ...bounds,
  );

const selectOldest: SelectSizedLines = (tx, ...bounds) =>
  tx.rows<SizedLine>(
    `SELECT seq, octet_length(entry) AS bytes FROM job_log
      WHERE job_id = $1 AND seq > $2 AND seq < $3 ORDER BY seq LIMIT $4`,
    ...bounds,
  );

function selectLines(tx: Transaction, seqs: readonly number[]): Promise<LineRow[]> {
  return tx.rows<LineRow>(
    `SELECT seq, phase, attempt, entry, created_at FROM job_log
      WHERE seq = ANY($1::bigint[]) ORDER BY seq`,
    seqs,
  );
}

/** The failed attempts of a job by phase and task; none when the job does not exist. */
export async function selectAttempts(tx: Transaction, uuid: JobUuid): Promise<JobAttempt[]> {
  const attempts: JobAttempt[] = [];
  for (const phase of PHASES) {
    const rows = await tx.rows<AttemptRow>(
      `SELECT phase, task, attempt, entry, created_at FROM job_log
        WHERE job_id = (SELECT id FROM jobs WHERE uuid = $1) AND phase = $2
        ORDER BY task DESC, attempt DESC LIMIT ${ATTEMPTS_OF_A_PHASE_MAX}`,
      uuid,
      phase,
    );
    attempts.push(...rows.reverse().map(attemptFromRow));
  }
  return attempts;
}

/**
 * Appends an entry, unless the job has reached its limit. The job's row is locked, so that entries of one job commit in
 * their order.
 */
export async function insertInfo(
  tx: Transaction,
  uuid: JobUuid,
  entry: JsonObject,
  now: Instant,
  entriesMax: number,
  { attempt, call }: { readonly attempt: number | null; readonly call: string | null },
): Promise<"appended" | "full" | "not_found"> {
  const id = await lockJob(tx, uuid);
  if (id === undefined) return "not_found";
  const appended = await tx.run(
    `INSERT INTO job_log (job_id, position, entry, created_at, attempt, call_id)
     SELECT $1, place.position, $2, $3, $5::bigint, $6 FROM (
       SELECT coalesce(
         (SELECT max(position) FROM job_log WHERE job_id = $1 AND position IS NOT NULL) + 1,
         0) AS position) AS place
      WHERE place.position < $4
     ON CONFLICT (job_id, call_id) WHERE call_id IS NOT NULL DO NOTHING`,
    id,
    JSON.stringify(entry),
    now,
    entriesMax,
    attempt,
    call,
  );
  return appended > 0 || await isAppended(tx, id, call) ? "appended" : "full";
}

/** The id of a job, whose row is locked until the end of the transaction. */
async function lockJob(tx: Transaction, uuid: JobUuid): Promise<number | undefined> {
  const sql = "SELECT id FROM jobs WHERE uuid = $1 FOR NO KEY UPDATE";
  return (await tx.row<{ id: number }>(sql, uuid))?.id;
}

/** Whether an earlier call with this id appended the entry and its answer was lost. */
async function isAppended(tx: Transaction, job: number, call: string | null): Promise<boolean> {
  if (call === null) return false;
  const sql = "SELECT 1 AS found FROM job_log WHERE job_id = $1 AND call_id = $2";
  return await tx.row(sql, job, call) !== undefined;
}

/** Info entries, oldest first; undefined when the job does not exist. */
export async function selectInfo(
  tx: Transaction,
  uuid: JobUuid,
  after: number,
  limit: number | undefined,
): Promise<JsonObject[] | undefined> {
  const job = await selectJobOfLog(tx, uuid);
  if (job === undefined) return undefined;
  const rows = await tx.rows<{ entry: string }>(
    "SELECT entry FROM job_log WHERE job_id = $1 AND position >= $2 ORDER BY position LIMIT $3",
    job.id,
    after,
    limit ?? null,
  );
  // This store made the text from an object.
  return rows.map(({ entry }) => JSON.parse(entry) as JsonObject);
}

/** The next part of the same list as texts; undefined when the job does not exist. */
export async function infoTexts(
  tx: Transaction,
  uuid: JobUuid,
  after: number,
  most: number,
): Promise<TextPage | undefined> {
  const job = await selectJobOfLog(tx, uuid);
  if (job === undefined) return undefined;
  const limit = Math.min(most, MEASURED_MAX);
  const rows = await selectSizes(tx, job.id, after, limit);
  const fit = rows.slice(0, fitting(rows));
  const [first] = fit;
  const place = fit.at(-1)?.position;
  const last = rows.length < limit && fit.length === rows.length;
  if (first === undefined || place === undefined) {
    return { texts: [], entries: 0, place: undefined, last };
  }
  const entries = await selectEntries(tx, job.id, first.position, place);
  const text = wholeText(entries.map(({ entry }) => entry).join(","), job.secrets);
  return { texts: [text], entries: fit.length, place, last };
}

function selectSizes(
  tx: Transaction,
  job: number,
  after: number,
  limit: number,
): Promise<{ readonly position: number; readonly bytes: number }[]> {
  return tx.rows(
    `SELECT position, octet_length(entry) AS bytes FROM job_log
      WHERE job_id = $1 AND position >= $2 ORDER BY position LIMIT $3`,
    job,
    after,
    limit,
  );
}

function selectEntries(
  tx: Transaction,
  job: number,
  first: number,
  last: number,
): Promise<{ readonly entry: string }[]> {
  return tx.rows(
    "SELECT entry FROM job_log WHERE job_id = $1 AND position BETWEEN $2 AND $3 ORDER BY position",
    job,
    first,
    last,
  );
}

/**
 * Records a failed attempt that will be repeated, unless the runner has lost the job. Writing the same record twice has
 * no effect.
 * @returns whether the claim held
 */
export async function recordAttempt(
  tx: Transaction,
  record: AttemptRecord & ByLife,
): Promise<boolean> {
  const { attempt, failures, phase, elapsed_ms } = record;
  const { state } = heldIn(phase);
  const hold = [record.job_uuid, record.runner_id, record.lease, executionOf(state), phase];
  const row = await tx.row<{ id: number }>(
    `UPDATE jobs SET failures = $6::bigint + 1, retry_at = $7, elapsed_ms = $8, elapsed_at = $9,
            params = $10, props = $11,
            requested_params = coalesce(requested_params, CASE WHEN params <> $10 THEN params END)
      WHERE uuid = $1 AND runner_id = $2 AND lease = $3 AND execution = $4 AND phase = $5
        AND failures = $6::bigint AND ${isLatest("$12")}
     RETURNING id`,
    ...hold,
    failures,
    instantAfter(tx.now, attempt.wait_seconds * MS_PER_SECOND),
    Math.round(elapsed_ms),
    tx.now,
    JSON.stringify(record.params),
    JSON.stringify(record.props),
    record.life ?? null,
  );
  if (row === undefined) return await isRecorded(tx, hold, failures + 1);
  await insertAttempt(tx, row.id, phase, attempt);
  return true;
}

async function isRecorded(
  tx: Transaction,
  hold: readonly BoundValue[],
  failures: number,
): Promise<boolean> {
  const row = await tx.row(
    `SELECT 1 AS found FROM jobs
      WHERE uuid = $1 AND runner_id = $2 AND lease = $3 AND execution = $4 AND phase = $5
        AND failures = $6`,
    ...hold,
    failures,
  );
  return row !== undefined;
}

/** Adds an attempt to the log of its job, and removes an older one beyond the limit. */
export async function insertAttempt(
  tx: Transaction,
  id: number,
  phase: Phase,
  attempt: FailedAttempt,
): Promise<void> {
  const secrets = await secretNamesOf(tx, id);
  await tx.run(
    `INSERT INTO job_log (job_id, phase, task, attempt, entry, created_at)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    id,
    phase,
    attempt.index,
    attempt.attempt,
    attemptText(attempt, () => secrets),
    attempt.finished_at,
  );
  await deleteMiddleAttempt(tx, id, phase, attempt);
}

/** Removes the attempt that is now between the first and the last ones to keep. */
async function deleteMiddleAttempt(
  tx: Transaction,
  id: number,
  phase: Phase,
  { index, attempt: number }: FailedAttempt,
): Promise<void> {
  await tx.run(
    `DELETE FROM job_log
      WHERE job_id = $1 AND phase = $2 AND task = $3 AND attempt > $4 AND attempt <= $5`,
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
export async function insertInterrupted(tx: Transaction, id: number): Promise<boolean> {
  const row = await tx.row<InterruptedRow>(
    `SELECT id, phase, definition_id, starts, failures, elapsed_at, retry_at,
            (SELECT count(*) FROM task_results
              WHERE job_id = jobs.id AND task_results.phase = jobs.phase) AS "index"
       FROM jobs WHERE id = $1 AND runner_id IS NOT NULL`,
    id,
  );
  if (row === undefined) return true;
  const task = (await definitionOf(tx, row.definition_id))[row.phase][row.index];
  // The phase was complete, but its end was not recorded yet.
  if (task === undefined) return true;
  const attempt = interruptedAttempt(row, task, tx.now);
  if (attempt === undefined) return false;
  await insertAttempt(tx, id, row.phase, attempt);
  return true;
}
