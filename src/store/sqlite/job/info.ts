// The info of jobs: append-only lists of objects.

import type { JobUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { JsonObject } from "../../../domain/json.ts";
import type { TextPage } from "../../stored_text.ts";
import type { Connection } from "../connection.ts";
import { selectJobOfLog } from "./rows.ts";
import { fitting } from "../../stored_text.ts";
import { textAt } from "../text_parts.ts";

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

/** Whether an earlier call with this id, whose answer was lost, appended its entry. */
function isAppended(db: Connection, job: number, call: string | null): boolean {
  const sql = "SELECT 1 FROM job_log WHERE job_id = ? AND call_id = ?";
  return call !== null && db.row(sql, job, call) !== undefined;
}

function selectJobId(db: Connection, uuid: JobUuid): number | undefined {
  return db.row<{ id: number }>("SELECT id FROM jobs WHERE uuid = ?", uuid)?.id;
}

/** Oldest first; undefined when there is no such job. */
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
