// The info of jobs: append-only lists of objects.

import type { JobUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { JsonObject } from "../../domain/json.ts";
import type { Connection } from "./connection.ts";

/** Appends an entry, unless the job has as many as it may. */
export function insertInfo(
  db: Connection,
  uuid: JobUuid,
  entry: JsonObject,
  now: Instant,
  entriesMax: number,
): "appended" | "full" | "not_found" {
  const job = selectJobId(db, uuid);
  if (job === undefined) return "not_found";
  const appended = db.run(
    `INSERT INTO job_info (job_id, position, entry, created_at)
     SELECT ?1, position, ?2, ?3 FROM (
       SELECT coalesce((SELECT max(position) FROM job_info WHERE job_id = ?1) + 1, 0) AS position)
      WHERE position < ?4`,
    job,
    JSON.stringify(entry),
    now,
    entriesMax,
  );
  return appended > 0 ? "appended" : "full";
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
    "SELECT entry FROM job_info WHERE job_id = ? AND position >= ? ORDER BY position LIMIT ?",
    job,
    after,
    limit,
  );
  // The text was made by this store from an object.
  return rows.map(({ entry }) => JSON.parse(entry) as JsonObject);
}
