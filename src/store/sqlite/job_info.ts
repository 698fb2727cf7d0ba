// The info of jobs: append-only lists of objects.

import type { JobUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { JsonObject } from "../../domain/json.ts";
import type { Connection } from "./connection.ts";

/** @returns whether the job was there */
export function insertInfo(
  db: Connection,
  uuid: JobUuid,
  entry: JsonObject,
  now: Instant,
): boolean {
  return db.run(
    `INSERT INTO job_info (job_id, position, entry, created_at)
     SELECT id,
            (SELECT coalesce(max(position) + 1, 0) FROM job_info WHERE job_id = jobs.id), ?2, ?3
       FROM jobs WHERE uuid = ?1`,
    uuid,
    JSON.stringify(entry),
    now,
  ) > 0;
}

/** Oldest first; undefined when there is no such job. */
export function selectInfo(db: Connection, uuid: JobUuid, after: number): JsonObject[] | undefined {
  const job = db.row<{ id: number }>("SELECT id FROM jobs WHERE uuid = ?", uuid);
  if (job === undefined) return undefined;
  const rows = db.rows<{ entry: string }>(
    "SELECT entry FROM job_info WHERE job_id = ? AND position >= ? ORDER BY position",
    job.id,
    after,
  );
  // The text was made by this store from an object.
  return rows.map(({ entry }) => JSON.parse(entry) as JsonObject);
}
