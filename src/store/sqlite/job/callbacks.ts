// Callbacks of finished jobs that are still pending. The row is written with the end of the job.

import type { JobUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { DueCallback } from "../../store.ts";
import type { Connection } from "../connection.ts";
import { JOB_COLUMNS, jobFromRow, type JobRow } from "./rows.ts";

/** The job has ended: its callback is due, when it has one. */
export function insertCallback(db: Connection, id: number, now: Instant): void {
  db.run(
    `INSERT INTO callbacks (job_id, host, due_at, attempts)
     SELECT id, callback_host, ?2, 0 FROM jobs WHERE id = ?1 AND callback_url IS NOT NULL`,
    id,
    now,
  );
}

/** Takes the callbacks that are due, and puts each off until `again`. */
export function takeCallbacks(
  db: Connection,
  now: Instant,
  again: Instant,
  limit: number,
  passedOver: readonly string[],
): DueCallback[] {
  const taken = db.rows<{ job_id: number; attempts: number }>(
    `UPDATE callbacks SET due_at = ?2, attempts = attempts + 1
      WHERE job_id IN (
        SELECT job_id FROM callbacks
         WHERE due_at <= ?1 AND host NOT IN (SELECT value FROM json_each(?4))
         ORDER BY due_at LIMIT ?3)
     RETURNING job_id, attempts`,
    now,
    again,
    limit,
    JSON.stringify(passedOver),
  );
  return taken.flatMap(({ job_id, attempts }) => {
    const row = db.row<JobRow>(`SELECT ${JOB_COLUMNS} FROM jobs WHERE id = ?`, job_id);
    if (row === undefined || row.callback_url === null) return [];
    return [{ job: jobFromRow(db, row), url: row.callback_url, attempts: attempts - 1 }];
  });
}

/** When the first callback is due. */
export function selectNextCallback(
  db: Connection,
  passedOver: readonly string[],
): Instant | undefined {
  const row = db.row<{ due: Instant | null }>(
    `SELECT min(due_at) AS due FROM callbacks
      WHERE host NOT IN (SELECT value FROM json_each(?))`,
    JSON.stringify(passedOver),
  );
  return row?.due ?? undefined;
}

/** The callback was answered, or is given up. */
export function deleteCallback(db: Connection, uuid: JobUuid): void {
  db.run("DELETE FROM callbacks WHERE job_id = (SELECT id FROM jobs WHERE uuid = ?)", uuid);
}

/** The next attempt is due then. */
export function postponeCallback(db: Connection, uuid: JobUuid, due_at: Instant): void {
  db.run(
    "UPDATE callbacks SET due_at = ?2 WHERE job_id = (SELECT id FROM jobs WHERE uuid = ?1)",
    uuid,
    due_at,
  );
}
