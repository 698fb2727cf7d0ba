// Pending callbacks of finished jobs. A callback's row is inserted in the transaction that ends the job.

import type { JobUuid } from "../../../domain/id.ts";
import { type Instant, instantAfter } from "../../../domain/instant.ts";
import type { NextDue } from "../../run_store.ts";
import type { DueCallback } from "../../store.ts";
import { dueFrom, JOB_COLUMNS, type JobRow } from "../../sql.ts";
import type { Connection } from "../connection.ts";

import { jobFromRow } from "./rows.ts";

/** Inserts the callback of a job that has ended, if it has one. */
export function insertCallback(
  db: Connection,
  { id, callback_host }: { readonly id: number; readonly callback_host: string | null },
  now: Instant,
): void {
  if (callback_host === null) return;
  // A trigger then keeps the job from being removed.
  db.counters.write();
  db.run(
    "INSERT INTO callbacks (job_id, host, due_at, attempts) VALUES (?, ?, ?, 0)",
    id,
    callback_host,
    now,
  );
  db.notify({ kind: "callback" });
}

/** A callback that was taken, and how often so far. */
interface TakenRow {
  readonly job_id: number;
  readonly attempts: number;
}

/** Takes the due callbacks, each of which becomes due again later. */
export function takeCallbacks(
  db: Connection,
  now: Instant,
  againMs: number,
  limit: number,
  passedOver: readonly string[],
): DueCallback[] {
  const again = instantAfter(now, againMs);
  return updateTaken(db, now, again, limit, passedOver).flatMap(({ job_id, attempts }) => {
    const row = selectJobById(db, job_id);
    if (row === undefined || row.callback_url === null) return [];
    return [{ job: jobFromRow(db, row), url: row.callback_url, attempts: attempts - 1 }];
  });
}

function updateTaken(
  db: Connection,
  now: Instant,
  again: Instant,
  limit: number,
  passedOver: readonly string[],
): TakenRow[] {
  return db.rows<TakenRow>(
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
}

function selectJobById(db: Connection, id: number): JobRow | undefined {
  return db.row<JobRow>(`SELECT ${JOB_COLUMNS} FROM jobs WHERE id = ?`, id);
}

/** When the first callback is due. */
export function selectNextCallback(
  db: Connection,
  now: Instant,
  passedOver: readonly string[],
): NextDue {
  const row = db.row<{ due: Instant | null }>(
    `SELECT min(due_at) AS due FROM callbacks
      WHERE host NOT IN (SELECT value FROM json_each(?))`,
    JSON.stringify(passedOver),
  );
  return dueFrom(now, row?.due ?? null);
}

/** Removes a callback that was delivered or abandoned. */
export function deleteCallback(db: Connection, uuid: JobUuid): void {
  db.run("DELETE FROM callbacks WHERE job_id = (SELECT id FROM jobs WHERE uuid = ?)", uuid);
}

/** Sets when the next attempt is due. */
export function postponeCallback(db: Connection, uuid: JobUuid, due_at: Instant): void {
  db.run(
    "UPDATE callbacks SET due_at = ?2 WHERE job_id = (SELECT id FROM jobs WHERE uuid = ?1)",
    uuid,
    due_at,
  );
}
