// The info of jobs: append-only lists of objects.

import type { JobUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { JsonObject } from "../../../domain/json.ts";
import { fitting, MEASURED_MAX, type TextPage } from "../../stored_text.ts";
import type { Transaction } from "../connection.ts";
import { wholeText } from "../held_text.ts";
import { selectJobOfLog } from "./log.ts";

/**
 * Appends an entry, unless the job has reached its limit. The row of the job is locked, so that entries of one job
 * are committed in their order.
 */
export async function insertInfo(
  tx: Transaction,
  uuid: JobUuid,
  entry: JsonObject,
  now: Instant,
  entriesMax: number,
  { attempt, call }: { readonly attempt: number | null; readonly call: string | null },
): Promise<"appended" | "full" | "not_found"> {
  const job = await tx.row<{ id: number }>(
    "SELECT id FROM jobs WHERE uuid = $1 FOR NO KEY UPDATE",
    uuid,
  );
  if (job === undefined) return "not_found";
  const appended = await tx.run(
    `INSERT INTO job_log (job_id, position, entry, created_at, attempt, call_id)
     SELECT $1, place.position, $2, $3, $5::bigint, $6 FROM (
       SELECT coalesce(
         (SELECT max(position) FROM job_log WHERE job_id = $1 AND position IS NOT NULL) + 1,
         0) AS position) AS place
      WHERE place.position < $4
     ON CONFLICT (job_id, call_id) WHERE call_id IS NOT NULL DO NOTHING`,
    job.id,
    JSON.stringify(entry),
    now,
    entriesMax,
    attempt,
    call,
  );
  return appended > 0 || await isAppended(tx, job.id, call) ? "appended" : "full";
}

/** Whether an earlier call with this id, whose answer was lost, appended its entry. */
async function isAppended(tx: Transaction, job: number, call: string | null): Promise<boolean> {
  if (call === null) return false;
  const sql = "SELECT 1 AS found FROM job_log WHERE job_id = $1 AND call_id = $2";
  return await tx.row(sql, job, call) !== undefined;
}

/** Oldest first; undefined when there is no such job. */
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
  // The text was made by this store from an object.
  return rows.map(({ entry }) => JSON.parse(entry) as JsonObject);
}

/** The next part of the same list; undefined when there is no such job. */
export async function infoTexts(
  tx: Transaction,
  uuid: JobUuid,
  after: number,
  most: number,
): Promise<TextPage | undefined> {
  const job = await selectJobOfLog(tx, uuid);
  if (job === undefined) return undefined;
  const limit = Math.min(most, MEASURED_MAX);
  const rows = await tx.rows<{ position: number; bytes: number }>(
    `SELECT position, octet_length(entry) AS bytes FROM job_log
      WHERE job_id = $1 AND position >= $2 ORDER BY position LIMIT $3`,
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
  const entries = await tx.rows<{ entry: string }>(
    `SELECT entry FROM job_log WHERE job_id = $1 AND position BETWEEN $2 AND $3 ORDER BY position`,
    job.id,
    first.position,
    place,
  );
  const text = wholeText(entries.map(({ entry }) => entry).join(","), job.secrets);
  return { texts: [text], entries: fit.length, place, last };
}
